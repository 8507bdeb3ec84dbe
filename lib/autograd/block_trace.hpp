#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A block of a model as a traced step saw it: an embedding, a cell, a layer, a loss. Figures are sums over
/// its calls. Work inside a block that is traced itself counts there alone.
struct TracedBlock {
  std::string name;
  Index calls = 0;
  Index rows = 0, cols = 0, channels = 0;  // of what it hands on, per call: owned rows, columns, channels
  Cost forward;
  Cost backward;                // with what is computed again
  Index parameters = 0;         // values, of this rank
  double activation_bytes = 0;  // values and gradients that forward leaves for backward
  double parameter_bytes = 0;   // of the values
  double forward_seconds = 0;   // of a timed trace
  double backward_seconds = 0;
};

/// What one block hands to another, over all calls.
struct TracedEdge {
  int from = 0, to = 0;  // numbers of blocks
  double bytes = 0;
};

/// The graph of a step at the level of blocks. A tape that has one writes down what its ops do by the block
/// in which they are called; models say what their blocks read and hand on (Block). Not for values: it knows
/// addresses alone.
class BlockTrace {
 public:
  /// For ops and what they cost outside of every block.
  static constexpr int outside = -1;

  /// `timed`: time goes by blocks, too. What kernels take of a device that runs beside the host is not seen.
  explicit BlockTrace(bool timed = false) : timed_(timed) {}

  [[nodiscard]] const std::vector<TracedBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<TracedEdge>& edges() const { return edges_; }
  /// What was done outside of every block.
  [[nodiscard]] const TracedBlock& rest() const { return rest_; }

  /// Of the tape: begins a block, which may lie in another; `kept` are bytes of its memory so far. Returns
  /// its number.
  int enter(std::string_view name, std::size_t kept);
  void leave(std::size_t kept, bool recording);
  /// The block that something belongs to which is recorded or counted now.
  [[nodiscard]] int current() const { return !open_.empty() ? open_.back().block : direction_.block; }
  void count(const Cost& cost);
  /// What is counted from now on is backward of this block, until what it returns is given back.
  struct Direction {
    int block = outside;
    bool backward = false;
  };
  [[nodiscard]] Direction enter_backward(int block);
  void leave_backward(const Direction& before);

  /// Of a block: a value that it reads, hands on, trains.
  void reads(const void* data, std::size_t extent, double bytes);
  void hands_on(const void* data, std::size_t extent, Index rows, Index cols, Index channels);
  void trains(const void* parameter, Index size, double bytes);
  /// `to` holds what `from` does: who made the one has made the other.
  void same(const void* to, std::size_t extent, const void* from);
  /// A step begins: the addresses of the last one mean nothing any more, and what went by in between is
  /// nobody's time.
  void begin_step();

 private:
  struct Open {
    int block;
    std::size_t kept;        // when it began
    std::size_t inside = 0;  // what blocks within it kept
  };
  void add_edge(int from, double bytes);
  TracedBlock& block(int number) {
    return number == outside ? rest_ : blocks_[static_cast<std::size_t>(number)];
  }

  std::vector<TracedBlock> blocks_;
  std::vector<TracedEdge> edges_;
  TracedBlock rest_;
  std::vector<Open> open_;
  using Clock = std::chrono::steady_clock;
  /// Gives the time since the last call to whom it belongs.
  void tick();

  bool timed_;
  Clock::time_point last_ = Clock::now();
  Direction direction_;
  struct Made {
    std::size_t extent;
    int block;
  };
  using Makers = std::map<const std::byte*, Made>;  // by first address; they do not overlap
  /// The first that ends behind `data`.
  [[nodiscard]] Makers::const_iterator first_at(const std::byte* data) const;
  void set_maker(const std::byte* data, std::size_t extent, int maker);
  Makers makers_;
  std::map<const void*, int> trained_;  // parameters and the block that counts them
};

}  // namespace rossby
