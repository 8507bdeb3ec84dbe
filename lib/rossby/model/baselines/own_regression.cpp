#include "rossby/model/baselines/own_regression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <cblas.h>

#include "rossby/data/anomalies.hpp"
#include "rossby/data/windows.hpp"

namespace rossby {
namespace {

constexpr Index most_lags = 6;
constexpr Index sets = 4 * (most_lags + 1);  // of regressors
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Calls make(column, result) in any order on several threads, and take(column, result) in column order.
template <class Result, class Make, class Take>
void in_order(Index columns, [[maybe_unused]] int threads, const Make& make, const Take& take) {
  constexpr Index at_once = 64;
  std::vector<Result> results(as_size(std::min(columns, at_once)));
  for (Index first = 0; first < columns; first += at_once) {
    const Index count = std::min(at_once, columns - first);
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(dynamic)
#endif
    for (Index k = 0; k < count; ++k) make(first + k, results[as_size(k)]);
    for (Index k = 0; k < count; ++k) take(first + k, results[as_size(k)]);
  }
}

/// Returns the number of steps in so many hours; 0 without dates or a fixed step.
double steps_of(const TimeAxis& axis, double hours) {
  if (!axis.dated() || axis.spacing() == TimeAxis::Spacing::none) return 0;
  if (axis.spacing() == TimeAxis::Spacing::months)
    return hours / (30.4 * 24 * static_cast<double>(axis.step_months()));
  return hours * 3.6e6 / static_cast<double>(axis.step_milliseconds());
}

/// Returns half-lives of exponential means: short ones for weather or traffic, long ones for drift.
std::vector<double> halflives_of(const TimeAxis& axis, CycleKind cycle) {
  constexpr double day = 24;
  const bool daily =
      cycle == CycleKind::time_of_day || cycle == CycleKind::day_type || cycle == CycleKind::time_of_week;
  std::vector<double> halflives;
  for (const double hours : daily ? std::vector<double>{day / 6, day, 3 * day}
                                  : std::vector<double>{7 * day, 30 * day, 180 * day, 730 * day})
    if (const double steps = steps_of(axis, hours); steps >= 2) halflives.push_back(steps);
  if (halflives.empty()) halflives = {8, 52};
  return halflives;
}

/// Returns for each step the step whose stamp is a period earlier; −1 if there is none.
std::vector<Index> steps_before(const TimeAxis& axis, Milliseconds period) {
  std::vector<Index> earlier(as_size(axis.size()), -1);
  const Milliseconds slack =
      axis.spacing() == TimeAxis::Spacing::months ? 3 * day_milliseconds : axis.step_milliseconds() / 2;
  for (Index t = 0, from = 0; t < axis.size(); ++t) {
    const Milliseconds wanted = axis.stamp(t) - period;
    while (from < t && axis.stamp(from) < wanted - slack) ++from;
    if (from < t && std::abs(axis.stamp(from) - wanted) <= slack) earlier[as_size(t)] = from;
  }
  return earlier;
}

std::vector<std::vector<Index>> seasons_of(const TimeAxis& axis, CycleKind cycle) {
  if (!axis.dated() || cycle == CycleKind::none) return {};
  const bool daily =
      cycle == CycleKind::time_of_day || cycle == CycleKind::day_type || cycle == CycleKind::time_of_week;
  std::vector<std::vector<Index>> seasons;
  for (const Milliseconds period : daily ? std::vector<Milliseconds>{day_milliseconds, 7 * day_milliseconds}
                                         : std::vector<Milliseconds>{axis.shortest_year()})
    seasons.push_back(steps_before(axis, period));
  return seasons;
}

}  // namespace

struct OwnRegression::Column {
  std::vector<double> x;      // (T), filled where missing
  std::vector<double> means;  // (T, halflives)
  std::vector<double> rows;   // (origins, regressors), of the current call
  std::vector<double> gram, right;
  double targets = 0, squares = 0;   // number of targets, and Σ y²
  std::vector<double> coefficients;  // (regressors), of the last choice; 0 for those that it lacks
  std::vector<double> own, change;   // kept for the next call: allocations would cost more than sums
};

Index OwnRegression::set_of(const OwnChoice& choice) {
  return 4 * choice.lags + (choice.slow ? 2 : 0) + (choice.seasonal ? 1 : 0);
}

std::span<const OwnChoice> OwnRegression::choices() {
  static const std::vector<OwnChoice> all = [] {
    std::vector<OwnChoice> choices;
    for (const Index lags : {Index{1}, Index{3}, most_lags})
      for (const bool slow : {false, true})
        for (const bool seasonal : {false, true})
          for (const double pull : {infinite, 100.0, 10.0, 1.0})
            choices.push_back({lags, slow, seasonal, pull});
    return choices;
  }();
  return all;
}

Index OwnRegression::count() const {
  return most_lags + std::ssize(halflives_) + std::ssize(earlier_);
}

std::vector<Index> OwnRegression::regressors_of(const OwnChoice& choice) const {
  std::vector<Index> list;
  for (Index l = 0; l < choice.lags; ++l) list.push_back(l);
  if (choice.slow)
    for (Index k = 0; k < std::ssize(halflives_); ++k) list.push_back(most_lags + k);
  if (choice.seasonal)
    for (Index k = 0; k < std::ssize(earlier_); ++k) list.push_back(most_lags + std::ssize(halflives_) + k);
  return list;
}

OwnRegression::OwnRegression(const AnomalySeries& anomalies, const Split& split, const TimeAxis& axis,
                             CycleKind cycle, Index leads, int threads, Reducer& reducer)
    : anomalies_(&anomalies),
      threads_(threads),
      halflives_(halflives_of(axis, cycle)),
      earlier_(seasons_of(axis, cycle)) {
  const Index steps = anomalies.full.steps, features = anomalies.full.features, p = count();
  const std::vector<Index> breaks = time_breaks(axis);
  for (Index t = 0; t < steps; ++t) {
    const bool starts = t == 0 || std::binary_search(breaks.begin(), breaks.end(), t - 1);
    begin_.push_back(starts ? t : begin_.back());
  }
  for (Index lead = 1; lead <= leads; ++lead) {
    std::vector<Index>& origins = origins_.emplace_back();
    for (Index t = 0; t + lead < steps; ++t)
      if (split.is_training(t) && split.is_training(t + lead) &&
          begin_[as_size(t)] == begin_[as_size(t + lead)])
        origins.push_back(t);
  }
  pooled_.resize(as_size(leads));
  for (Pooled& pooled : pooled_) {
    pooled.gram.assign(as_size(features * p * p), 0.0);
    pooled.right.assign(as_size(features * p), 0.0);
  }
  struct OfLeads {
    std::vector<std::vector<double>> gram, right;  // (leads)
  };
  in_order<OfLeads>(
      columns(), threads_,
      [&](Index c, OfLeads& made) {
        Column work;
        load(c, true, work);
        made.gram.resize(as_size(leads));
        made.right.resize(as_size(leads));
        for (Index lead = 1; lead <= leads; ++lead) {
          products(work, c, lead);
          made.gram[as_size(lead - 1)] = work.gram;
          made.right[as_size(lead - 1)] = work.right;
        }
      },
      [&](Index c, const OfLeads& made) {
        const Index f = c % features;
        for (std::size_t lead = 0; lead < pooled_.size(); ++lead) {
          double trace = 0;
          for (Index i = 0; i < p; ++i) trace += made.gram[lead][as_size(i * p + i)];
          if (!(trace > 0)) continue;
          // All nodes have the same weight, whatever their variance.
          for (Index k = 0; k < p * p; ++k)
            pooled_[lead].gram[as_size(f * p * p + k)] += made.gram[lead][as_size(k)] / trace;
          for (Index k = 0; k < p; ++k)
            pooled_[lead].right[as_size(f * p + k)] += made.right[lead][as_size(k)] / trace;
        }
      });
  for (Pooled& pooled : pooled_) {
    reducer.sum(std::span<double>(pooled.gram));
    reducer.sum(std::span<double>(pooled.right));
  }
  shared_.resize(as_size(leads * features));
  for (Index k = 0; k < leads * features; ++k) {
    shared_[as_size(k)].resize(as_size(sets));
    for (const OwnChoice& choice : choices())
      if (Shared& one = shared_[as_size(k)][as_size(set_of(choice))]; one.used.empty())
        one = shared(k / features + 1, k % features, choice);
  }
}

void OwnRegression::load(Index column, bool training, Column& work) const {
  const Series &from = training ? anomalies_->training : anomalies_->full,
               &known = anomalies_->known(training);
  const Index width = columns(), spans = std::ssize(halflives_);
  work.x.resize(as_size(from.steps));
  work.means.resize(as_size(from.steps * spans));
  constexpr double prior = 2;  // number of zeros before the first value
  std::vector<double> sum(as_size(spans)), number(as_size(spans)), keeps;
  for (const double halflife : halflives_) keeps.push_back(std::exp2(-1 / halflife));
  for (Index t = 0; t < from.steps; ++t) {
    const bool seen = !std::isnan(from.values[t * width + column]);
    work.x[as_size(t)] = static_cast<double>(known.values[t * width + column]);
    for (Index k = 0; k < spans; ++k) {
      const double keep = keeps[as_size(k)];
      sum[as_size(k)] = keep * sum[as_size(k)] + (seen ? work.x[as_size(t)] : 0);
      number[as_size(k)] = keep * number[as_size(k)] + (seen ? 1 : 0);
      work.means[as_size(t * spans + k)] = sum[as_size(k)] / (number[as_size(k)] + prior);
    }
  }
}

void OwnRegression::regressors(const Column& work, Index lead, std::span<const Index> origins,
                               std::vector<double>& out) const {
  const Index p = count(), spans = std::ssize(halflives_), steps = std::ssize(begin_);
  out.resize(origins.size() * as_size(p));
  double* to = out.data();
  for (const Index t : origins) {
    for (Index l = 0; l < most_lags; ++l) *to++ = t - l >= begin_[as_size(t)] ? work.x[as_size(t - l)] : 0;
    for (Index k = 0; k < spans; ++k) *to++ = work.means[as_size(t * spans + k)];
    for (const std::vector<Index>& earlier : earlier_) {
      Index s = t + lead < steps ? earlier[as_size(t + lead)] : -1;
      while (s > t) s = earlier[as_size(s)];  // a lead longer than the period goes further back
      *to++ = s >= 0 ? work.x[as_size(s)] : 0;
    }
  }
}

void OwnRegression::products(Column& work, Index column, Index lead) const {
  const Index p = count(), width = columns();
  const std::span<const Index> origins = training_origins(lead);
  regressors(work, lead, origins, work.rows);
  work.right.assign(as_size(p), 0.0);
  work.gram.assign(as_size(p * p), 0.0);
  work.targets = work.squares = 0;
  for (std::size_t q = 0; q < origins.size(); ++q) {
    const float target = anomalies_->training.values[(origins[q] + lead) * width + column];
    double* row = work.rows.data() + q * as_size(p);
    if (std::isnan(target)) {
      std::fill_n(row, p, 0.0);
      continue;
    }
    work.targets += 1;
    work.squares += static_cast<double>(target) * static_cast<double>(target);
    for (Index k = 0; k < p; ++k) work.right[as_size(k)] += row[k] * static_cast<double>(target);
  }
  if (!origins.empty())
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(p), static_cast<int>(p),
                static_cast<int>(origins.size()), 1.0, work.rows.data(), static_cast<int>(p),
                work.rows.data(), static_cast<int>(p), 0.0, work.gram.data(), static_cast<int>(p));
}

OwnRegression::Shared OwnRegression::shared(Index lead, Index feature, const OwnChoice& choice) const {
  Shared set;
  set.used = regressors_of(choice);
  const Index all = count(), p = std::ssize(set.used);
  const Pooled& pooled = pooled_[as_size(lead - 1)];
  std::vector<double> gram(as_size(p * p));
  set.coefficients.resize(as_size(p));
  double trace = 0;
  for (Index i = 0; i < p; ++i) {
    const Index row = feature * all + set.used[as_size(i)];
    set.coefficients[as_size(i)] = pooled.right[as_size(row)];
    for (Index j = 0; j < p; ++j)
      gram[as_size(i * p + j)] = pooled.gram[as_size(row * all + set.used[as_size(j)])];
    trace += gram[as_size(i * p + i)];
  }
  if (trace > 0) {
    set.penalty = gram;
    for (double& one : set.penalty) one /= trace / static_cast<double>(p);
    for (Index i = 0; i < p; ++i) set.penalty[as_size(i * p + i)] += 0.1;
  }
  for (Index i = 0; i < p; ++i) gram[as_size(i * p + i)] += 1e-4 * trace / static_cast<double>(p);
  if (trace > 0 && cholesky(gram, p))
    cholesky_solve(gram, p, set.coefficients, 1);
  else
    set.coefficients.assign(as_size(p), 0.0);
  return set;
}

void OwnRegression::coefficients(Column& work, Index column, Index lead, const OwnChoice& choice) const {
  const Index all = count(), f = column % anomalies_->full.features;
  const Shared& set = shared_[as_size((lead - 1) * anomalies_->full.features + f)][as_size(set_of(choice))];
  const Index p = std::ssize(set.used);
  work.coefficients.assign(as_size(all), 0.0);
  for (Index i = 0; i < p; ++i)
    work.coefficients[as_size(set.used[as_size(i)])] = set.coefficients[as_size(i)];
  double trace = 0;
  for (const Index k : set.used) trace += work.gram[as_size(k * (all + 1))];
  if (!std::isfinite(choice.pull) || !(trace > 0) || set.penalty.empty()) return;
  // Products without the part of the common coefficients, shrunk towards 0.
  const double pull = choice.pull * trace / static_cast<double>(p) / std::max(work.targets, 1.0);
  work.own.resize(as_size(p * p));
  work.change.resize(as_size(p));
  for (Index i = 0; i < p; ++i) {
    const double* products = work.gram.data() + set.used[as_size(i)] * all;
    double right = work.right[as_size(set.used[as_size(i)])];
    for (Index j = 0; j < p; ++j) {
      const double product = products[set.used[as_size(j)]];
      right -= product * set.coefficients[as_size(j)];
      work.own[as_size(i * p + j)] = product + pull * set.penalty[as_size(i * p + j)];
    }
    work.change[as_size(i)] = right;
  }
  if (!cholesky(work.own, p)) return;
  cholesky_solve(work.own, p, work.change, 1);
  for (Index i = 0; i < p; ++i) work.coefficients[as_size(set.used[as_size(i)])] += work.change[as_size(i)];
}

std::vector<double> OwnRegression::errors(std::span<const Index> origins, std::vector<double>& targets,
                                          Reducer& reducer) const {
  const Index leads = std::ssize(pooled_), p = count(), width = columns();
  const auto kinds = static_cast<Index>(choices().size());
  struct Errors {
    std::vector<double> sums, targets;
  };
  std::vector<double> sums(as_size(leads * kinds));
  targets.assign(as_size(leads), 0.0);
  in_order<Errors>(
      width, threads_,
      [&](Index c, Errors& made) {
        made.sums.assign(as_size(leads * kinds), 0.0);
        made.targets.assign(as_size(leads), 0.0);
        Column trained, known;
        std::vector<double> weights(as_size(p * kinds)), forecasts;
        load(c, true, trained);
        load(c, false, known);
        for (Index lead = 1; lead <= leads && !origins.empty(); ++lead) {
          products(trained, c, lead);
          for (Index k = 0; k < kinds; ++k) {
            coefficients(trained, c, lead, choices()[as_size(k)]);
            for (Index i = 0; i < p; ++i) weights[as_size(i * kinds + k)] = trained.coefficients[as_size(i)];
          }
          regressors(known, lead, origins, known.rows);
          forecasts.assign(origins.size() * as_size(kinds), 0.0);
          cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(origins.size()),
                      static_cast<int>(kinds), static_cast<int>(p), 1.0, known.rows.data(),
                      static_cast<int>(p), weights.data(), static_cast<int>(kinds), 0.0, forecasts.data(),
                      static_cast<int>(kinds));
          for (std::size_t q = 0; q < origins.size(); ++q) {
            const float target = anomalies_->full.values[(origins[q] + lead) * width + c];
            if (std::isnan(target)) continue;
            made.targets[as_size(lead - 1)] += 1;
            for (Index k = 0; k < kinds; ++k) {
              const double error = forecasts[q * as_size(kinds) + as_size(k)] - static_cast<double>(target);
              made.sums[as_size((lead - 1) * kinds + k)] += error * error;
            }
          }
        }
      },
      [&](Index, const Errors& made) {
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += made.sums[k];
        for (std::size_t k = 0; k < targets.size(); ++k) targets[k] += made.targets[k];
      });
  reducer.sum(std::span<double>(sums));
  reducer.sum(std::span<double>(targets));
  return sums;
}

void OwnRegression::training_residuals(Index column, Index first, std::span<const OwnChoice> choices,
                                       bool own_period, std::span<const Index> origins,
                                       std::span<float> out) const {
  Column work, known;
  load(column, true, work);
  if (own_period) load(column, false, known);
  const Series& from = own_period ? anomalies_->full : anomalies_->training;
  float* to = out.data();
  for (std::size_t k = 0; k < choices.size(); ++k) {
    const Index lead = first + static_cast<Index>(k);
    products(work, column, lead);
    coefficients(work, column, lead, choices[k]);
    const std::vector<double>& b = work.coefficients;
    regressors(own_period ? known : work, lead, origins, work.rows);
    for (std::size_t q = 0; q < origins.size(); ++q) {
      const double forecast = std::inner_product(
          b.begin(), b.end(), work.rows.begin() + static_cast<Index>(q) * std::ssize(b), 0.0);
      const float target = from.values[(origins[q] + lead) * columns() + column];
      *to++ = static_cast<float>(static_cast<double>(target) - forecast);
    }
  }
}

void OwnRegression::forecasts(Index column, Index first, std::span<const OwnChoice> choices,
                              std::span<const Index> origins, std::span<float> out,
                              std::span<double> variance) const {
  Column work, known;
  load(column, true, work);
  load(column, false, known);
  float* to = out.data();
  for (std::size_t k = 0; k < choices.size(); ++k) {
    const Index lead = first + static_cast<Index>(k);
    products(work, column, lead);
    coefficients(work, column, lead, choices[k]);
    const std::vector<double>& b = work.coefficients;
    if (!variance.empty()) {  // y'y − 2·b'r + b'Gb
      const Index p = std::ssize(b);
      double squares = work.squares;
      for (Index i = 0; i < p; ++i) {
        squares -= 2 * b[as_size(i)] * work.right[as_size(i)];
        for (Index j = 0; j < p; ++j)
          squares += b[as_size(i)] * b[as_size(j)] * work.gram[as_size(i * p + j)];
      }
      variance[k] = work.targets > 0 ? std::max(squares, 0.0) / work.targets : 0;
    }
    regressors(known, lead, origins, known.rows);
    for (std::size_t q = 0; q < origins.size(); ++q)
      *to++ = static_cast<float>(std::inner_product(
          b.begin(), b.end(), known.rows.begin() + static_cast<Index>(q) * std::ssize(b), 0.0));
  }
}

}  // namespace rossby
