#include "rossby/data/leading_patterns.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/random.hpp"

namespace rossby {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

/// Gram–Schmidt, twice, because one pass loses orthogonality for nearly equal columns.
void orthonormalise(std::vector<double>& basis, Index rows, Index modes, Reducer& space) {
  constexpr double negligible = 1e-10;  // of the column's previous squared norm
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

/// Calls visit(field, amplitudes of the basis (rows, modes) in it) for every step.
template <class Visit>
void for_amplitudes(const PatternFields& fields, std::span<const double> basis, Index modes, Reducer& space,
                    const Visit& visit) {
  constexpr Index at_once = 256;  // steps per sum over ranks
  const Index rows = std::ssize(fields.rows), steps = std::ssize(fields.steps);
  std::vector<double> values, amplitude;
  for (Index first = 0; first < steps; first += at_once) {
    const Index some = std::min(at_once, steps - first);
    values.assign(at(some * rows), 0.0);
    amplitude.assign(at(some * modes), 0.0);
    for (Index t = 0; t < some; ++t) {
      const std::span<double> field(values.data() + t * rows, at(rows));
      fields.read(fields.steps[at(first + t)], field);
      for (Index i = 0; i < rows; ++i)
        for (Index k = 0; k < modes; ++k)
          amplitude[at(t * modes + k)] += field[at(i)] * basis[at(i * modes + k)];
    }
    space.sum(std::span<double>(amplitude));
    for (Index t = 0; t < some; ++t)
      visit(std::span<const double>(values.data() + t * rows, at(rows)),
            std::span<const double>(amplitude.data() + t * modes, at(modes)));
  }
}

}  // namespace

LeadingPatterns leading_patterns(const PatternFields& fields, Index modes, Reducer& space, Reducer& groups) {
  constexpr int iterations = 8;
  const Index rows = std::ssize(fields.rows);
  const Random random(1, "leading_patterns");
  std::vector<double> basis(at(rows * modes));
  for (Index i = 0; i < rows; ++i)
    for (Index k = 0; k < modes; ++k)
      basis[at(i * modes + k)] =
          random.normal(static_cast<std::uint64_t>(fields.rows[at(i)].value * modes + k));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    orthonormalise(basis, rows, modes, space);
    std::vector<double> next(basis.size());
    for_amplitudes(fields, basis, modes, space,
                   [&](std::span<const double> field, std::span<const double> amplitude) {
                     for (Index i = 0; i < rows; ++i)
                       for (Index k = 0; k < modes; ++k)
                         next[at(i * modes + k)] += field[at(i)] * amplitude[at(k)];
                   });
    groups.sum(std::span<double>(next));
    basis = std::move(next);
  }
  orthonormalise(basis, rows, modes, space);
  std::vector<double> sums(at(modes + 1));
  for_amplitudes(fields, basis, modes, space,
                 [&](std::span<const double>, std::span<const double> amplitude) {
                   for (Index k = 0; k < modes; ++k) sums[at(k)] += amplitude[at(k)] * amplitude[at(k)];
                   sums.back() += 1;
                 });
  groups.sum(std::span<double>(sums));
  LeadingPatterns found{std::move(basis), {}};
  for (Index k = 0; k < modes; ++k)
    found.spread.push_back(std::sqrt(sums[at(k)] / std::max(sums.back(), 1.0)));
  return found;
}

}  // namespace rossby
