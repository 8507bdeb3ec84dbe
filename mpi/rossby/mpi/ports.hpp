#pragma once

#include <memory>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/row_link.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/relation_block.hpp"

// Ports between the ranks of a training: over MPI and PETSc, or traced (rossby/exchange/traced.hpp) for
// pretended ranks. All are collective.

namespace rossby {

/// Exchange of the rows that sparse relations refer to.
[[nodiscard]] std::unique_ptr<Exchange> make_halo_exchange(const Communicator& space, const Domain& domain,
                                                           const GhostList& ghosts);

/// Exchange of all rows.
[[nodiscard]] std::unique_ptr<Exchange> make_all_rows_exchange(const Communicator& space,
                                                               const Domain& domain);

/// Exchange of time steps; `time` as in ProcessGrid.
[[nodiscard]] std::unique_ptr<StepExchange> make_step_exchange(const Communicator& time);

[[nodiscard]] std::unique_ptr<RowLink> make_row_link(const Communicator& time);

[[nodiscard]] std::unique_ptr<GroupGather> make_group_gather(const Communicator& time);

}  // namespace rossby
