#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// Values to subtract from a run's nodes before conversion to float32, (nodes, m) by global row. They are
/// each node's first value, for features whose variations float32 would lose in the training part
/// (float_loss). Empty for nearly all data: nothing is subtracted. Otherwise `remark` gets a line about them.
/// Collective.
[[nodiscard]] std::vector<double> find_centers(const Communicator& comm, const SeriesFile& file,
                                               const Domain& domain, std::string& remark);

/// The centers of this rank's rows, (rows, m).
[[nodiscard]] std::vector<double> centers_of_rows(const Domain& domain);

}  // namespace rossby
