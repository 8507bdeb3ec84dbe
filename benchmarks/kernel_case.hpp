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

/// One kernel call on its own operands, in float.
class KernelCase {
 public:
  virtual ~KernelCase() = default;
  /// Calls the kernel once. Returns the largest error of its outputs against the reference kernel in double,
  /// relative to the largest true value of the output. NaN if an output is NaN.
  virtual double error(const Exec& exec) = 0;
  virtual void run(const Exec& exec) = 0;
};

struct NamedCase {
  std::string name;
  Work work;  // of one call
  /// Makes the case for kernels of this Exec; a device's arrays lie on the device.
  std::function<std::unique_ptr<KernelCase>(const Exec&)> make;
  double tolerance = 1e-4;
};

/// Problem sizes: `full` ones for the tables in benchmarks/measured, otherwise small ones that finish at
/// once.
struct Sizes {
  bool full = true;
  bool with_cusparse = false;  // cuSPARSE's products as well as Rossby's own
  bool on_device = false;      // leave out kernels that run only on the host
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

/// A sum that a kernel adds to, on the host: at once, or when a device's results arrive.
class Sum {
 public:
  double* anew() {
    value_ = 0;
    return &value_;
  }
  /// Call after values() of the same kernel's results.
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

/// Returns the largest difference relative to the largest true value (absolute if all true values are 0).
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

/// Returns the larger value; NaN if either is NaN.
inline double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

/// Returns uniform values that are exact in float and double: a prime number of random values, repeated.
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

/// Values where their kernels run, and the host's copy they came from.
template <class T>
class Array {
 public:
  Array() = default;
  Array(const Exec& exec, Buffer<T> values) : twin_(std::move(values)), device_(exec.device) { send(); }
  Array(const Exec& exec, Index size) : Array(exec, Buffer<T>(size)) {}

  [[nodiscard]] Index size() const { return twin_.size(); }
  [[nodiscard]] T* data() const { return twin_.data(device_); }
  [[nodiscard]] std::span<T> span() const { return twin_.span(device_); }

  /// Returns the kernels' results. Sums that kernels still owe the host have arrived afterwards.
  [[nodiscard]] std::span<const T> values() {
    twin_.fetch();
    if (device_) device_->settle();
    return std::as_const(twin_).host().span();
  }
  /// Returns the host's copy for changes; `send` copies it to the kernels.
  [[nodiscard]] Buffer<T>& host() { return twin_.host(); }
  void send() {
    if (!device_) return;
    twin_.send(*device_);
    device_->wait();
  }

 private:
  mutable Twin<T> twin_;  // knows where the values lie
  Device* device_ = nullptr;
};

/// Keeps the arrays of a block that kernels read on the device, if there is one.
inline std::vector<Device::Copy> keep_block(const Exec& exec, const CsrBlock& block) {
  std::vector<Device::Copy> copies;
  if (exec.device) keep_on(*exec.device, block, copies);
  return copies;
}

/// Compares an operation in float with the same one in double on the reference kernels. Op<T> is constructed
/// from an Exec and Args and has run(Exec) and outputs(), a list of spans on the host. Ops have different
/// names in all sources although they are in unnamed namespaces, because GCC 12 confuses Checked of two Ops
/// with one name.
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

/// Returns the cost from the code's own tables, with the bytes of all arrays touched.
inline Work work_of(const Cost& cost, double working_set) {
  return {cost.bytes, cost.flops, working_set};
}

}  // namespace rossby::bench
