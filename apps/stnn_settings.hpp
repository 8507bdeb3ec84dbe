#pragma once

#include <memory>

#include "rossby/data/batches.hpp"
#include "rossby/io/config.hpp"
#include "rossby/model/stnn.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/train/stnn_task.hpp"

// What the keys of a configuration make of an STNN. Errors are UserErrors that name the key.

namespace rossby {

[[nodiscard]] StnnOptions model_options(const Config& config, const Domain& domain);
/// train.*, and this rank's place in the grid.
[[nodiscard]] BatchOptions batch_options(const Config& config, const ProcessGrid& grid);
[[nodiscard]] StnnTaskOptions task_options(const Config& config);

/// relation.*: no ghosts are known yet, nothing is finished. `device`: that trains, null: the host.
/// Collective over `comm`.
template <class T>
[[nodiscard]] std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                                           const Domain& domain, Device* device);

/// What the optimiser has to know of each parameter: decays and rates.
template <class T>
void set_rates(const Config& config, Stnn<T>& model);

}  // namespace rossby
