#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "benchmarks/machine.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/twin.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::bench {

/// One kernel call on operands of its own, in float.
class KernelCase {
 public:
  virtual ~KernelCase() = default;
  /// Calls the kernel once and returns the largest error of its outputs against the reference kernel in
  /// double, relative to the largest true value of the output. NaN where an output is NaN.
  virtual double error(const Exec& exec) = 0;
  virtual void run(const Exec& exec) = 0;
};

struct NamedCase {
  std::string name;
  Work work;  // of one call
  /// For kernels of this Exec: a device's arrays lie there.
  std::function<std::unique_ptr<KernelCase>(const Exec&)> make;
  double tolerance = 1e-4;
};

/// Sizes of the problems: `full` those of the tables in benchmarks/measured, otherwise some that finish at
/// once.
struct Sizes {
  bool full = true;
  bool with_cusparse = false;  // cuSPARSE's products beside own ones
  bool on_device = false;      // kernels of the host alone are left out
  [[nodiscard]] Index n_lat() const { return full ? 60 : 7; }
  [[nodiscard]] Index n_lon() const { return full ? 168 : 11; }
  [[nodiscard]] Index nodes() const { return n_lat() * n_lon(); }
  [[nodiscard]] Index steps() const { return full ? 200 : 6; }
  [[nodiscard]] Index pairs() const { return full ? 1000 : 37; }
  [[nodiscard]] std::vector<Index> dense_nodes() const {
    return full ? std::vector<Index>{2520, 10080} : std::vector<Index>{67};
  }
};

std::vector<NamedCase> sparse_cases(const Sizes& sizes);
std::vector<NamedCase> spmm_cases(const Sizes& sizes);
std::vector<NamedCase> dense_cases(const Sizes& sizes);
std::vector<NamedCase> update_cases(const Sizes& sizes);
std::vector<NamedCase> layer_cases(const Sizes& sizes);
std::vector<NamedCase> table_cases(const Sizes& sizes);
std::vector<NamedCase> table_loss_cases(const Sizes& sizes);
std::vector<NamedCase> pair_cases(const Sizes& sizes);

/// What a kernel adds to, on the host: at once, or when a device's results come home.
class Sum {
 public:
  double* anew() {
    value_ = 0;
    return &value_;
  }
  /// To be asked after the results of the same kernel have been.
  template <class T>
  [[nodiscard]] std::span<const T> as() {
    T& to = std::get<T>(rounded_);
    to = static_cast<T>(value_);
    return {&to, 1};
  }

 private:
  double value_ = 0;
  std::tuple<float, double> rounded_;
};

/// Largest difference relative to the largest true value (absolute where all of those are 0).
template <class A>
double relative_error(std::span<const A> values, std::span<const double> truth) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - truth[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::quiet_NaN();
    worst = std::max(worst, difference);
    scale = std::max(scale, std::abs(truth[i]));
  }
  return scale > 0 ? worst / scale : worst;
}

/// The larger; NaN where one is.
inline double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

/// Uniform values that float and double hold alike: a prime number of random ones, repeated.
template <class T>
Buffer<T> random_values(Index size, std::string_view stream, double low = -1, double high = 1) {
  constexpr Index period = 65'521;
  const Random random(1, stream);
  Buffer<T> values(size);
  for (Index i = 0; i < std::min(size, period); ++i)
    values[i] = static_cast<T>(static_cast<float>(random.uniform(static_cast<std::uint64_t>(i), low, high)));
  for (Index i = period; i < size; ++i) values[i] = values[i - period];
  return values;
}

/// Values where the kernels that use them work, and a copy of the host's that they came from.
template <class T>
class Array {
 public:
  Array() = default;
  Array(const Exec& exec, Buffer<T> values) : twin_(std::move(values)), device_(exec.device) { send(); }
  Array(const Exec& exec, Index size) : Array(exec, Buffer<T>(size)) {}

  [[nodiscard]] Index size() const { return twin_.size(); }
  [[nodiscard]] T* data() const { return twin_.data(device_); }
  [[nodiscard]] std::span<T> span() const { return twin_.span(device_); }

  /// What kernels have left; sums that they owe the host have arrived by then.
  [[nodiscard]] std::span<const T> values() {
    twin_.fetch();
    if (device_) device_->settle();
    return std::as_const(twin_).host().span();
  }
  /// The host's copy, to be changed; `send` takes it to the kernels.
  [[nodiscard]] Buffer<T>& host() { return twin_.host(); }
  void send() {
    if (!device_) return;
    twin_.send(*device_);
    device_->wait();
  }

 private:
  mutable Twin<T> twin_;  // says where it lies
  Device* device_ = nullptr;
};

/// Keeps what kernels read of a block on the device, where there is one.
inline std::vector<Device::Copy> keep_block(const Exec& exec, const CsrBlock& block) {
  std::vector<Device::Copy> copies;
  if (exec.device) keep_on(*exec.device, block, copies);
  return copies;
}

/// Holds an operation in float against the same one in double on the reference kernels. Op<T> is built from
/// an Exec and Args and has run(Exec) and outputs(), a list of spans of the host. Names of Ops differ over
/// all sources, though their namespaces have none: GCC 12 takes Checked of two of one name for one.
template <template <class> class Op, class... Args>
class Checked final : public KernelCase {
 public:
  explicit Checked(const Exec& exec, const Args&... args)
      : make_truth_(
            [args...](const Exec& reference) { return std::make_unique<Op<double>>(reference, args...); }),
        op_(exec, args...) {}

  double error(const Exec& exec) override {
    const Exec reference{Backend::reference, 1};
    const auto truth = make_truth_(reference);
    truth->run(reference);
    op_.run(exec);
    const auto values = op_.outputs();
    const auto expected = truth->outputs();
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = worse(worst, relative_error<float>(values[i], expected[i]));
    return worst;
  }
  void run(const Exec& exec) override { op_.run(exec); }

 private:
  std::function<std::unique_ptr<Op<double>>(const Exec&)> make_truth_;
  Op<float> op_;
};

template <template <class> class Op, class... Args>
NamedCase checked(std::string name, const Work& work, const Args&... args) {
  return {std::move(name), work,
          [args...](const Exec& exec) { return std::make_unique<Checked<Op, Args...>>(exec, args...); }};
}

template <class T>
using Outputs = std::vector<std::span<const T>>;

/// Cost of the code's own tables plus the arrays that it touches.
inline Work work_of(const Cost& cost, double working_set) {
  return {cost.bytes, cost.flops, working_set};
}

}  // namespace rossby::bench
