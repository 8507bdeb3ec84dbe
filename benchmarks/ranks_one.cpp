#include <cstdio>
#include <cstdlib>

#include "benchmarks/ranks.hpp"
#include "rossby/exchange/one_rank.hpp"

namespace rossby::bench {
namespace {

class OneRank final : public Ranks {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::unique_ptr<Reducer> reducer() override { return std::make_unique<OneRankReducer>(); }
  [[nodiscard]] std::unique_ptr<Exchange> exchange(const RowPartition& partition, const GhostList&,
                                                   bool) override {
    return std::make_unique<OneRankExchange>(partition.size(0));
  }
  [[nodiscard]] RowPartition with_neighbours_close(const GlobalEdges&,
                                                   const RowPartition& partition) override {
    return partition;
  }
  void barrier() override {}
  [[noreturn]] void abort(std::string_view message) override {
    std::fprintf(stderr, "rossby: %.*s\n", static_cast<int>(message.size()), message.data());
    std::exit(1);
  }
};

}  // namespace

std::unique_ptr<Ranks> start_ranks() {
  return std::make_unique<OneRank>();
}

}  // namespace rossby::bench
