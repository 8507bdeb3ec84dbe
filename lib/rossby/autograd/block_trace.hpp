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

/// Rows, columns and channels of a value.
struct ValueShape {
  Index rows = 0, cols = 0, channels = 0;
  friend bool operator==(const ValueShape&, const ValueShape&) = default;
};

/// Bytes of chunks of streamed relations that were brought, and that went home changed.
struct Moved {
  double brought = 0, home = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};

/// Calls of one op that cost the same, in one direction; or of something that a step does beside its ops, all
/// of them together.
struct TracedOp {
  std::string name;
  bool backward = false;
  bool beside = false;   // BlockTrace::note
  ValueShape made = {};  // the value that was made last: how far rows and channels fill vectors
  Cost cost;             // of one call; beside the ops: the mean
  Index calls = 0;
  double seconds = 0;        // of all calls of a timed trace; on a device what the host takes to enqueue them
  Moved moved = {};          // in one call
  double queue_seconds = 0;  // of all calls: what a device takes, where its queue was timed
  /// Bytes that the step, or the validation, around it touches: which cache holds what an op left for the
  /// next depends on them. From who traces whole steps.
  double footprint = 0;

  [[nodiscard]] bool like(const TracedOp& other) const {
    return backward == other.backward && beside == other.beside &&
           (beside || (made == other.made && cost == other.cost && moved == other.moved)) &&
           name == other.name;
  }
};

/// Calls of one step until something goes from one stage of a pipeline to another.
struct TracedLeg {
  std::vector<std::pair<int, Index>> calls;  // number of an op, calls of it
  int peer = -1;                             // the other stage; -1: the step ends
  bool sends = false;                        // or receives
  double bytes = 0;
};

/// What goes from this stage of a pipeline to another one, over all calls.
struct TracedHandOver {
  int to = 0;             // stage
  bool backward = false;  // gradients of what came from there
  Index messages = 0;
  double bytes = 0;
};

/// Adds calls to those of their like. Returns where.
TracedOp& add(std::vector<TracedOp>& ops, const TracedOp& more);

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

  /// What is written down. Of time, what kernels take of a device that runs beside the host is not seen but
  /// by a clock of its queue.
  enum class Of {
    costs,         // blocks and ops
    times,         // the same with their time
    times_of_ops,  // ops alone, at the cost of a clock a call: short ops are timed truly
  };
  explicit BlockTrace(Of of = Of::costs) : blocks_too_(of != Of::times_of_ops), timed_(of != Of::costs) {
    if (!blocks_too_) calls_.reserve(1 << 12);
  }

  [[nodiscard]] const std::vector<TracedBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<TracedEdge>& edges() const { return edges_; }
  [[nodiscard]] const std::vector<TracedHandOver>& handed_over() const { return handed_over_; }
  [[nodiscard]] std::vector<TracedOp> ops() const;
  /// What was done outside of every block.
  [[nodiscard]] const TracedBlock& rest() const { return rest_; }

  /// Of the tape: begins a block, which may lie in another; `kept` are bytes of its memory so far. Returns
  /// its number.
  int enter(std::string_view name, std::size_t kept);
  void leave(std::size_t kept, bool recording);
  /// The block that something belongs to which is recorded or counted now.
  [[nodiscard]] int current() const { return !open_.empty() ? open_.back().block : direction_.block; }
  void count(std::string_view op, const Cost& cost, const ValueShape& made, bool backward);
  /// Chunks moved in the op that is counted next.
  void moved(const Moved& more) {
    moved_.brought += more.brought;
    moved_.home += more.home;
  }
  /// What a step does beside the ops of the tape: it counts as an op of no block. Its time is that since the
  /// last op.
  void note(std::string_view what, const Cost& cost);
  /// Ops of the next steps are timed by this clock of a device's queue, too (with times_of_ops), which it
  /// keeps busy while the host enqueues them; null: by none any more.
  void set_queue(QueueClock* queue) { queue_ = queue; }
  /// The host has waited for a device to come to an end: that was nobody's time.
  void waited();
  /// How often, so far.
  [[nodiscard]] Index waits() const { return waits_; }
  /// Something goes to another stage of a pipeline, or comes from it.
  void passes(int peer, bool sends, double bytes);
  /// What was done in order since the last step began, where costs are written down; empty where nothing went
  /// from stage to stage.
  [[nodiscard]] std::vector<TracedLeg> legs() const;
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
  /// Forgets the ops that were written down `of == times_of_ops`, but keeps the memory they took: what is
  /// written down next costs as little as it can.
  void forget_ops();

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
  std::vector<TracedHandOver> handed_over_;
  TracedBlock rest_;
  std::vector<Open> open_;
  /// Gives the time since the last call to whom it belongs.
  void tick();
  void add_op(std::string_view op, bool backward, bool beside, const ValueShape& made, const Cost& cost);

  bool blocks_too_, timed_;
  Stopwatch last_;
  Stopwatch last_op_ = last_;
  std::vector<TracedOp> ops_;
  std::vector<TracedLeg> legs_;
  std::vector<Index> since_;  // calls of each of ops_ since the last leg
  [[nodiscard]] TracedLeg leg_since() const;
  struct Call {
    std::string_view op;
    bool backward, beside;
    ValueShape made;
    Cost cost;
    double seconds;
    Moved moved;
    bool queued;           // whether the queue's clock has seen it:
    std::size_t from, to;  // between these marks
  };
  std::vector<Call> calls_;  // that are not in ops_
  /// Keeps the queue busy for as long as the host took in the part of a step that begins, the last time.
  void hold(int part);
  QueueClock* queue_ = nullptr;
  std::size_t mark_ = 0;  // the queue's last one
  Index waits_ = 0;
  int part_ = 0;  // of a step: before the host waits for the device, and after
  Stopwatch part_began_ = last_;
  double part_seconds_[2] = {0, 0};  // what the host took for them
  Moved moved_;
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
