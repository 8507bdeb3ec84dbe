#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/key.hpp"

// Settings of this room, read from the configuration. The tables in settings.cpp explain each one.

namespace rossby {

/// Keys relation.*: relations between nodes, given and learned.
struct RelationSettings {
  std::string graph;
  std::string file;
  std::string mode;
  std::vector<Index> hops;
  bool normalise = false;
  bool self_loops = false;
  std::string periodic_lon;
  Index neighbours = 0;
  std::string storage;
  std::string precision;
  double refine_start = 0;
  bool self = false;
  double self_start = 0;
  std::string discover;
  std::string discover_start;
  std::string memory;
  double chunk_mib = 0;
  double stream_gib = 0;
  std::string transfer;
  std::string update;
  std::string stream_folder;
  Index rank = 0;
  std::string low_rank_start;
};
[[nodiscard]] std::span<const Key<RelationSettings>> relation_keys();

}  // namespace rossby
