#include "rossby/data/leading_patterns.hpp"

#include <cmath>

#include "rossby/base/random.hpp"

namespace rossby {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

/// Gram–Schmidt, twice, since once loses orthogonality among columns that are nearly alike.
void orthonormalise(std::vector<double>& basis, Index rows, Index modes, Reducer& space) {
  constexpr double negligible = 1e-10;  // of what a column was before
  std::vector<double> product(at(modes));
  for (Index k = 0; k < modes; ++k) {
    double before = 0;
    for (int pass = 0; pass < 2; ++pass) {
      std::fill(product.begin(), product.end(), 0.0);
      for (Index i = 0; i < rows; ++i)
        for (Index l = 0; l <= k; ++l) product[at(l)] += basis[at(i * modes + l)] * basis[at(i * modes + k)];
      space.sum(std::span<double>(product));
      if (pass == 0) before = product[at(k)];
      for (Index i = 0; i < rows; ++i)
        for (Index l = 0; l < k; ++l) basis[at(i * modes + k)] -= product[at(l)] * basis[at(i * modes + l)];
    }
    double square = 0;
    for (Index i = 0; i < rows; ++i) square += basis[at(i * modes + k)] * basis[at(i * modes + k)];
    space.sum(std::span<double>(&square, 1));
    const double scale = square > negligible * before ? 1 / std::sqrt(square) : 0;
    for (Index i = 0; i < rows; ++i) basis[at(i * modes + k)] *= scale;
  }
}

}  // namespace

std::vector<double> leading_patterns(const PatternFields& fields, Index modes, Reducer& space,
                                     Reducer& groups) {
  constexpr int iterations = 8;
  constexpr Index at_once = 256;  // steps
  const Index rows = std::ssize(fields.rows), steps = std::ssize(fields.steps);
  const Random random(1, "leading_patterns");
  std::vector<double> basis(at(rows * modes)), field(at(rows));
  for (Index i = 0; i < rows; ++i)
    for (Index k = 0; k < modes; ++k)
      basis[at(i * modes + k)] =
          random.normal(static_cast<std::uint64_t>(fields.rows[at(i)].value * modes + k));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    orthonormalise(basis, rows, modes, space);
    std::vector<double> next(basis.size()), values;
    for (Index first = 0; first < steps; first += at_once) {
      const Index some = std::min(at_once, steps - first);
      values.assign(at(some * rows), 0.0);
      std::vector<double> amplitude(at(some * modes));
      for (Index t = 0; t < some; ++t) {
        const std::span<double> x(values.data() + t * rows, at(rows));
        fields.read(fields.steps[at(first + t)], x);
        for (Index i = 0; i < rows; ++i)
          for (Index k = 0; k < modes; ++k)
            amplitude[at(t * modes + k)] += x[at(i)] * basis[at(i * modes + k)];
      }
      space.sum(std::span<double>(amplitude));
      for (Index t = 0; t < some; ++t)
        for (Index i = 0; i < rows; ++i)
          for (Index k = 0; k < modes; ++k)
            next[at(i * modes + k)] += values[at(t * rows + i)] * amplitude[at(t * modes + k)];
    }
    groups.sum(std::span<double>(next));
    basis = std::move(next);
  }
  orthonormalise(basis, rows, modes, space);
  return basis;
}

}  // namespace rossby
