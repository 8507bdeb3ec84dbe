#pragma once

#include <algorithm>
#include <iterator>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/autograd/op_check.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/arena.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A value on the tape and its gradient, both (rows, cols, channels). If nothing upstream is trained,
/// `gradient.data` is null, and ops skip that side of their backward.
template <class T>
struct Var {
  NodeView<T> value;
  NodeView<T> gradient;

  [[nodiscard]] Index rows() const { return value.rows; }
  [[nodiscard]] Index cols() const { return value.cols; }
  [[nodiscard]] Index channels() const { return value.channels; }
  [[nodiscard]] bool tracked() const { return gradient.data != nullptr; }
};

/// Records the backward closures of a step's ops and runs them in reverse. Everything that it returns lives
/// in its arenas until `reset`; a step with known shapes allocates nothing. Kernel operands lie in `memory`,
/// on Exec's device if it has one. Closures and lists of indices lie in `arena`, on the host.
template <class T>
class Tape {
 public:
  explicit Tape(Exec exec) : exec_(exec), device_memory_(exec.device) {
    if (exec.device && exec.device->driver().stands_for_host()) arena_.count_in(&device_memory_);
  }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  [[nodiscard]] const Exec& exec() const { return exec_; }

  /// Whether ops record: false for forecasts and evaluation, which have no gradients.
  void set_recording(bool on) { recording_ = on; }
  [[nodiscard]] bool recording() const { return recording_; }

  /// Makes a packed (rows, cols, channels) value, uninitialised. It has a gradient if `tracked` and
  /// recording. The gradient is zero when backward begins, or holds what forward wrote (claim_gradient).
  [[nodiscard]] Var<T> make(Index rows, Index cols, Index channels, bool tracked) {
    Var<T> var;
    made_ = {rows, cols, channels};
    const Index size = rows * cols * channels;
    var.value = {memory().template take<T>(size).data(), rows, cols, channels};
    if (!tracked || !recording_) return var;
    const std::span<T> gradient = memory().template take<T>(size);
    var.gradient = {gradient.data(), rows, cols, channels};
    unwritten_.push_back(gradient);
    return var;
  }

  /// For an op whose forward already knows the gradient that it passes on. Returns true if nothing has been
  /// written to the gradient of x yet: the caller now writes all of it. Returns false if the caller must add.
  [[nodiscard]] bool claim_gradient(const Var<T>& x) {
    for (auto of = unwritten_.rbegin(); of != unwritten_.rend(); ++of)
      if (of->data() == x.gradient.data && std::ssize(*of) == x.gradient.size()) {
        unwritten_.erase(std::next(of).base());
        return true;
      }
    clear_unwritten();  // x may be a part of one
    return false;
  }

  /// Sets the shape used for cost accounting when it differs from that of the last value.
  void set_shape(const ValueShape& shape) { made_ = shape; }

  /// A constant stored elsewhere (data, a state to roll forward).
  [[nodiscard]] static Var<T> constant(NodeView<T> value) {
    Var<T> var;
    var.value = value;
    return var;
  }

  /// Scratch that lives until the end of the step: the host's, and the kernels' (the same without a device).
  [[nodiscard]] Arena& arena() { return arena_; }
  [[nodiscard]] Arena& memory() { return exec_.device ? device_memory_ : arena_; }

  /// Sets the trace that records later steps by blocks; null (the default): none. The trace outlives the
  /// steps.
  void set_trace(BlockTrace* trace) { trace_ = trace; }
  [[nodiscard]] BlockTrace* trace() const { return trace_; }
  /// Sets the check of later values and gradients; null (the default): none. The check outlives the steps.
  void set_check(OpCheck<T>* check) { check_ = check; }
  [[nodiscard]] OpCheck<T>* check() const { return check_; }

  /// For a check: the output of the op recorded next (no data: none), then the values and parameters that its
  /// backward adds to. Ops call this just before they are recorded.
  template <class... From>
  void touches(const Var<T>& made, const From&... from) {
    if (!check_) return;
    check_->makes(made.value, made.gradient);
    (adds_to(from), ...);
  }

  /// Bytes of values and gradients of this step so far.
  [[nodiscard]] std::size_t kept_bytes() const {
    return (exec_.device ? device_memory_ : arena_).mark().bytes;
  }

  /// A position in both arenas.
  struct Mark {
    Arena::Mark arena, memory;
  };
  [[nodiscard]] Mark mark() const { return {arena_.mark(), device_memory_.mark()}; }
  void rewind(const Mark& mark) {
    arena_.rewind(mark.arena);
    device_memory_.rewind(mark.memory);
  }

  /// Counts an op's cost, and keeps its backward closure if recording. The closure is copied into the arena,
  /// so it captures by value and only trivially destructible things (views, spans, pointers, numbers).
  template <class Backward>
  void record(std::string_view op, const Cost& forward, const Cost& backward_cost, const Backward& backward) {
    static_assert(std::is_trivially_destructible_v<Backward>, "capture views and pointers, not owners");
    count(op, forward, made_, false);
    if (check_) check_->computed(op, recording_);
    if (!recording_) return;
    auto memory = arena_.take<std::byte>(sizeof(Backward));
    auto* closure = new (memory.data()) Backward(backward);
    records_.push_back({closure, [](void* f) { (*static_cast<Backward*>(f))(); }, op, backward_cost,
                        trace_ ? trace_->current() : BlockTrace::outside, made_});
  }

  /// Runs every recorded closure, last first.
  void backward() { backward_to(0); }

  /// Part of the forward whose values are not kept. Only `outputs` are kept: packed (rows, cols, channels)
  /// values that `forward` fills in. Backward runs `forward` again, with bit-equal results, when it needs the
  /// values in between (Griewank, Walther, "Revolve", ACM TOMS 26, 2000; Chen et al., "Training deep nets
  /// with sublinear memory cost", 2016).
  ///
  /// `forward(Tape<T>&, std::span<const Var<T>> outputs)` computes the outputs' values with ops of this tape
  /// only, from Vars outside. It captures by value, and only things that the arena may hold. It runs twice,
  /// so it must not change its inputs.
  template <class Forward>
  void recomputed(std::string_view name, std::span<const Var<T>> outputs, const Forward& forward) {
    const Mark before = mark();
    const bool recording = std::exchange(recording_, false);
    forward(*this, outputs);
    recording_ = recording;
    rewind(before);
    if (!recording_) return;
    auto kept = arena_.template take<Var<T>>(static_cast<Index>(outputs.size()));
    std::copy(outputs.begin(), outputs.end(), kept.begin());
    touches(Var<T>{});
    record(name, Cost{}, Cost{}, [this, kept, forward] {
      const Mark moment = mark();
      const std::size_t floor = records_.size();
      forward(*this, std::span<const Var<T>>(kept));
      backward_to(floor);
      rewind(moment);
    });
  }

  void reset() {
    if (check_) check_->begin_step();
    records_.clear();
    unwritten_.clear();
    arena_.reset();
    device_memory_.reset();
    if (trace_) trace_->begin_step();
  }

  /// Reports the chunks of streamed relations moved by the op that is counted next.
  void moved(const Moved& chunks) {
    if (trace_) trace_->moved(chunks);
  }

  struct OpTotal {
    std::string_view op;
    Cost cost;
    Index calls = 0;
  };
  /// Costs by op since the last clear, for the planner and benchmarks to compare with measured times.
  [[nodiscard]] const std::vector<OpTotal>& totals() const { return totals_; }
  void clear_totals() { totals_.clear(); }

 private:
  struct Record {
    void* closure;
    void (*run)(void*);
    std::string_view op;
    Cost cost;
    int block;
    ValueShape made;
  };

  /// Runs and drops the records after the first `floor`; closures may add records of their own.
  void backward_to(std::size_t floor) {
    clear_unwritten();
    while (records_.size() > floor) {
      const Record record = records_.back();
      records_.pop_back();
      if (check_) check_->begin_backward(record.op);
      if (trace_) {
        const BlockTrace::Direction before = trace_->enter_backward(record.block);
        record.run(record.closure);
        count(record.op, record.cost, record.made, true);
        trace_->leave_backward(before);
      } else {
        record.run(record.closure);
        count(record.op, record.cost, record.made, true);
      }
      if (check_) check_->end_backward(record.op);
    }
  }

  void adds_to(const Var<T>& x) { check_->adds_to(x.gradient); }
  void adds_to(const Parameter<T>& parameter) { check_->adds_to(parameter); }
  void adds_to(const Parameter<T>* parameter) {
    if (parameter) check_->adds_to(*parameter);
  }

  void clear_unwritten() {
    if (unwritten_.empty()) return;
    std::size_t bytes = 0;
    for (const std::span<T> gradient : unwritten_) bytes += gradient.size_bytes();
    clear_arrays(exec_, std::span<const std::span<T>>(unwritten_));
    unwritten_.clear();
    // Noted separately: otherwise the next op would be charged for it.
    if (trace_) trace_->note("clear_gradients", {0, static_cast<double>(bytes)});
  }

  void count(std::string_view op, const Cost& cost, const ValueShape& made, bool backward) {
    if (trace_) trace_->count(op, cost, made, backward);
    for (OpTotal& total : totals_)
      if (total.op == op) {
        total.cost += cost;
        ++total.calls;
        return;
      }
    totals_.push_back({op, cost, 1});
  }

  Exec exec_;
  bool recording_ = true;
  ValueShape made_;  // last
  BlockTrace* trace_ = nullptr;
  OpCheck<T>* check_ = nullptr;
  Arena arena_;
  Arena device_memory_;
  std::vector<Record> records_;
  std::vector<std::span<T>> unwritten_;  // gradients
  std::vector<OpTotal> totals_;
};

/// While this object lives, ops do not record and may use all of the tape's memory. It resets the tape at its
/// beginning; the next user resets it again.
template <class T>
class Unrecorded {
 public:
  explicit Unrecorded(Tape<T>& tape) : tape_(&tape), before_(tape.recording()) {
    tape.reset();
    tape.set_recording(false);
  }
  ~Unrecorded() { tape_->set_recording(before_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  Tape<T>* tape_;
  bool before_;
};

}  // namespace rossby
