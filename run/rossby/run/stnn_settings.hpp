#pragma once

#include <memory>

#include "rossby/data/batches.hpp"
#include "rossby/kernels/update_place.hpp"
#include "rossby/model/stnn/architecture.hpp"
#include "rossby/model/stnn/stnn.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/stnn_task.hpp"

// Makes the settings of an STNN from a configuration. Errors are UserErrors that name the key.

namespace rossby {

/// model.*
[[nodiscard]] const StnnSettings& stnn_settings(const Config& config);
[[nodiscard]] StnnOptions model_options(const Config& config, const Domain& domain);
/// train.*, and this rank's place in the grid.
[[nodiscard]] BatchOptions batch_options(const Config& config, const ProcessGrid& grid);
[[nodiscard]] StnnTaskOptions task_options(const Config& config);

/// Returns bytes for chunks of streamed relations: at most a third of what a rank may take of its device or,
/// without one, could take.
[[nodiscard]] double stream_bytes(const Config& config);
/// Throws UserError if learned relations start at a value that they never leave.
void check_starts(const Config& config, Index nodes);

/// Throws UserError if the optimiser would not take the rates.
void check_rates(const Config& config);
/// Returns the most MiB of weights in a chunk of a streamed relation: two chunks of weights and two moments
/// fit into stream_bytes.
[[nodiscard]] double most_chunk_mib(const Config& config);
/// Returns the MiB of weights in a chunk of a dense learned relation; 0: all weights at once.
[[nodiscard]] double chunk_mib(const Config& config, const Device* device);

/// True if relation.memory = "streamed" is possible with the other keys.
[[nodiscard]] bool streamable(const Config& config);

/// Returns where a relation that streams to a device is updated: as relation.update says, or as a trial on
/// this rank's `rows` finds. All ranks together still have to choose() from the results.
template <class T>
[[nodiscard]] UpdatePlaceChoice try_update_places(const Exec& exec, const Config& config, Index nodes,
                                                  Index rows);

/// Makes the relations of relation.*; ghosts are unknown yet, and nothing is finished. `device`: of the
/// training; null: host. `turned`: for given weights. Collective over `comm`.
template <class T>
[[nodiscard]] std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                                           const Domain& domain, Device* device,
                                                           UpdatePlace place, TurnedSigns turned);

/// Sets decays and rates of each parameter for the optimiser.
template <class T>
void set_rates(const Config& config, Stnn<T>& model);

}  // namespace rossby
