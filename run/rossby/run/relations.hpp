#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

struct RelationOptions {
  std::string output;               // file; empty: relations.nc in the run directory
  Index edges = 8;                  // kept for each node of relations between all nodes
  std::vector<std::string> places;  // nodes whose influence is mapped; empty: the node that acts most
  std::vector<std::string> sets;    // key=value; keys that leave the model as it is
  bool may_lack = false;            // if the model learns none, return an empty path
  bool prints = false;
};

/// Writes the relations between nodes that a run has learned as NetCDF (relation_file.hpp), and returns the
/// file's path. Runs on any number of ranks. Throws UserError if the model learns none and `may_lack` is
/// false, if a place is no node, and if the file cannot be written. Collective.
std::string write_relations(const Communicator& comm, const std::string& run, const RelationOptions& options);

}  // namespace rossby
