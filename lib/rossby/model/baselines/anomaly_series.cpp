#include "rossby/model/baselines/anomaly_series.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rossby/data/anomalies.hpp"

namespace rossby {
namespace {

constexpr double usual_values = 50;  // weight of the variance of all nodes, in values of one node
constexpr double pull = 5;           // shrinkage of loadings towards 0, in steps
constexpr int rounds = 10;           // of expectation maximisation
constexpr Index steps_at_once = 512;

std::size_t index_of(Index i) {
  return static_cast<std::size_t>(i);
}

/// Calls body(steps) for consecutive parts of `steps`.
template <class Body>
void for_step_blocks(std::span<const Index> steps, const Body& body) {
  for (std::size_t first = 0; first < steps.size(); first += steps_at_once)
    body(steps.subspan(first, std::min<std::size_t>(steps_at_once, steps.size() - first)));
}

bool any_missing(const Series& series, Reducer& reducer) {
  double missing = 0;
  for (const float x : series.values)
    if (std::isnan(x)) {
      missing = 1;
      break;
    }
  reducer.sum(std::span<double>(&missing, 1));
  return missing > 0;
}

}  // namespace

AnomalySeries AnomalySeries::of(const Series& series, std::span<const double> centers, const Split& split,
                                const TimeAxis& axis, const AnomalySpec& spec, Reducer& reducer, bool fill) {
  AnomalySeries made;
  const std::vector<Index> steps = split.training_steps();
  const Index width = series.rows * series.features;
  for (Series* copy : {&made.training, &made.full}) {
    *copy = Series(series.steps, series.rows, series.features);
    std::copy(series.values.begin(), series.values.end(), copy->values.begin());
  }
  AnomalyMap::Training data;
  data.rows = series.rows;
  data.features = series.features;
  data.steps = data.own = steps;
  data.at = [&](Index t) { return series.at(t); };
  data.centers = centers;
  std::vector<AnomalyMap::View> without, others;
  for (Index t = 0; t < series.steps; ++t) {
    (split.is_training(t) ? without : others).push_back({t, made.training.values.data() + t * width});
    others.push_back({t, made.full.values.data() + t * width});
  }
  made.map = AnomalyMap::fit(data, axis, spec, without, others, reducer);
  made.mean.assign(index_of(width), 0.0);
  if (spec.cycle.kind == CycleKind::none) {
    made.mean = training_means(made.full, steps, reducer);
    for (Series* copy : {&made.training, &made.full})
      for (Index t = 0; t < series.steps; ++t)
        for (Index c = 0; c < width; ++c)
          copy->values[t * width + c] =
              static_cast<float>(static_cast<double>(copy->values[t * width + c]) - made.mean[index_of(c)]);
  }
  if (!fill || !any_missing(made.full, reducer)) return made;
  made.filled_training = Series(series.steps, series.rows, series.features);
  made.filled_full = Series(series.steps, series.rows, series.features);
  std::copy(made.training.values.begin(), made.training.values.end(), made.filled_training.values.begin());
  std::copy(made.full.values.begin(), made.full.values.end(), made.filled_full.values.begin());
  for (Index f = 0; f < series.features; ++f) {
    const FactorModel model(made.training, steps, f, reducer);
    model.fill(made.filled_training, reducer);
    model.fill(made.filled_full, reducer);
  }
  return made;
}

/// Means and covariances of the factors at some steps, given the values of all nodes.
struct FactorModel::Posterior {
  std::vector<double> mean;        // (steps, modes)
  std::vector<double> covariance;  // (steps, modes, modes)
};

FactorModel::FactorModel(const Series& series, std::span<const Index> steps, Index feature, Reducer& reducer)
    : feature_(feature) {
  if (std::ssize(steps) > most_steps) steps = steps.last(index_of(most_steps));
  set_scale(series, steps, reducer);
  start(series, steps, reducer);
  for (int k = 0; k < rounds && modes_ > 0; ++k) improve(series, steps, reducer);
}

void FactorModel::set_scale(const Series& series, std::span<const Index> steps, Reducer& reducer) {
  std::vector<double> squares(index_of(series.rows)), number(index_of(series.rows));
  for (const Index t : steps)
    for (Index i = 0; i < series.rows; ++i)
      if (const double x = series.at(t, i, feature_); !std::isnan(x))
        squares[index_of(i)] += x * x, number[index_of(i)] += 1;
  double pooled[] = {std::accumulate(squares.begin(), squares.end(), 0.0),
                     std::accumulate(number.begin(), number.end(), 0.0)};
  reducer.ordered_sum(pooled);
  const double usual = pooled[1] > 0 ? pooled[0] / pooled[1] : 0;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double variance = (squares[i] + usual_values * usual) / (number[i] + usual_values);
    scale_.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
}

/// Starts with loadings of the leading EOFs (missing values are 0) and noise of half the variance.
void FactorModel::start(const Series& series, std::span<const Index> steps, Reducer& reducer) {
  constexpr std::size_t most = 1024;
  const std::span<const Index> some = steps.last(std::min(steps.size(), most));
  double nodes = static_cast<double>(series.rows);
  reducer.sum(std::span<double>(&nodes, 1));
  const Index asked = std::min<Index>({most_modes, static_cast<Index>(nodes) - 1, std::ssize(some) / 4});
  noise_.assign(index_of(series.rows), 0.5);
  if (asked < 1) return;
  const std::vector<double> zero(index_of(series.rows * series.features));
  const Eofs eofs = leading_eofs(series, zero, some, feature_, asked, reducer);
  modes_ = eofs.modes;
  for (Index i = 0; i < series.rows; ++i)
    for (Index k = 0; k < modes_; ++k)
      loadings_.push_back(eofs.pattern[index_of(i * modes_ + k)] *
                          std::sqrt(eofs.eigenvalue[index_of(k)] / static_cast<double>(some.size())) /
                          scale_[index_of(i)]);
}

FactorModel::Posterior FactorModel::posterior(const Series& series, std::span<const Index> steps,
                                              Reducer& reducer) const {
  const Index a_step = packed() + modes_;
  std::vector<double> sums(steps.size() * index_of(a_step));  // I + ΛᵀΨ⁻¹Λ by rows of its triangle, ΛᵀΨ⁻¹x
  for (std::size_t q = 0; q < steps.size(); ++q) {
    double* const precision = sums.data() + q * index_of(a_step);
    double* const right = precision + packed();
    for (Index i = 0; i < series.rows; ++i) {
      const double x = series.at(steps[q], i, feature_);
      if (std::isnan(x)) continue;
      const double* loading = loadings_.data() + i * modes_;
      double* to = precision;
      for (Index j = 0; j < modes_; ++j) {
        const double weighted = loading[j] / noise_[index_of(i)];
        right[j] += weighted * x / scale_[index_of(i)];
        for (Index k = 0; k <= j; ++k) *to++ += weighted * loading[k];
      }
    }
  }
  reducer.sum(std::span<double>(sums));
  Posterior found{.mean = {}, .covariance = std::vector<double>(steps.size() * index_of(modes_ * modes_))};
  std::vector<double> matrix(index_of(modes_ * modes_));
  for (std::size_t q = 0; q < steps.size(); ++q) {
    const double* from = sums.data() + q * index_of(a_step);
    for (Index j = 0; j < modes_; ++j)
      for (Index k = 0; k <= j; ++k)
        matrix[index_of(j * modes_ + k)] = matrix[index_of(k * modes_ + j)] = *from++ + (j == k ? 1 : 0);
    std::vector<double> right(from, from + modes_);
    const std::span<double> inverse =
        std::span<double>(found.covariance).subspan(q * matrix.size(), matrix.size());
    for (Index j = 0; j < modes_; ++j) inverse[index_of(j * modes_ + j)] = 1;
    if (cholesky(matrix, modes_)) {
      cholesky_solve(matrix, modes_, right, 1);
      cholesky_solve(matrix, modes_, inverse, modes_);
    } else {
      std::fill(right.begin(), right.end(), 0.0);
    }
    found.mean.insert(found.mean.end(), right.begin(), right.end());
  }
  return found;
}

/// One round of expectation maximisation: the factors given loadings and noise, then loadings and noise.
void FactorModel::improve(const Series& series, std::span<const Index> steps, Reducer& reducer) {
  const Index rows = series.rows;
  std::vector<double> gram(index_of(rows * packed())), right(index_of(rows * modes_)),
      squares(index_of(rows)), number(index_of(rows));
  for_step_blocks(steps, [&](std::span<const Index> block) {
    const Posterior factors = posterior(series, block, reducer);
    for (std::size_t q = 0; q < block.size(); ++q) {
      const double* m = factors.mean.data() + q * index_of(modes_);
      std::vector<double> moments;
      for (Index j = 0; j < modes_; ++j)
        for (Index k = 0; k <= j; ++k)
          moments.push_back(
              factors.covariance[(q * index_of(modes_) + index_of(j)) * index_of(modes_) + index_of(k)] +
              m[j] * m[k]);
      for (Index i = 0; i < rows; ++i) {
        const double x = static_cast<double>(series.at(block[q], i, feature_)) / scale_[index_of(i)];
        if (std::isnan(x)) continue;
        for (std::size_t k = 0; k < moments.size(); ++k) gram[index_of(i) * moments.size() + k] += moments[k];
        for (Index k = 0; k < modes_; ++k) right[index_of(i * modes_ + k)] += x * m[k];
        squares[index_of(i)] += x * x;
        number[index_of(i)] += 1;
      }
    }
  });
  std::vector<double> matrix(index_of(modes_ * modes_)), left(index_of(rows));
  for (Index i = 0; i < rows; ++i) {
    const double* const own = gram.data() + i * packed();
    const double* from = own;
    for (Index j = 0; j < modes_; ++j)
      for (Index k = 0; k <= j; ++k)
        matrix[index_of(j * modes_ + k)] = matrix[index_of(k * modes_ + j)] = *from++ + (j == k ? pull : 0);
    const std::span<double> loading =
        std::span<double>(loadings_).subspan(index_of(i * modes_), index_of(modes_));
    const double* const r = right.data() + i * modes_;
    std::copy(r, r + modes_, loading.begin());
    if (cholesky(matrix, modes_))
      cholesky_solve(matrix, modes_, loading, 1);
    else
      std::fill(loading.begin(), loading.end(), 0.0);
    double& e = left[index_of(i)] = squares[index_of(i)];  // Σ (x − Λm)², averaged over the factors
    for (Index j = 0; j < modes_; ++j) {
      e -= 2 * loading[index_of(j)] * r[j];
      for (Index k = 0; k < modes_; ++k)
        e += loading[index_of(j)] * loading[index_of(k)] *
             own[std::max(j, k) * (std::max(j, k) + 1) / 2 + std::min(j, k)];
    }
  }
  double pooled[] = {std::accumulate(left.begin(), left.end(), 0.0),
                     std::accumulate(number.begin(), number.end(), 0.0)};
  reducer.ordered_sum(pooled);
  const double usual = pooled[1] > 0 ? pooled[0] / pooled[1] : 1;
  for (std::size_t i = 0; i < left.size(); ++i)
    noise_[i] = std::max((left[i] + usual_values * usual) / (number[i] + usual_values), 1e-3);
}

void FactorModel::fill(Series& series, Reducer& reducer) const {
  std::vector<Index> steps(index_of(series.steps));
  std::iota(steps.begin(), steps.end(), Index{0});
  for_step_blocks(steps, [&](std::span<const Index> block) {
    std::vector<double> mean;
    if (modes_ > 0) mean = posterior(series, block, reducer).mean;
    for (std::size_t q = 0; q < block.size(); ++q)
      for (Index i = 0; i < series.rows; ++i) {
        float& x = series.at(block[q], i, feature_);
        if (!std::isnan(x)) continue;
        double sum = 0;
        for (Index k = 0; k < modes_; ++k)
          sum += loadings_[index_of(i * modes_ + k)] * mean[q * index_of(modes_) + index_of(k)];
        x = static_cast<float>(sum * scale_[index_of(i)]);
      }
  });
}

}  // namespace rossby
