#include "rossby/data/cycle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"

namespace rossby {
namespace {

constexpr Milliseconds day = 86400000;
constexpr Index days_of_year = 366;
constexpr double no_spread = 1e9;  // values that a coarser mean counts as if nodes do not differ from it
constexpr std::size_t moments_each = 5;
constexpr const char* names[] = {"none", "time_of_day", "day_type", "time_of_week", "month", "day_of_year"};

std::size_t place(Index i) {
  return static_cast<std::size_t>(i);
}

[[noreturn]] void refuse(CycleKind kind, const std::string& why) {
  user_error("data.cycle = \"{}\": {}; set data.cycle = \"none\" or one that fits", name_of(kind), why);
}

void require_dates(const TimeAxis& axis, CycleKind kind) {
  if (!axis.dated()) refuse(kind, "the time axis counts steps and has no dates");
  if (!axis.regular() || axis.spacing() == TimeAxis::Spacing::none)
    refuse(kind, "the steps of the time axis are not regular");
}

/// Steps a day.
Index day_phases(const TimeAxis& axis, CycleKind kind) {
  const bool fixed = axis.spacing() == TimeAxis::Spacing::duration;
  const Milliseconds step = fixed ? axis.step_milliseconds() : 0;
  if (step <= 0 || step > day || day % step != 0)
    refuse(kind, fmt::format("the time axis has a step of {}, which is no part of a day", axis.step_text()));
  if (step == day && kind == CycleKind::time_of_day) refuse(kind, "the time axis has one step a day");
  return day / step;
}

void add_days(const TimeAxis& axis, CyclePhases& phases) {
  const Index a_day = day_phases(axis, phases.kind);
  CyclePhases::Level of_day{a_day, {}}, of_type{2 * a_day, {}}, of_week{7 * a_day, {}};
  // Days begin at midnight, not at the time of the first stamp.
  const auto into_day = static_cast<Milliseconds>(axis.day_fraction(0) * static_cast<double>(day) + 0.5);
  for (Index t = 0; t < axis.size(); ++t) {
    const auto slot = static_cast<std::int32_t>(
        static_cast<Index>(axis.day_fraction(t) * static_cast<double>(a_day) + 0.5) % a_day);
    const int weekday = axis.weekday(t);
    of_day.of_step.push_back(slot);
    of_type.of_step.push_back(static_cast<std::int32_t>((weekday < 5 ? 0 : a_day) + slot));
    of_week.of_step.push_back(static_cast<std::int32_t>(weekday * a_day + slot));
    phases.period.push_back(static_cast<std::int32_t>((axis.stamp(t) - axis.stamp(0) + into_day) / day));
  }
  phases.levels.push_back(std::move(of_day));
  if (phases.kind != CycleKind::time_of_day) phases.levels.push_back(std::move(of_type));
  if (phases.kind == CycleKind::time_of_week) phases.levels.push_back(std::move(of_week));
  std::vector<std::vector<std::int32_t>>& above = phases.ancestors;
  above.resize(phases.levels.size());
  for (std::int32_t p = 0; p < phases.finest().count; ++p) {
    const auto slot = static_cast<std::int32_t>(p % a_day);
    const bool week = phases.levels.size() == 3;
    const Index type = week ? (p / a_day < 5 ? 0 : 1) : p / a_day;
    above[0].push_back(slot);
    if (above.size() > 1) above[1].push_back(static_cast<std::int32_t>(type * a_day + slot));
    if (week) above[2].push_back(p);
  }
  phases.ring = phases.kind == CycleKind::time_of_week ? 7 * a_day : a_day;
}

void add_years(const TimeAxis& axis, const CycleSpec& spec, CyclePhases& phases) {
  const bool months = axis.spacing() == TimeAxis::Spacing::months;
  if (months ? axis.step_months() >= 12 || 12 % axis.step_months() != 0
             : axis.spacing() == TimeAxis::Spacing::counter || axis.step_milliseconds() > 31 * day)
    refuse(spec.kind,
           fmt::format("the time axis has a step of {}, too long for a cycle of the year", axis.step_text()));
  const bool harmonic = spec.kind == CycleKind::day_of_year;
  CyclePhases::Level level{harmonic ? days_of_year : 12, {}};
  std::int32_t year = 0;
  for (Index t = 0; t < axis.size(); ++t) {
    const double fraction = axis.year_fraction(t);
    if (t > 0 &&
        (fraction < axis.year_fraction(t - 1) || axis.stamp(t) - axis.stamp(t - 1) >= axis.shortest_year()))
      ++year;
    phases.period.push_back(year);
    level.of_step.push_back(static_cast<std::int32_t>(harmonic ? static_cast<Index>(fraction * days_of_year)
                                                               : axis.month(t) - 1));
  }
  const double steps_a_year =
      months ? 12.0 / static_cast<double>(axis.step_months())
             : 365.25 * static_cast<double>(day) / static_cast<double>(axis.step_milliseconds());
  phases.a_phase = std::max(1.0, steps_a_year / 12);
  phases.ring = level.count;
  phases.ancestors.resize(1);
  for (std::int32_t p = 0; p < level.count; ++p) phases.ancestors[0].push_back(p);
  phases.levels.push_back(std::move(level));
  if (!harmonic) return;
  phases.harmonics = spec.harmonics;
  for (Index p = 0; p < days_of_year; ++p)
    for (Index k = 1; k <= spec.harmonics; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) * (static_cast<double>(p) + 0.5) /
                           static_cast<double>(days_of_year);
      phases.basis.push_back(std::cos(angle));
      phases.basis.push_back(std::sin(angle));
    }
}

}  // namespace

std::string_view name_of(CycleKind kind) {
  return names[static_cast<std::size_t>(kind)];
}

CycleKind cycle_kind(std::string_view name) {
  for (const CycleKind kind : all_cycle_kinds)
    if (name_of(kind) == name) return kind;
  bug("data.cycle is one of its choices");
}

CycleSpec cycle_spec(const DataSettings& data, CycleKind decided) {
  return {data.cycle == "auto" ? decided : cycle_kind(data.cycle), data.cycle_harmonics, data.cycle_shrink,
          data.cycle_smooth};
}

CyclePhases CyclePhases::of(const TimeAxis& axis, const CycleSpec& spec) {
  CyclePhases phases;
  phases.kind = spec.kind;
  const auto steps = static_cast<std::size_t>(axis.size());
  switch (spec.kind) {
    case CycleKind::none:
      phases.levels.push_back({1, std::vector<std::int32_t>(steps, 0)});
      phases.period.assign(steps, 0);
      phases.ancestors = {{0}};
      return phases;
    case CycleKind::time_of_day:
    case CycleKind::day_type:
    case CycleKind::time_of_week:
      require_dates(axis, spec.kind);
      add_days(axis, phases);
      phases.smooth = 60e3 * spec.smooth_minutes / static_cast<double>(axis.step_milliseconds());
      return phases;
    case CycleKind::month:
    case CycleKind::day_of_year:
      require_dates(axis, spec.kind);
      add_years(axis, spec, phases);
      return phases;
  }
  bug("a cycle of a known kind");
}

CycleFitter::CycleFitter(const CyclePhases& phases, std::span<const Index> steps)
    : phases_(&phases), steps_(steps) {
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const auto period = [&](std::size_t k) { return phases.period[place(steps[k])]; };
    if (j == 0 || period(j) != period(j - 1)) ranges_.push_back({j, j});
    ranges_.back().last = j + 1;
  }
  // Weights below a thousandth are left out.
  reach_ = std::min<Index>(static_cast<Index>(3.7 * phases.smooth), (phases.ring - 1) / 2);
  for (Index by = 0; by <= reach_; ++by)
    weight_.push_back(by == 0 ? 1.0 : std::exp(-0.5 * std::pow(static_cast<double>(by) / phases.smooth, 2)));
  if (phases.harmonics > 0) return;
  std::vector<bool> marked(place(phases.finest().count));
  for (const Range& range : ranges_) {
    std::vector<std::int32_t> needed;
    for (std::size_t j = range.first; j < range.last; ++j)
      for (Index by = -reach_; by <= reach_; ++by) {
        const std::int32_t phase = neighbour(phases.finest().of_step[place(steps[j])], by);
        if (marked[place(phase)]) continue;
        marked[place(phase)] = true;
        needed.push_back(phase);
      }
    for (const std::int32_t phase : needed) marked[place(phase)] = false;
    needed_.push_back(std::move(needed));
  }
}

std::int32_t CycleFitter::neighbour(std::int32_t phase, Index by) const {
  const Index ring = phases_->ring, first = phase / ring * ring;
  return static_cast<std::int32_t>(first + (phase - first + by + ring) % ring);
}

/// Sums and counts of all levels.
void CycleFitter::take(std::span<const double> x, Work& work) const {
  const auto& levels = phases_->levels;
  work.sum.resize(levels.size());
  work.count.resize(levels.size());
  for (std::size_t l = 0; l < levels.size(); ++l) {
    work.sum[l].assign(place(levels[l].count), 0);
    work.count[l].assign(place(levels[l].count), 0);
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isnan(x[j])) continue;
      const auto phase = place(levels[l].of_step[place(steps_[j])]);
      work.sum[l][phase] += x[j];
      work.count[l][phase] += 1;
    }
  }
}

/// The shrunk mean of one of the finest phases; `coarsest` is what its coarsest level is shrunk towards.
double CycleFitter::mean_of(std::int32_t phase, double coarsest, const PooledCycle& pooled,
                            const Work& work) const {
  double value = coarsest;
  for (std::size_t l = 0; l < phases_->levels.size(); ++l) {
    const auto p = place(phases_->ancestors[l][place(phase)]);
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
  table.resize(place(levels.back().count));
  const auto smoothed = [&](std::int32_t phase) {
    if (reach_ == 0) return table[place(phase)];
    double sum = 0, weights = 0;
    for (Index by = -reach_; by <= reach_; ++by) {
      const auto other = neighbour(phase, by);
      if (work.count.front()[place(coarsest[place(other)])] <= 0) continue;
      sum += weight_[place(std::abs(by))] * table[place(other)];
      weights += weight_[place(std::abs(by))];
    }
    return weights > 0 ? sum / weights : table[place(phase)];
  };
  const auto fill = [&](std::int32_t phase, double about, const std::vector<double>& shape) {
    table[place(phase)] =
        mean_of(phase, about + deviation * shape[place(coarsest[place(phase)])], pooled, work);
  };
  for (std::int32_t p = 0; p < levels.back().count; ++p) fill(p, mean, pooled.shape);
  for (std::int32_t p = 0; p < levels.back().count; ++p) full[place(p)] = static_cast<float>(smoothed(p));

  double total = 0, number = 0;
  for (const double value : x)
    if (!std::isnan(value)) total += value, number += 1;
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    const Range& range = ranges_[r];
    work.saved.clear();
    double own = 0, own_number = 0;
    for (std::size_t l = 0; l < levels.size(); ++l)
      for (std::size_t j = range.first; j < range.last; ++j) {
        const auto phase = place(levels[l].of_step[place(steps_[j])]);
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
      without[j] = smoothed(levels.back().of_step[place(steps_[j])]);
    // Back to the same bits, the last change first.
    for (std::size_t l = levels.size(); l-- > 0;)
      for (std::size_t j = range.last; j-- > range.first;) {
        const auto phase = place(levels[l].of_step[place(steps_[j])]);
        work.sum[l][phase] = work.saved.back();
        work.saved.pop_back();
        if (!std::isnan(x[j])) work.count[l][phase] += 1;
      }
  }
}

/// Products of (1, basis, x) with themselves over a period: the lower triangle by rows.
void CycleFitter::add_products(std::span<const double> x, const Range& range, double sign,
                               std::vector<double>& products) const {
  const auto width = place(2 * phases_->harmonics);
  std::vector<double> row(width + 2);
  row[0] = 1;
  for (std::size_t j = range.first; j < range.last; ++j) {
    if (std::isnan(x[j])) continue;
    const auto phase = place(phases_->finest().of_step[place(steps_[j])]);
    std::copy_n(phases_->basis.begin() + static_cast<std::ptrdiff_t>(phase * width), width, row.begin() + 1);
    row[width + 1] = x[j];
    std::size_t k = 0;
    for (std::size_t a = 0; a < width + 2; ++a)
      for (std::size_t b = 0; b <= a; ++b) products[k++] += sign * row[a] * row[b];
  }
}

/// Mean and coefficients of the basis: least squares, with coefficients pulled towards `towards`.
std::vector<double> CycleFitter::solve(const std::vector<double>& products, double mean,
                                       std::span<const double> towards,
                                       std::span<const double> strength) const {
  const auto size = place(2 * phases_->harmonics + 1);
  std::vector<double> matrix(size * size), right(size);
  std::size_t k = 0;
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b <= a; ++b) matrix[a * size + b] = matrix[b * size + a] = products[k++];
  std::copy_n(products.begin() + static_cast<std::ptrdiff_t>(k), size, right.begin());
  // A node without values has the mean of all.
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
  const auto width = place(2 * phases_->harmonics);
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
    if (rest[0] < 0.5) std::fill(rest.begin(), rest.end(), 0.0);  // but for rounding
    const auto c = solve(rest, pooled.mean, towards(pooled.shape_without[r]), pooled.strength);
    for (std::size_t j = ranges_[r].first; j < ranges_[r].last; ++j)
      without[j] = at(c, place(phases_->finest().of_step[place(steps_[j])]));
  }
}

std::size_t CycleFitter::strengths() const {
  return phases_->harmonics > 0 ? place(phases_->harmonics) : phases_->levels.size();
}

std::size_t CycleFitter::moments() const {
  return moments_each * strengths();
}

// Of each level or harmonic: sum of squares within and its degrees of freedom; squares of what sets nodes
// apart from the coarser cycle, what of it is noise for each unit of variance within, and how many there are.
void CycleFitter::add_moments(std::span<const double> x, double mean, double deviation,
                              const PooledCycle& pooled, Work& work, std::span<double> moments) const {
  if (deviation <= 0) return;
  const double unit = 1 / (deviation * deviation);
  if (phases_->harmonics > 0) {
    const auto width = place(2 * phases_->harmonics);
    std::vector<double> products((width + 2) * (width + 3) / 2);
    for (const Range& range : ranges_) add_products(x, range, 1, products);
    const double number = products[0], freedom = number - static_cast<double>(width) - 1;
    if (freedom <= 0) return;
    const std::vector<double> none(width), weak(strengths());
    const auto b = solve(products, mean, none, weak);
    double squares = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isnan(x[j])) continue;
      const auto phase = place(phases_->finest().of_step[place(steps_[j])]);
      double left = x[j] - b[0];
      for (std::size_t a = 0; a < width; ++a) left -= b[a + 1] * phases_->basis[phase * width + a];
      squares += left * left;
    }
    for (std::size_t a = 0; a < width; ++a) {
      double* of = moments.data() + a / 2 * moments_each;
      const double apart = b[a + 1] - deviation * pooled.shape[a];
      if (a % 2 == 0) of[0] += unit * squares, of[1] += freedom;
      of[2] += unit * apart * apart;
      of[3] += 2 / number;
      of[4] += 1;
    }
    return;
  }
  take(x, work);
  for (std::size_t l = 0; l < phases_->levels.size(); ++l) {
    double* of = moments.data() + l * moments_each;
    const CyclePhases::Level& level = phases_->levels[l];
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isnan(x[j])) continue;
      const auto phase = place(level.of_step[place(steps_[j])]);
      const double left = x[j] - work.sum[l][phase] / work.count[l][phase];
      of[0] += unit * left * left;
    }
    std::vector<bool> seen(place(level.count));
    for (std::size_t p = 0; p < phases_->ancestors[l].size(); ++p) {
      const auto phase = place(phases_->ancestors[l][p]);
      if (seen[phase]) continue;
      seen[phase] = true;
      const double count = work.count[l][phase];
      if (count <= 0) continue;
      of[1] += count - 1;
      double coarser = mean + deviation * pooled.shape[place(phases_->ancestors[0][p])], all = 0;
      if (l > 0) {
        const auto above = place(phases_->ancestors[l - 1][p]);
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
    const double within = of[1] > 0 ? of[0] / of[1] : 0;
    const double between = of[4] > 1e-9 ? (of[2] - within * of[3]) / of[4] : 0;
    // Without two values of a phase nothing tells noise from what sets nodes apart.
    const double ratio = of[1] <= 0                     ? 1
                         : within <= 0                  ? 0
                         : between > within / no_spread ? within / between
                                                        : no_spread;
    strengths.push_back(shrink * ratio);
  }
  return strengths;
}

void CycleFitter::pool(std::span<const double> sums, std::span<const double> counts,
                       PooledCycle& pooled) const {
  pooled.shape_without.clear();
  const auto phase_at = [&](std::size_t j) {
    return place(phases_->levels.front().of_step[place(steps_[j])]);
  };
  if (phases_->harmonics > 0) {
    const auto width = place(2 * phases_->harmonics);
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
  std::vector<double> sum(place(phases_->levels.front().count)), count(sum.size());
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
