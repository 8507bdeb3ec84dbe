#include "rossby/mpi/ports.hpp"

#include "rossby/exchange/one_rank.hpp"
#include "rossby/exchange/traced.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/mpi_row_link.hpp"
#include "rossby/mpi/mpi_step_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/whole_graph.hpp"

namespace rossby {

std::unique_ptr<Exchange> make_halo_exchange(const Communicator& space, const Domain& domain,
                                             const GhostList& ghosts) {
  if (space.is_pretended()) return std::make_unique<TracedHalo>(domain.cut->halo(space.rank()));
  if (space.size() == 1) return std::make_unique<OneRankExchange>(domain.partition.size(0));
  return std::make_unique<NeighbourExchange>(space, domain.partition, space.rank(), ghosts);
}

std::unique_ptr<Exchange> make_all_rows_exchange(const Communicator& space, const Domain& domain) {
  if (space.is_pretended()) return std::make_unique<TracedAllRows>(domain.partition, space.rank());
  return std::make_unique<AllgatherExchange>(space, domain.partition, space.rank());
}

std::unique_ptr<StepExchange> make_step_exchange(const Communicator& time) {
  if (time.size() == 1) return std::make_unique<OneGroup>();
  if (time.is_pretended()) return std::make_unique<TracedStepExchange>(time.size(), time.rank());
  return std::make_unique<MpiStepExchange>(time);
}

std::unique_ptr<RowLink> make_row_link(const Communicator& time) {
  if (time.is_pretended()) return std::make_unique<TracedRowLink>();
  return std::make_unique<MpiRowLink>(time);
}

std::unique_ptr<GroupGather> make_group_gather(const Communicator& time) {
  if (time.is_pretended()) return std::make_unique<TracedGroupGather>(time.size(), time.rank());
  return std::make_unique<MpiGroupGather>(time);
}

}  // namespace rossby
