#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

struct RelationOptions {
  std::string output;               // file; empty: relations.nc in the run directory
  Index edges = 8;                  // of each node, of relations between all nodes
  std::vector<std::string> places;  // nodes whose influence is mapped; empty: the one that acts most
  std::vector<std::string> sets;    // of keys that leave the model as it is
  bool may_lack = false;            // a model that learns none is no error
  bool prints = false;
};

/// Writes the relations between nodes that a run has learned as NetCDF (relation_file.hpp) and returns the
/// file's path. Any number of ranks. Empty if the model learns none and may. Throws UserError if it learns
/// none and may not, if a place is no node, and if the file cannot be written. Collective.
std::string write_relations(const Communicator& comm, const std::string& run, const RelationOptions& options);

}  // namespace rossby
