#pragma once

#include <new>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/arena.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A value on the tape and its gradient, both (rows, cols, channels). `gradient.data` is null where nothing
/// upstream is trained; ops then skip that side of their backward.
template <class T>
struct Var {
  NodeView<T> value;
  NodeView<T> gradient;

  [[nodiscard]] Index rows() const { return value.rows; }
  [[nodiscard]] Index cols() const { return value.cols; }
  [[nodiscard]] Index channels() const { return value.channels; }
  [[nodiscard]] bool tracked() const { return gradient.data != nullptr; }
};

/// Records the backward closures of a step's ops and runs them in reverse. Everything it hands out lives in
/// its arena and dies at `reset`; a step of a shape seen before allocates nothing.
template <class T>
class Tape {
 public:
  explicit Tape(Exec exec) : exec_(exec) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  [[nodiscard]] const Exec& exec() const { return exec_; }

  /// Whether ops record: false for forecasts and evaluation, where no gradients exist.
  void set_recording(bool on) { recording_ = on; }
  [[nodiscard]] bool recording() const { return recording_; }

  /// A packed (rows, cols, channels) value, uninitialised, with a zeroed gradient if `tracked` and recording.
  [[nodiscard]] Var<T> make(Index rows, Index cols, Index channels, bool tracked) {
    Var<T> var;
    const Index size = rows * cols * channels;
    var.value = {arena_.take<T>(size).data(), rows, cols, channels};
    if (tracked && recording_) var.gradient = {arena_.take_zeroed<T>(size).data(), rows, cols, channels};
    return var;
  }

  /// A constant that lies elsewhere (data, a state to roll forward).
  [[nodiscard]] static Var<T> constant(NodeView<T> value) {
    Var<T> var;
    var.value = value;
    return var;
  }

  /// Scratch that dies with the step.
  [[nodiscard]] Arena& arena() { return arena_; }

  /// Counts what an op did, and keeps its backward closure where recording. The closure is copied into the
  /// arena, so it captures by value and only trivially destructible things (views, spans, pointers, numbers).
  template <class Backward>
  void record(std::string_view op, const Cost& forward, const Cost& backward_cost, const Backward& backward) {
    static_assert(std::is_trivially_destructible_v<Backward>, "capture views and pointers, not owners");
    count(op, forward);
    if (!recording_) return;
    auto memory = arena_.take<std::byte>(sizeof(Backward));
    auto* closure = new (memory.data()) Backward(backward);
    records_.push_back({closure, [](void* f) { (*static_cast<Backward*>(f))(); }, op, backward_cost});
  }

  /// Runs every recorded closure, last first.
  void backward() {
    for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
      record->run(record->closure);
      count(record->op, record->cost);
    }
    records_.clear();
  }

  void reset() {
    records_.clear();
    arena_.reset();
  }

  struct OpTotal {
    std::string_view op;
    Cost cost;
    Index calls = 0;
  };
  /// Costs by op since the last clear: what planner and benchmarks hold against measured times.
  [[nodiscard]] const std::vector<OpTotal>& totals() const { return totals_; }
  void clear_totals() { totals_.clear(); }

 private:
  struct Record {
    void* closure;
    void (*run)(void*);
    std::string_view op;
    Cost cost;
  };

  void count(std::string_view op, const Cost& cost) {
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
  Arena arena_;
  std::vector<Record> records_;
  std::vector<OpTotal> totals_;
};

}  // namespace rossby
