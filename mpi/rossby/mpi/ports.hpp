#pragma once

#include <memory>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/row_link.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/relation_block.hpp"

// What a rank of a training talks to others through: over MPI and PETSc, or traced
// (rossby/exchange/traced.hpp) where the ranks are pretended. All are collective.

namespace rossby {

/// Of the rows that sparse relations name.
[[nodiscard]] std::unique_ptr<Exchange> make_halo_exchange(const Communicator& space, const Domain& domain,
                                                           const GhostList& ghosts);

/// Of all rows.
[[nodiscard]] std::unique_ptr<Exchange> make_all_rows_exchange(const Communicator& space,
                                                               const Domain& domain);

/// Of time steps; `time` as in ProcessGrid.
[[nodiscard]] std::unique_ptr<StepExchange> make_step_exchange(const Communicator& time);

[[nodiscard]] std::unique_ptr<RowLink> make_row_link(const Communicator& time);

[[nodiscard]] std::unique_ptr<GroupGather> make_group_gather(const Communicator& time);

}  // namespace rossby
