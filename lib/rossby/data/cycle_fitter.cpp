#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/data/cycle.hpp"

namespace rossby {
namespace {

constexpr double no_spread = 1e9;  // weight of a coarser mean if nodes do not differ from it
constexpr std::size_t moments_each = 5;

}  // namespace

CycleFitter::CycleFitter(const CyclePhases& phases, std::span<const Index> steps)
    : phases_(&phases), steps_(steps) {
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const auto period = [&](std::size_t k) { return phases.period[as_size(steps[k])]; };
    if (j == 0 || period(j) != period(j - 1)) ranges_.push_back({j, j});
    ranges_.back().last = j + 1;
  }
  // Omit weights below a thousandth.
  reach_ = std::min<Index>(static_cast<Index>(3.7 * phases.smooth), (phases.ring - 1) / 2);
  for (Index by = 0; by <= reach_; ++by)
    weight_.push_back(by == 0 ? 1.0 : std::exp(-0.5 * std::pow(static_cast<double>(by) / phases.smooth, 2)));
  if (phases.harmonics > 0) return;
  std::vector<bool> marked(as_size(phases.finest().count));
  for (const Range& range : ranges_) {
    std::vector<std::int32_t> needed;
    for (std::size_t j = range.first; j < range.last; ++j)
      for (Index by = -reach_; by <= reach_; ++by) {
        const std::int32_t phase = neighbour(phases.finest().of_step[as_size(steps[j])], by);
        if (marked[as_size(phase)]) continue;
        marked[as_size(phase)] = true;
        needed.push_back(phase);
      }
    for (const std::int32_t phase : needed) marked[as_size(phase)] = false;
    needed_.push_back(std::move(needed));
  }
}

std::int32_t CycleFitter::neighbour(std::int32_t phase, Index by) const {
  const Index ring = phases_->ring, first = phase / ring * ring;
  return static_cast<std::int32_t>(first + (phase - first + by + ring) % ring);
}

/// Computes sums and counts of all levels.
void CycleFitter::take(std::span<const double> x, Work& work) const {
  const auto& levels = phases_->levels;
  work.sum.resize(levels.size());
  work.count.resize(levels.size());
  for (std::size_t l = 0; l < levels.size(); ++l) {
    work.sum[l].assign(as_size(levels[l].count), 0);
    work.count[l].assign(as_size(levels[l].count), 0);
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isnan(x[j])) continue;
      const auto phase = as_size(levels[l].of_step[as_size(steps_[j])]);
      work.sum[l][phase] += x[j];
      work.count[l][phase] += 1;
    }
  }
}

/// The shrunk mean of a finest phase. `coarsest`: the value that the coarsest level is shrunk towards.
double CycleFitter::mean_of(std::int32_t phase, double coarsest, const PooledCycle& pooled,
                            const Work& work) const {
  double value = coarsest;
  for (std::size_t l = 0; l < phases_->levels.size(); ++l) {
    const auto p = as_size(phases_->ancestors[l][as_size(phase)]);
    const double count = work.count[l][p] + pooled.strength[l];
    if (count > 0) value = (work.sum[l][p] + pooled.strength[l] * value) / count;
  }
  return value;
}

void CycleFitter::fit(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled,
                      Work& work, std::span<float> full, std::span<double> without) const {
  if (phases_->harmonics > 0)
    fit_harmonics(x, mean, deviation, pooled, work, full, without);
  else
    fit_means(x, mean, deviation, pooled, work, full, without);
}

void CycleFitter::fit_means(std::span<const double> x, double mean, double deviation,
                            const PooledCycle& pooled, Work& work, std::span<float> full,
                            std::span<double> without) const {
  const auto& levels = phases_->levels;
  const auto& coarsest = phases_->ancestors.front();
  take(x, work);
  std::vector<double>& table = work.table;
  table.resize(as_size(levels.back().count));
  const auto smoothed = [&](std::int32_t phase) {
    if (reach_ == 0) return table[as_size(phase)];
    double sum = 0, weights = 0;
    for (Index by = -reach_; by <= reach_; ++by) {
      const auto other = neighbour(phase, by);
      if (work.count.front()[as_size(coarsest[as_size(other)])] <= 0) continue;
      sum += weight_[as_size(std::abs(by))] * table[as_size(other)];
      weights += weight_[as_size(std::abs(by))];
    }
    return weights > 0 ? sum / weights : table[as_size(phase)];
  };
  const auto fill = [&](std::int32_t phase, double about, const std::vector<double>& shape) {
    table[as_size(phase)] =
        mean_of(phase, about + deviation * shape[as_size(coarsest[as_size(phase)])], pooled, work);
  };
  for (std::int32_t p = 0; p < levels.back().count; ++p) fill(p, mean, pooled.shape);
  for (std::int32_t p = 0; p < levels.back().count; ++p) full[as_size(p)] = static_cast<float>(smoothed(p));

  double total = 0, number = 0;
  for (const double value : x)
    if (!std::isnan(value)) total += value, number += 1;
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    const Range& range = ranges_[r];
    work.saved.clear();
    double own = 0, own_number = 0;
    for (std::size_t l = 0; l < levels.size(); ++l)
      for (std::size_t j = range.first; j < range.last; ++j) {
        const auto phase = as_size(levels[l].of_step[as_size(steps_[j])]);
        work.saved.push_back(work.sum[l][phase]);
        if (std::isnan(x[j])) continue;
        work.sum[l][phase] -= x[j];
        work.count[l][phase] -= 1;
        if (work.count[l][phase] <= 0) work.sum[l][phase] = 0;
        if (l == 0) own += x[j], own_number += 1;
      }
    const double about = number - own_number > 0 ? (total - own) / (number - own_number) : pooled.mean;
    for (const std::int32_t phase : needed_[r]) fill(phase, about, pooled.shape_without[r]);
    for (std::size_t j = range.first; j < range.last; ++j)
      without[j] = smoothed(levels.back().of_step[as_size(steps_[j])]);
    // Restore the same bits: undo the last change first.
    for (std::size_t l = levels.size(); l-- > 0;)
      for (std::size_t j = range.last; j-- > range.first;) {
        const auto phase = as_size(levels[l].of_step[as_size(steps_[j])]);
        work.sum[l][phase] = work.saved.back();
        work.saved.pop_back();
        if (!std::isnan(x[j])) work.count[l][phase] += 1;
      }
  }
}

/// Adds the products of (1, basis, x) with themselves over a period: the lower triangle by rows.
void CycleFitter::add_products(std::span<const double> x, const Range& range, double sign,
                               std::vector<double>& products) const {
  const auto width = as_size(2 * phases_->harmonics);
  std::vector<double> row(width + 2);
  row[0] = 1;
  for (std::size_t j = range.first; j < range.last; ++j) {
    if (std::isnan(x[j])) continue;
    const auto phase = as_size(phases_->finest().of_step[as_size(steps_[j])]);
    std::copy_n(phases_->basis.begin() + static_cast<std::ptrdiff_t>(phase * width), width, row.begin() + 1);
    row[width + 1] = x[j];
    std::size_t k = 0;
    for (std::size_t a = 0; a < width + 2; ++a)
      for (std::size_t b = 0; b <= a; ++b) products[k++] += sign * row[a] * row[b];
  }
}

/// Returns the mean and coefficients of the basis: least squares, with coefficients pulled towards `towards`.
std::vector<double> CycleFitter::solve(const std::vector<double>& products, double mean,
                                       std::span<const double> towards,
                                       std::span<const double> strength) const {
  const auto size = as_size(2 * phases_->harmonics + 1);
  std::vector<double> matrix(size * size), right(size);
  std::size_t k = 0;
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b <= a; ++b) matrix[a * size + b] = matrix[b * size + a] = products[k++];
  std::copy_n(products.begin() + static_cast<std::ptrdiff_t>(k), size, right.begin());
  // A node without values gets the mean of all nodes.
  const double weak = 1e-9 * std::max(products[0], 1.0);
  matrix[0] += weak;
  right[0] += weak * mean;
  for (std::size_t a = 1; a < size; ++a) {
    const double pull = std::max(strength[(a - 1) / 2], weak);
    matrix[a * size + a] += pull;
    right[a] += pull * towards[a - 1];
  }
  require(cholesky(matrix, static_cast<Index>(size)), "a ridge regression has a positive definite matrix");
  cholesky_solve(matrix, static_cast<Index>(size), right, 1);
  return right;
}

void CycleFitter::fit_harmonics(std::span<const double> x, double mean, double deviation,
                                const PooledCycle& pooled, Work& work, std::span<float> full,
                                std::span<double> without) const {
  const auto width = as_size(2 * phases_->harmonics);
  const auto at = [&](const std::vector<double>& b, std::size_t phase) {
    double value = b[0];
    for (std::size_t a = 0; a < width; ++a) value += b[a + 1] * phases_->basis[phase * width + a];
    return value;
  };
  const auto towards = [&](const std::vector<double>& shape) {
    std::vector<double> scaled(shape);
    for (double& value : scaled) value *= deviation;
    return scaled;
  };
  work.sum.resize(1);
  std::vector<double>& products = work.sum.front();
  products.assign((width + 2) * (width + 3) / 2, 0);
  for (const Range& range : ranges_) add_products(x, range, 1, products);
  const auto b = solve(products, mean, towards(pooled.shape), pooled.strength);
  for (std::size_t p = 0; p < full.size(); ++p) full[p] = static_cast<float>(at(b, p));
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    std::vector<double> rest = products;
    add_products(x, ranges_[r], -1, rest);
    if (rest[0] < 0.5) std::fill(rest.begin(), rest.end(), 0.0);  // zero up to rounding
    const auto c = solve(rest, pooled.mean, towards(pooled.shape_without[r]), pooled.strength);
    for (std::size_t j = ranges_[r].first; j < ranges_[r].last; ++j)
      without[j] = at(c, as_size(phases_->finest().of_step[as_size(steps_[j])]));
  }
}

std::size_t CycleFitter::strengths() const {
  return phases_->harmonics > 0 ? as_size(phases_->harmonics) : phases_->levels.size();
}

std::size_t CycleFitter::moments() const {
  return moments_each * strengths();
}

/// Only for nodes with values spread over the year. Coefficients of other nodes are arbitrary.
void CycleFitter::add_harmonic_moments(std::span<const double> x, double mean, double deviation,
                                       const PooledCycle& pooled, std::span<double> moments) const {
  constexpr double most_noise = 4;  // times the noise of equally spaced values
  const double unit = 1 / (deviation * deviation);
  const auto width = as_size(2 * phases_->harmonics), size = width + 1;
  std::vector<double> products((width + 2) * (width + 3) / 2), matrix(size * size), inverse(size * size);
  for (const Range& range : ranges_) add_products(x, range, 1, products);
  const double number = products[0], freedom = number - static_cast<double>(size);
  if (freedom <= 0) return;
  std::size_t k = 0;
  for (std::size_t a = 0; a < size; ++a) {
    inverse[a * size + a] = 1;
    for (std::size_t b = 0; b <= a; ++b) matrix[a * size + b] = matrix[b * size + a] = products[k++];
  }
  if (!cholesky(matrix, static_cast<Index>(size))) return;
  cholesky_solve(matrix, static_cast<Index>(size), inverse, static_cast<Index>(size));
  for (std::size_t a = 1; a < size; ++a)
    if (!(inverse[a * size + a] * number < 2 * most_noise)) return;
  const std::vector<double> none(width), weak(strengths());
  const auto b = solve(products, mean, none, weak);
  double squares = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (std::isnan(x[j])) continue;
    const auto phase = as_size(phases_->finest().of_step[as_size(steps_[j])]);
    double left = x[j] - b[0];
    for (std::size_t a = 0; a < width; ++a) left -= b[a + 1] * phases_->basis[phase * width + a];
    squares += left * left;
  }
  for (std::size_t a = 0; a < width; ++a) {
    double* of = moments.data() + a / 2 * moments_each;
    const double apart = b[a + 1] - deviation * pooled.shape[a];
    if (a % 2 == 0) of[0] += unit * squares, of[1] += freedom;
    of[2] += unit * apart * apart;
    of[3] += inverse[(a + 1) * size + a + 1];
    of[4] += 1;
  }
}

// Five sums per level or harmonic: sum of squares within, and its degrees of freedom; squared differences
// between nodes and the coarser cycle, their noise per unit of variance within, and their number.
void CycleFitter::add_moments(std::span<const double> x, double mean, double deviation,
                              const PooledCycle& pooled, Work& work, std::span<double> moments) const {
  if (deviation <= 0) return;
  const double unit = 1 / (deviation * deviation);
  if (phases_->harmonics > 0) return add_harmonic_moments(x, mean, deviation, pooled, moments);
  take(x, work);
  for (std::size_t l = 0; l < phases_->levels.size(); ++l) {
    double* of = moments.data() + l * moments_each;
    const CyclePhases::Level& level = phases_->levels[l];
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isnan(x[j])) continue;
      const auto phase = as_size(level.of_step[as_size(steps_[j])]);
      const double left = x[j] - work.sum[l][phase] / work.count[l][phase];
      of[0] += unit * left * left;
    }
    std::vector<bool> seen(as_size(level.count));
    for (std::size_t p = 0; p < phases_->ancestors[l].size(); ++p) {
      const auto phase = as_size(phases_->ancestors[l][p]);
      if (seen[phase]) continue;
      seen[phase] = true;
      const double count = work.count[l][phase];
      if (count <= 0) continue;
      of[1] += count - 1;
      double coarser = mean + deviation * pooled.shape[as_size(phases_->ancestors[0][p])], all = 0;
      if (l > 0) {
        const auto above = as_size(phases_->ancestors[l - 1][p]);
        all = work.count[l - 1][above];
        coarser = work.sum[l - 1][above] / all;
      }
      const double apart = work.sum[l][phase] / count - coarser;
      of[2] += unit * apart * apart;
      of[3] += 1 / count - (l > 0 ? 1 / all : 0);
      of[4] += 1 - (l > 0 ? count / all : 0);
    }
  }
}

std::vector<double> CycleFitter::strengths_of(std::span<const double> moments, double shrink) const {
  std::vector<double> strengths;
  for (std::size_t l = 0; l < this->strengths(); ++l) {
    const double* of = moments.data() + l * moments_each;
    const double unknown = phases_->harmonics > 0 ? 30 : 1;
    const double within = of[1] > 0 ? of[0] / of[1] : 0;
    const double between = of[4] > 1e-9 ? (of[2] - within * of[3]) / of[4] : 0;
    // Use a guess if noise cannot be separated from differences: one value per phase, or no full year.
    double ratio = unknown;
    if (of[1] > 0) ratio = between > within / no_spread ? within / between : within > 0 ? no_spread : 0;
    strengths.push_back(shrink * ratio);
  }
  return strengths;
}

void CycleFitter::pool(std::span<const double> sums, std::span<const double> counts,
                       PooledCycle& pooled) const {
  pooled.shape_without.clear();
  const auto phase_at = [&](std::size_t j) {
    return as_size(phases_->levels.front().of_step[as_size(steps_[j])]);
  };
  if (phases_->harmonics > 0) {
    const auto width = as_size(2 * phases_->harmonics);
    const auto add = [&](const Range& range, double sign, std::vector<double>& products) {
      std::vector<double> row(width + 1);
      row[0] = 1;
      for (std::size_t j = range.first; j < range.last; ++j) {
        std::copy_n(phases_->basis.begin() + static_cast<std::ptrdiff_t>(phase_at(j) * width), width,
                    row.begin() + 1);
        std::size_t k = 0;
        for (std::size_t a = 0; a <= width; ++a)
          for (std::size_t b = 0; b <= a; ++b) products[k++] += sign * counts[j] * row[a] * row[b];
        for (std::size_t b = 0; b <= width; ++b) products[k++] += sign * sums[j] * row[b];
      }
    };
    const std::vector<double> none(width), weak(strengths());
    const auto shape = [&](std::vector<double> products) {
      if (products[0] < 0.5) std::fill(products.begin(), products.end(), 0.0);
      const auto b = solve(products, 0, none, weak);
      return std::vector<double>(b.begin() + 1, b.end());
    };
    std::vector<double> products((width + 2) * (width + 3) / 2);
    for (const Range& range : ranges_) add(range, 1, products);
    pooled.shape = shape(products);
    for (const Range& range : ranges_) {
      std::vector<double> rest = products;
      add(range, -1, rest);
      pooled.shape_without.push_back(shape(std::move(rest)));
    }
    return;
  }
  std::vector<double> sum(as_size(phases_->levels.front().count)), count(sum.size());
  for (std::size_t j = 0; j < sums.size(); ++j) {
    sum[phase_at(j)] += sums[j];
    count[phase_at(j)] += counts[j];
  }
  const auto shape = [](const std::vector<double>& total, const std::vector<double>& number) {
    std::vector<double> means(total.size());
    for (std::size_t p = 0; p < means.size(); ++p) means[p] = number[p] > 0.5 ? total[p] / number[p] : 0;
    return means;
  };
  pooled.shape = shape(sum, count);
  for (const Range& range : ranges_) {
    std::vector<double> rest = sum, number = count;
    for (std::size_t j = range.first; j < range.last; ++j) {
      rest[phase_at(j)] -= sums[j];
      number[phase_at(j)] -= counts[j];
    }
    pooled.shape_without.push_back(shape(rest, number));
  }
}

}  // namespace rossby
