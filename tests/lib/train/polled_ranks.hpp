#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// A message space for ranks of one process. Sums begin and end as in MPI; the k-th sums of all ranks match.
class PolledRanks {
 public:
  explicit PolledRanks(int ranks) : ranks_(ranks) {}

  class Port final : public Reducer {
   public:
    explicit Port(PolledRanks& of) : of_(&of) {}
    void sum(std::span<double> values) override {
      sum_begin(values);
      sum_end();
    }
    void sum(std::span<float>) override {}
    void sum_begin(std::span<double> values) override { begin(values, false); }
    void sum_begin(std::span<float>) override {}
    void sum_end() override {
      std::unique_lock lock(of_->mutex_);
      of_->came_.wait(lock, [&] { return complete(); });
      fetch();
    }
    bool sum_done() override {
      const std::lock_guard lock(of_->mutex_);
      if (!complete()) return false;
      fetch();
      return true;
    }
    void max(std::span<double> values) override {
      begin(values, true);
      sum_end();
    }
    void ordered_sum(std::span<double> values) override { sum(values); }
    [[nodiscard]] Traffic sent() const override { return {}; }

    std::function<void()> before;  // called before each begin of a sum

   private:
    void begin(std::span<double> values, bool largest) {
      if (before) before();
      const std::lock_guard lock(of_->mutex_);
      Sum& sum = of_->sums_[next_];
      if (sum.came++ == 0) {
        sum.values.assign(values.begin(), values.end());
      } else {
        for (std::size_t i = 0; i < values.size(); ++i)
          sum.values.at(i) = largest ? std::max(sum.values[i], values[i]) : sum.values[i] + values[i];
      }
      pending_.emplace_back(next_++, values);
      of_->came_.notify_all();
    }
    [[nodiscard]] bool complete() const {
      return std::all_of(pending_.begin(), pending_.end(),
                         [&](const auto& p) { return of_->sums_.at(p.first).came == of_->ranks_; });
    }
    void fetch() {
      for (const auto& [number, values] : pending_) {
        Sum& sum = of_->sums_.at(number);
        std::copy(sum.values.begin(), sum.values.end(), values.begin());
        if (++sum.left == of_->ranks_) of_->sums_.erase(number);
      }
      pending_.clear();
    }

    PolledRanks* of_;
    Index next_ = 0;
    std::vector<std::pair<Index, std::span<double>>> pending_;
  };

 private:
  struct Sum {
    std::vector<double> values;
    int came = 0, left = 0;
  };
  int ranks_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<Index, Sum> sums_;
};

}  // namespace rossby
