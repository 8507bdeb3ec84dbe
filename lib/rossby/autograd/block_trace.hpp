#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/queue_clock.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A block of a model (an embedding, a cell, a layer, a loss) in a traced step. Figures are sums over its
/// calls. A nested traced block keeps its own figures.
struct TracedBlock {
  std::string name;
  Index calls = 0;
  Index rows = 0, cols = 0, channels = 0;  // of its output, per call: owned rows, columns, channels
  Cost forward;
  Cost backward;                // includes recomputation
  Index parameters = 0;         // number of values on this rank
  double activation_bytes = 0;  // values and gradients that forward keeps for backward
  double parameter_bytes = 0;   // of the values
  double forward_seconds = 0;   // timed traces only
  double backward_seconds = 0;
};

/// Rows, columns and channels of a value.
struct ValueShape {
  Index rows = 0, cols = 0, channels = 0;
  friend bool operator==(const ValueShape&, const ValueShape&) = default;
};

/// Bytes of chunks of streamed relations: loaded, and written back after a change.
struct Moved {
  double brought = 0, home = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};

/// Calls of one op in one direction that cost the same, or all calls of one activity outside the ops.
struct TracedOp {
  std::string name;
  bool backward = false;
  bool beside = false;   // from BlockTrace::note
  ValueShape made = {};  // of the last value made: how well rows and channels fill vectors
  Cost cost;             // per call; outside the ops: the mean
  Index calls = 0;
  double seconds = 0;        // all calls of a timed trace; on a device: the host's time to enqueue
  Moved moved = {};          // per call
  double queue_seconds = 0;  // all calls: time on the device, if its queue was timed
  /// Bytes that the surrounding step or validation touches. They decide which cache holds an op's result for
  /// the next op. Filled in by callers that trace whole steps.
  double footprint = 0;

  [[nodiscard]] bool like(const TracedOp& other) const {
    return backward == other.backward && beside == other.beside &&
           (beside || (made == other.made && cost == other.cost && moved == other.moved)) &&
           name == other.name;
  }
};

/// Calls of one step up to the next message between pipeline stages.
struct TracedLeg {
  std::vector<std::pair<int, Index>> calls;  // (number of an op, its calls)
  int peer = -1;                             // the other stage; −1: end of the step
  bool sends = false;                        // false: receives
  double bytes = 0;
};

/// Messages from this pipeline stage to another one, summed over all calls.
struct TracedHandOver {
  int to = 0;             // receiving stage
  bool backward = false;  // true: gradients of values received from that stage
  Index messages = 0;
  double bytes = 0;
};

/// Adds calls to the matching entry (TracedOp::like), or appends one. Returns the entry.
TracedOp& add(std::vector<TracedOp>& ops, const TracedOp& more);

/// Bytes that one block passes to another, over all calls.
struct TracedEdge {
  int from = 0, to = 0;  // numbers of blocks
  double bytes = 0;
};

/// The graph of a step at the level of blocks. A tape with a trace records the cost of each op under the
/// block that calls it. Models declare what their blocks read and produce (Block). The trace uses addresses
/// only and never reads values.
class BlockTrace {
 public:
  /// Block number of ops outside every block.
  static constexpr int outside = -1;

  /// Detail of a trace. On a device that runs beside the host, only a clock of its queue sees the time
  /// of kernels.
  enum class Of {
    costs,         // blocks and ops
    times,         // blocks and ops, with their times
    times_of_ops,  // ops only, with one clock reading per call: accurate for short ops
  };
  explicit BlockTrace(Of of = Of::costs) : blocks_too_(of != Of::times_of_ops), timed_(of != Of::costs) {
    if (!blocks_too_) calls_.reserve(1 << 12);
  }

  [[nodiscard]] const std::vector<TracedBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<TracedEdge>& edges() const { return edges_; }
  [[nodiscard]] const std::vector<TracedHandOver>& handed_over() const { return handed_over_; }
  [[nodiscard]] std::vector<TracedOp> ops() const;
  /// Work outside every block.
  [[nodiscard]] const TracedBlock& rest() const { return rest_; }

  /// Called by the tape: begins a block, which may be nested. `kept` is the number of bytes in the tape's
  /// memory so far. Returns the block's number.
  int enter(std::string_view name, std::size_t kept);
  void leave(std::size_t kept, bool recording);
  /// Block of the ops that are being recorded or counted.
  [[nodiscard]] int current() const { return !open_.empty() ? open_.back().block : direction_.block; }
  void count(std::string_view op, const Cost& cost, const ValueShape& made, bool backward);
  /// Adds moved chunks to the op that is counted next.
  void moved(const Moved& more) {
    moved_.brought += more.brought;
    moved_.home += more.home;
  }
  /// Counts work of a step outside the tape's ops as an op without a block. Its time is the time since the
  /// last op.
  void note(std::string_view what, const Cost& cost);
  /// Also times the ops of the next steps on a device's queue (times_of_ops only). The clock keeps the queue
  /// busy while the host enqueues. Null stops this.
  void set_queue(QueueClock* queue) { queue_ = queue; }
  /// The host has waited for a device. The time until now is not charged to any op.
  void waited();
  /// Number of waits so far.
  [[nodiscard]] Index waits() const { return waits_; }
  /// A message goes to another pipeline stage (`sends`), or comes from it. `bytes` is its size.
  void passes(int peer, bool sends, double bytes);
  /// The step so far, split at its messages, if blocks are traced. Empty without messages between stages.
  [[nodiscard]] std::vector<TracedLeg> legs() const;
  /// Following counts belong to the backward of this block, until leave_backward gets the returned value.
  struct Direction {
    int block = outside;
    bool backward = false;
  };
  [[nodiscard]] Direction enter_backward(int block);
  void leave_backward(const Direction& before);

  /// Called by Block: a value that it reads or produces, or a parameter that it trains.
  void reads(const void* data, std::size_t extent, double bytes);
  void hands_on(const void* data, std::size_t extent, Index rows, Index cols, Index channels);
  void trains(const void* parameter, Index size, double bytes);
  /// `to` holds a copy of `from`: both count as made by the same block.
  void same(const void* to, std::size_t extent, const void* from);
  /// Begins a step. Forgets the addresses of the last one; the time between steps is not charged.
  void begin_step();
  /// Forgets the ops recorded with times_of_ops. It keeps their memory, so that the next recording does not
  /// allocate.
  void forget_ops();

 private:
  struct Open {
    int block;
    std::size_t kept;        // bytes of the tape when it began
    std::size_t inside = 0;  // bytes kept by nested blocks
  };
  void add_edge(int from, double bytes);
  TracedBlock& block(int number) {
    return number == outside ? rest_ : blocks_[static_cast<std::size_t>(number)];
  }

  std::vector<TracedBlock> blocks_;
  std::vector<TracedEdge> edges_;
  std::vector<TracedHandOver> handed_over_;
  TracedBlock rest_;
  std::vector<Open> open_;
  /// Charges the time since the last call to the current block.
  void tick();
  void add_op(std::string_view op, bool backward, bool beside, const ValueShape& made, const Cost& cost);

  bool blocks_too_, timed_;
  Stopwatch last_;
  Stopwatch last_op_ = last_;
  std::vector<TracedOp> ops_;
  std::vector<TracedLeg> legs_;
  std::vector<Index> since_;  // calls of each op in ops_ since the last leg
  [[nodiscard]] TracedLeg leg_since() const;
  struct Call {
    std::string_view op;
    bool backward, beside;
    ValueShape made;
    Cost cost;
    double seconds;
    Moved moved;
    bool queued;           // true: timed by the queue's clock
    std::size_t from, to;  // marks of that clock
  };
  std::vector<Call> calls_;  // not yet in ops_
  /// Holds the queue for about as long as the host needed for this part of the previous step.
  void hold(int part);
  QueueClock* queue_ = nullptr;
  std::size_t mark_ = 0;  // the queue's last mark
  Index waits_ = 0;
  int part_ = 0;  // of a step: 0 before the host waits for the device, 1 after
  Stopwatch part_began_ = last_;
  double part_seconds_[2] = {0, 0};  // time of the host for each part
  Moved moved_;
  Direction direction_;
  struct Made {
    std::size_t extent;
    int block;
  };
  using Makers = std::map<const std::byte*, Made>;  // by first address; ranges do not overlap
  /// The first range that ends after `data`.
  [[nodiscard]] Makers::const_iterator first_at(const std::byte* data) const;
  void set_maker(const std::byte* data, std::size_t extent, int maker);
  Makers makers_;
  std::map<const void*, int> trained_;  // parameter → the block that counts it
};

}  // namespace rossby
