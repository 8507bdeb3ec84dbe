#pragma once

#include <barrier>
#include <thread>
#include <vector>

#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Ranks of one process, one thread each, with sums in rank order through shared memory. If a rank joins
/// fewer reductions than the others, the test hangs, as a real run would.
class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : barrier_(ranks), parts_(static_cast<std::size_t>(ranks)) {}

  /// Calls body(rank, reducer) on every rank.
  template <class Body>
  void run(Body body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      threads.emplace_back([this, rank, &body] {
        Port port(*this, rank);
        body(static_cast<int>(rank), port);
      });
    for (auto& thread : threads) thread.join();
  }

 private:
  class Port final : public Reducer {
   public:
    Port(ThreadRanks& ranks, std::size_t rank) : ranks_(ranks), rank_(rank) {}
    void sum(std::span<double> values) override {
      ranks_.parts_[rank_].assign(values.begin(), values.end());
      ranks_.barrier_.arrive_and_wait();
      for (std::size_t i = 0; i < values.size(); ++i) {
        double total = 0;
        for (const auto& part : ranks_.parts_) total += part.at(i);
        values[i] = total;
      }
      ranks_.barrier_.arrive_and_wait();
    }
    void sum(std::span<float>) override {}
    void max(std::span<double>) override {}
    void ordered_sum(std::span<double> values) override { sum(values); }
    [[nodiscard]] Traffic sent() const override { return {}; }

   private:
    ThreadRanks& ranks_;
    std::size_t rank_;
  };

  std::barrier<> barrier_;
  std::vector<std::vector<double>> parts_;
};

}  // namespace rossby
