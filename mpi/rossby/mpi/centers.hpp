#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// What is subtracted from the values of a run's nodes before they become float32, (nodes, m) by global row:
/// each node's first value, for the features whose variations float32 would lose (float_loss, of the training
/// part). Empty: nothing, as of nearly all data. `remark` then has a line on it. Collective.
[[nodiscard]] std::vector<double> find_centers(const Communicator& comm, const SeriesFile& file,
                                               const Domain& domain, std::string& remark);

/// Those of this rank's rows, (rows, m).
[[nodiscard]] std::vector<double> centers_of_rows(const Domain& domain);

}  // namespace rossby
