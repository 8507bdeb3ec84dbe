#include "benchmarks/ranks.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/row_order.hpp"

namespace rossby::bench {
namespace {

class MpiRanks final : public Ranks {
 public:
  [[nodiscard]] int rank() const override { return comm_.rank(); }
  [[nodiscard]] int size() const override { return comm_.size(); }
  [[nodiscard]] std::unique_ptr<Reducer> reducer() override { return std::make_unique<MpiReducer>(comm_); }
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const RowPartition& partition, const GhostList& ghosts,
                                                   bool all_nodes) override {
    if (comm_.size() > 1 && all_nodes)
      return std::make_unique<AllgatherExchange>(comm_, partition, comm_.rank());
    return std::make_unique<NeighbourExchange>(comm_, partition, comm_.rank(), ghosts);
  }
  [[nodiscard]] RowPartition with_neighbours_close(const GlobalEdges& edges,
                                                   const RowPartition& partition) override {
    return reverse_cuthill_mckee(comm_, edges, partition);
  }
  void barrier() override { comm_.barrier(); }
  [[noreturn]] void abort(std::string_view message) override { abort_all(message); }

 private:
  Environment environment_;
  Communicator comm_ = environment_.world();
};

}  // namespace

std::unique_ptr<Ranks> start_ranks() {
  return std::make_unique<MpiRanks>();
}

}  // namespace rossby::bench
