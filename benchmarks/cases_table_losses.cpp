// Losses that read latents Z (T, n, d) and add their gradients in one pass.

#include <fmt/core.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/autograd/costs.hpp"
#include "rossby/kernels/table_loss.hpp"

namespace rossby::bench {
namespace {

constexpr Index slab = 8;

/// Steps of a slab, spread over the table, and slots of their gradients. Half of the slots are overwritten.
struct Slab {
  std::vector<Index> times, slots, begins;
  explicit Slab(Index steps) {
    for (Index b = 0; b < slab; ++b) {
      times.push_back(b * steps / slab);
      slots.push_back(b);
      begins.push_back(b % 2);
    }
  }
};

template <class T>
struct TableDifference {
  Index steps, n, d;
  bool through_tanh;
  Slab at;
  Array<T> table, gradients, x, dx;
  Sum sum;
  TableDifference(const Exec& exec, Index t, Index nodes, Index channels, bool with_tanh)
      : steps(t),
        n(nodes),
        d(channels),
        through_tanh(with_tanh),
        at(t),
        table(exec, random_values<T>(t * n * d, "table")),
        gradients(exec, slab * n * d),
        x(exec, random_values<T>(slab * n * d, "x")),
        dx(exec, slab * n * d) {}
  void run(const Exec& exec) {
    table_difference<T>(exec, {gradients.data(), slab, at.slots, at.begins}, {{dx.data(), n, slab, d}, false},
                        {table.data(), steps, at.times}, NodeView<const T>(x.data(), n, slab, d),
                        through_tanh, 0.25, sum.anew());
  }
  [[nodiscard]] Outputs<T> outputs() { return {gradients.values(), dx.values(), sum.as<T>()}; }
};

template <class T>
struct TableDecodedError {
  Index steps, n, d;
  Slab at;
  Array<T> table, gradients, weight, dweight, scratch;
  Array<float> truth;
  Sum sum;
  TableDecodedError(const Exec& exec, Index t, Index nodes, Index channels)
      : steps(t),
        n(nodes),
        d(channels),
        at(t),
        table(exec, random_values<T>(t * n * d, "table")),
        gradients(exec, slab * n * d),
        weight(exec, random_values<T>(d, "weight")),
        dweight(exec, d),
        scratch(exec, table_decoded_error_scratch_size(n, slab, 1, d)),
        truth(exec, random_values<float>(t * n, "truth")) {}
  void run(const Exec& exec) {
    table_decoded_error<T>(exec, {gradients.data(), slab, at.slots, at.begins}, dweight.data(),
                           {table.data(), steps, at.times}, MatrixView<const T>(weight.data(), 1, d),
                           {truth.data(), steps, at.times}, n, d, 0.25, sum.anew(), scratch.span());
  }
  [[nodiscard]] Outputs<T> outputs() { return {gradients.values(), dweight.values(), sum.as<T>()}; }
};

}  // namespace

std::vector<NamedCase> table_loss_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  if (sizes.on_device) return cases;
  const Index n = sizes.nodes(), steps = sizes.steps();
  for (const Index d : {1, 3, 6, 8, 24}) {
    const auto rows = static_cast<double>(slab * n), values = rows * static_cast<double>(d);
    const std::string name = fmt::format("/steps:{}/n:{}/d:{}", steps, n, d);
    for (const bool through_tanh : {false, true})
      cases.push_back(checked<TableDifference>(
          "table_difference" + std::string(through_tanh ? "_tanh" : "") + name,
          work_of(costs::table_difference(values, 4, through_tanh).forward, 16 * values), steps, n, d,
          through_tanh));
    cases.push_back(checked<TableDecodedError>(
        "table_decoded_error" + name,
        work_of(costs::table_decoded_error(rows, static_cast<double>(d), 1, 4, true).forward,
                8 * values + 4 * rows),
        steps, n, d));
  }
  return cases;
}

}  // namespace rossby::bench
