// The update of dense learned relations with a given gradient, as a host makes it for a streamed relation of
// a device. A chunk has 32 MiB of weights.

#include <fmt/core.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/kernels/relate_dense.hpp"

namespace rossby::bench {
namespace {

/// W and its moments, stored as S.
template <class S>
class DenseUpdateCase final : public KernelCase {
 public:
  DenseUpdateCase(const Exec& exec, Index rows, Index columns, bool moment)
      : rows_(rows),
        columns_(columns),
        theta_(exec, rows * columns),
        m_(exec, moment ? rows * columns : 0),
        v_(exec, rows * columns),
        gradient_(exec, random_values<float>(rows * columns, "gradient")) {
    start();
  }

  void run(const Exec& exec) override { update(exec, 1e-7); }

  double error(const Exec& exec) override {
    const Index size = theta_.size();
    Buffer<double> theta(size), m(m_.size()), v(size), gradient(size);
    for (Index e = 0; e < size; ++e) theta[e] = widen(theta_.host()[e]);
    std::copy(gradient_.host().begin(), gradient_.host().end(), gradient.begin());
    DenseUpdate<double> truth = start_update<double>(0.1);
    truth.theta = theta.data();
    truth.m = m.size() > 0 ? m.data() : nullptr;
    truth.v = v.data();
    DenseRelate<double> relate;
    relate.rows = rows_;
    relate.columns = columns_;
    relate.weight = theta.data();
    relate.clamped = true;
    relate_dense_update<double>({Backend::reference, 1}, truth, relate, gradient.data());
    update(exec, 0.1);
    const double found = worse(error_of(theta_, theta), worse(error_of(v_, v), error_of(m_, m)));
    start();
    return found;
  }

 private:
  void start() {
    const Buffer<float> weight = random_values<float>(theta_.size(), "weight", -0.1, 1.1);
    for (Index e = 0; e < theta_.size(); ++e) set(theta_.host()[e], weight[e]);
    std::fill(m_.host().begin(), m_.host().end(), S{});
    std::fill(v_.host().begin(), v_.host().end(), S{});
    for (Array<S>* array : {&theta_, &m_, &v_}) array->send();
  }
  static void set(float& to, float value) { to = value; }
  static void set(Bf16& to, float value) { to = round_nearest(value); }
  static double error_of(Array<S>& array, const Buffer<double>& truth) {
    const std::span<const S> values = array.values();
    std::vector<float> wide(values.size());
    for (std::size_t e = 0; e < values.size(); ++e) wide[e] = widen(values[e]);
    return relative_error<float>(wide, truth.span());
  }
  /// epsilon = 1: a gradient near zero moves M little, so that float and double are comparable.
  template <class T>
  DenseUpdate<T> start_update(double lr) const {
    DenseUpdate<T> update;
    update.step.lr = lr;
    update.step.epsilon = 1;
    update.step.beta1 = m_.size() > 0 ? 0.9 : 0;
    update.l1 = 1e-3;
    return update;
  }
  void update(const Exec& exec, double lr) {
    DenseUpdate<float> update = start_update<float>(lr);
    DenseRelate<float> relate;
    relate.rows = rows_;
    relate.columns = columns_;
    relate.clamped = true;
    S* const m = m_.size() > 0 ? m_.data() : nullptr;
    if constexpr (std::is_same_v<S, Bf16>) {
      relate.bf16 = theta_.data();
      update.bf16 = {theta_.data(), m, v_.data(), {1, 0}};
    } else {
      relate.weight = update.theta = theta_.data();
      update.m = m;
      update.v = v_.data();
    }
    relate_dense_update<float>(exec, update, relate, gradient_.data());
  }

  Index rows_, columns_;
  Array<S> theta_, m_, v_;
  Array<float> gradient_;
};

template <class S>
NamedCase update_case(const char* kind, Index rows, Index columns, bool moment, double tolerance) {
  const auto size = static_cast<double>(rows * columns);
  const double arrays = moment ? 3 : 2, word = sizeof(S);
  // Reads and writes weights and moments; reads the gradient.
  return {fmt::format("relate_dense_update{}/rows:{}/n:{}/moment:{}", kind, rows, columns, moment ? 1 : 0),
          {(2 * arrays * word + 4) * size, adam_flops * size, (arrays * word + 4) * size},
          [=](const Exec& exec) -> std::unique_ptr<KernelCase> {
            return std::make_unique<DenseUpdateCase<S>>(exec, rows, columns, moment);
          },
          tolerance};
}

}  // namespace

std::vector<NamedCase> update_cases(const Sizes& sizes) {
  const Index columns = sizes.full ? 10080 : 67, rows = sizes.full ? 832 : 20;
  std::vector<NamedCase> cases;
  for (const bool moment : {false, true}) {
    cases.push_back(update_case<float>("", rows, columns, moment, 1e-4));
    cases.push_back(update_case<Bf16>("_bf16", 2 * rows, columns, moment, 0x1p-7));
  }
  return cases;
}

}  // namespace rossby::bench
