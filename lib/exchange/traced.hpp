#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/group_link.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/step_exchange.hpp"

// Ports of one pretended rank that plays alone: nothing moves, what comes from others is zero, and what the
// rank would send is counted, as the real ports count it. A step that runs over them costs what the rank's
// step costs at any P, and tells messages and bytes exactly; its numbers mean nothing.

namespace rossby {

/// Of an exchange that knows what it would send, such as DryRunWorld's.
class TracedExchange final : public Exchange {
 public:
  explicit TracedExchange(const Exchange& of) : of_(&of) {}
  [[nodiscard]] Index owned() const override { return of_->owned(); }
  [[nodiscard]] Index ghosts() const override { return of_->ghosts(); }
  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override { gather_of(owned, ghost); }
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override {
    gather_of(owned, ghost);
  }
  void gather_end() override {}
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float>) override { scatter_of(ghost); }
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double>) override { scatter_of(ghost); }
  void scatter_add_end() override {}
  [[nodiscard]] Traffic sent() const override { return sent_; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override { return of_->gather_cost(row_bytes); }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override { return of_->scatter_cost(row_bytes); }

 private:
  template <class T>
  void gather_of(NodeView<const T> owned, NodeView<T> ghost) {
    std::fill_n(ghost.data, ghost.size(), T{0});
    sent_ += of_->gather_cost(owned.width() * static_cast<Index>(sizeof(T)));
  }
  template <class T>
  void scatter_of(NodeView<const T> ghost) {
    sent_ += of_->scatter_cost(ghost.width() * static_cast<Index>(sizeof(T)));
  }
  const Exchange* of_;
  Traffic sent_;
};

/// Of a sum over `ranks` ranks; sums stay this rank's own part.
class TracedReducer final : public Reducer {
 public:
  explicit TracedReducer(int ranks) : ranks_(ranks) {}
  void sum(std::span<double> values) override { count(1, values.size_bytes()); }
  void sum(std::span<float> values) override { count(1, values.size_bytes()); }
  void max(std::span<double> values) override { count(1, values.size_bytes()); }
  void ordered_sum(std::span<double> values) override { count(ranks_ - 1, values.size_bytes()); }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  void count(Index messages, std::size_t bytes) {
    if (ranks_ > 1 && bytes > 0) sent_ += {messages, messages * static_cast<Index>(bytes)};
  }
  int ranks_;
  Traffic sent_;
};

/// Of time steps between groups.
class TracedStepExchange final : public StepExchange {
 public:
  TracedStepExchange(int groups, int group) : groups_(groups), group_(group) {}
  [[nodiscard]] int groups() const override { return groups_; }
  [[nodiscard]] int group() const override { return group_; }
  void begin(Index width, std::span<const std::vector<const float*>> outgoing,
             std::span<const std::span<float>> incoming) override {
    for (const auto& steps : outgoing)
      if (width > 0 && !steps.empty())
        sent_ += {1, std::ssize(steps) * width * static_cast<Index>(sizeof(float))};
    for (const std::span<float> values : incoming) std::fill(values.begin(), values.end(), 0.0F);
  }
  void end() override {}
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  int groups_, group_;
  Traffic sent_;
};

/// Of values between neighbouring groups.
class TracedGroupLink final : public GroupLink {
 public:
  void send(int, std::span<const std::byte> values) override { sent_ += {1, std::ssize(values)}; }
  void receive(int, std::span<std::byte> values) override {
    std::fill(values.begin(), values.end(), std::byte{0});
  }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  Traffic sent_;
};

/// Of what all groups have; the others are taken to have nothing.
class TracedGroupGather final : public GroupGather {
 public:
  TracedGroupGather(int groups, int group) : groups_(groups), group_(group) {}
  [[nodiscard]] int groups() const override { return groups_; }
  [[nodiscard]] int group() const override { return group_; }
  [[nodiscard]] std::span<const std::byte> gather(std::span<const std::byte> mine,
                                                  std::span<Index> sizes) override {
    std::fill(sizes.begin(), sizes.end(), Index{0});
    sizes[static_cast<std::size_t>(group_)] = std::ssize(mine);
    sent_ += {groups_ - 1, (groups_ - 1) * std::ssize(mine)};
    return mine;
  }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  int groups_, group_;
  Traffic sent_;
};

}  // namespace rossby
