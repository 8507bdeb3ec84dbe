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

// What the keys of a configuration make of an STNN. Errors are UserErrors that name the key.

namespace rossby {

/// model.*
[[nodiscard]] const StnnSettings& stnn_settings(const Config& config);
[[nodiscard]] StnnOptions model_options(const Config& config, const Domain& domain);
/// train.*, and this rank's place in the grid.
[[nodiscard]] BatchOptions batch_options(const Config& config, const ProcessGrid& grid);
[[nodiscard]] StnnTaskOptions task_options(const Config& config);

/// Bytes for chunks of streamed relations: no more than a third of what a rank may take of its device, or,
/// where there is none, would.
[[nodiscard]] double stream_bytes(const Config& config);
/// Throws UserError where relations that are to be learned start at a value that they never leave.
void check_starts(const Config& config, Index nodes);

/// Throws UserError where rates are asked for that the optimiser would not take.
void check_rates(const Config& config);
/// The most MiB of weights that a chunk of a streamed relation may have: two of them, of weights and two
/// moments, within stream_bytes.
[[nodiscard]] double most_chunk_mib(const Config& config);
/// MiB of weights that a dense learned relation is worked on by; 0: all.
[[nodiscard]] double chunk_mib(const Config& config, const Device* device);

/// Whether relation.memory = "streamed" is possible with the other keys.
[[nodiscard]] bool streamable(const Config& config);

/// Where a relation that streams to a device is updated: as relation.update says, or what a trial of this
/// rank's `rows` finds. The choice is still to be made, of what all ranks found (choose()).
template <class T>
[[nodiscard]] UpdatePlaceChoice try_update_places(const Exec& exec, const Config& config, Index nodes,
                                                  Index rows);

/// relation.*: no ghosts are known yet, nothing is finished. `device`: that trains, null: the host. `turned`:
/// of weights that count. Collective over `comm`.
template <class T>
[[nodiscard]] std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                                           const Domain& domain, Device* device,
                                                           UpdatePlace place, TurnedSigns turned);

/// What the optimiser has to know of each parameter: decays and rates.
template <class T>
void set_rates(const Config& config, Stnn<T>& model);

}  // namespace rossby
