#include "rossby/train/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t sums_a_horizon = 5;

/// Returns the mean over the horizons that have `targets`; over all horizons if `targets` are unknown.
double mean_of(const std::vector<double>& values, const std::vector<double>& targets,
               const HorizonScores& scores, Index forecaster) {
  double sum = 0, horizons = 0;
  for (Index h = 0; h < scores.horizons; ++h) {
    const auto place = static_cast<std::size_t>(forecaster * scores.horizons + h);
    if (place < targets.size() && targets[place] == 0) continue;
    sum += values[place];
    ++horizons;
  }
  return horizons > 0 ? sum / horizons : nan;
}

/// Returns the number of horizons with targets of a forecaster; of all horizons if `targets` are unknown.
Index horizons_with(const std::vector<double>& targets, Index horizons, Index forecaster) {
  Index having = 0;
  for (Index h = 0; h < horizons; ++h) {
    const auto place = static_cast<std::size_t>(forecaster * horizons + h);
    having += place >= targets.size() || targets[place] > 0 ? 1 : 0;
  }
  return having;
}

using Sums = std::array<double, sums_a_horizon>;  // {squares, absolutes, count, ratios, ratio count}

double weight_of(const ScoredUnits& units, Index row) {
  return units.weights.empty() ? 1 : units.weights[static_cast<std::size_t>(row)];
}

template <class T>
Sums sums_of_anomalies(NodeView<const T> forecast, std::span<const float* const> truths, Index first_row,
                       Index last_row, Index begin, Index end, const ScoredUnits& units) {
  double squares = 0, absolutes = 0, count = 0, ratios = 0, ratio_count = 0;
  for (Index i = first_row; i < last_row; ++i) {
    const double weight = weight_of(units, i);
    for (Index f = begin; f < end; ++f) {
      const Index column = i * forecast.channels + f;
      const double variance = units.variance.empty() ? 0 : units.variance[static_cast<std::size_t>(column)];
      const auto anomaly = [&](double x) { return units.scaler ? units.scaler->to_value(x, i, f) : x; };
      for (Index b = 0; b < forecast.cols; ++b) {
        const float observed = truths[static_cast<std::size_t>(b)][column];
        if (std::isnan(observed)) continue;
        const Index step = units.steps[static_cast<std::size_t>(b)];
        const double target = units.anomalies->to_observation(anomaly(observed), step, column);
        const double error =
            units.anomalies->to_value(anomaly(forecast.at(i, b)[f]), step, column, variance) - target;
        squares += weight * error * error;
        absolutes += weight * std::abs(error);
        count += weight;
        if (target == 0) continue;
        ratios += weight * std::abs(error / target);
        ratio_count += weight;
      }
    }
  }
  return {squares, absolutes, count, ratios, ratio_count};
}

template <class T>
Sums sums_of(NodeView<const T> forecast, std::span<const float* const> truths, Index first_row,
             Index last_row, Index begin, Index end, const ScoredUnits& units) {
  if (units.anomalies && units.anomalies->on())
    return sums_of_anomalies(forecast, truths, first_row, last_row, begin, end, units);
  const Scaler* scaler = units.scaler;
  double squares = 0, absolutes = 0, count = 0, ratios = 0, ratio_count = 0;
  for (Index i = first_row; i < last_row; ++i) {
    const double weight = weight_of(units, i);
    for (Index f = begin; f < end; ++f) {
      const double unit = scaler ? scaler->error_factor(i, f) : 1,
                   center = scaler ? scaler->to_value(0, i, f) : 0;
      // Scaling to float32 and back moves a zero by the rounding of (0 − center).
      const double zero = 0x1p-23 * std::abs(center);
      for (Index b = 0; b < forecast.cols; ++b) {
        const float observed = truths[static_cast<std::size_t>(b)][i * forecast.channels + f];
        if (std::isnan(observed)) continue;
        const double error =
            (static_cast<double>(forecast.at(i, b)[f]) - static_cast<double>(observed)) * unit;
        const double target = center + static_cast<double>(observed) * unit;
        squares += weight * error * error;
        absolutes += weight * std::abs(error);
        count += weight;
        if (!(std::abs(target) > zero)) continue;
        ratios += weight * std::abs(error / target);
        ratio_count += weight;
      }
    }
  }
  return {squares, absolutes, count, ratios, ratio_count};
}

/// Sums over some features of all rows. The pieces depend on the shape alone and are added in order.
template <class T>
Sums sums_of(NodeView<const T> forecast, std::span<const float* const> truths, Index begin, Index end,
             const ScoredUnits& units, [[maybe_unused]] int threads) {
  constexpr Index values_a_piece = Index{1} << 15;
  const Index piece = std::max<Index>(1, values_a_piece / std::max<Index>(1, forecast.width())),
              pieces = (forecast.rows + piece - 1) / piece;
  std::vector<Sums> partial(static_cast<std::size_t>(pieces));
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 1)
  for (Index p = 0; p < pieces; ++p)
    partial[static_cast<std::size_t>(p)] =
        sums_of(forecast, truths, p * piece, std::min(forecast.rows, (p + 1) * piece), begin, end, units);
  Sums sums{};
  for (const Sums& some : partial)
    for (std::size_t k = 0; k < sums_a_horizon; ++k) sums[k] += some[k];
  return sums;
}

}  // namespace

Index HorizonScores::find(std::string_view name) const {
  const auto place = std::find(names.begin(), names.end(), name);
  return place == names.end() ? -1 : place - names.begin();
}

double HorizonScores::mean_rmse(Index forecaster) const {
  return mean_of(rmse, count, *this, forecaster);
}
double HorizonScores::mean_mae(Index forecaster) const {
  return mean_of(mae, count, *this, forecaster);
}
double HorizonScores::mean_mape_percent(Index forecaster) const {
  return mean_of(mape_percent, ratio_count, *this, forecaster);
}

double HorizonScores::mean_bias(Index forecaster) const {
  return mean_of(bias, count, *this, forecaster);
}
double HorizonScores::mean_acc(Index forecaster) const {
  return mean_of(acc, count, *this, forecaster);
}

Index HorizonScores::scored_horizons(Index forecaster) const {
  return horizons_with(count, horizons, forecaster);
}

Index HorizonScores::ratio_horizons(Index forecaster) const {
  return horizons_with(ratio_count, horizons, forecaster);
}

Index HorizonScores::best_baseline() const {
  Index best = -1;
  for (Index k = 0; k < static_cast<Index>(names.size()); ++k) {
    if (names[static_cast<std::size_t>(k)] == model_name || std::isnan(mean_rmse(k))) continue;
    if (best < 0 || mean_rmse(k) < mean_rmse(best)) best = k;
  }
  return best;
}

double HorizonScores::skill() const {
  const Index model = find(model_name);
  const Index best = best_baseline();
  return model < 0 || best < 0 ? nan : 1 - mean_rmse(model) / mean_rmse(best);
}

HorizonErrors::HorizonErrors(std::vector<std::string> names, Index horizons, std::vector<Index> part_features,
                             int threads)
    : names_(std::move(names)),
      horizons_(horizons),
      part_features_(std::move(part_features)),
      parts_(std::max<std::size_t>(1, part_features_.size())),
      threads_(threads),
      sums_(parts_ * names_.size() * sums_a_horizon * static_cast<std::size_t>(horizons)) {}

template <class T>
void HorizonErrors::add(Index forecaster, Index horizon, NodeView<const T> forecast, const Series& truth,
                        std::span<const Index> origins, ScoredUnits units) {
  require(forecast.rows == truth.rows && forecast.channels == truth.features &&
              forecast.cols == static_cast<Index>(origins.size()),
          "a forecast has the rows and features of the series and one column an origin");
  steps_.assign(origins.begin(), origins.end());
  for (Index& step : steps_) step += horizon;
  units.steps = steps_;
  add_columns<T>(
      forecaster, horizon, forecast,
      [&](Index b) {
        const Index step = origins[static_cast<std::size_t>(b)] + horizon;
        require(truth.holds(step), "forecast targets lie in the series");
        return truth.at(step);
      },
      units);
}

template <class T>
void HorizonErrors::add(Index forecaster, Index horizon, NodeView<const T> forecast,
                        const std::function<const float*(Index)>& truth, const ScoredUnits& units) {
  add_columns<T>(forecaster, horizon, forecast, truth, units);
}

template <class T>
void HorizonErrors::add_columns(Index forecaster, Index horizon, NodeView<const T> forecast,
                                const std::function<const float*(Index)>& truth, ScoredUnits units) {
  units.weights = weights_;
  require(forecaster >= 0 && forecaster < static_cast<Index>(names_.size()),
          "errors of a forecaster that was named");
  require(horizon >= 1 && horizon <= horizons_, "errors at a horizon that is scored");
  require(part_features_.empty() ||
              std::accumulate(part_features_.begin(), part_features_.end(), Index{0}) == forecast.channels,
          "every feature is of a part");
  truths_.clear();
  for (Index b = 0; b < forecast.cols; ++b) truths_.push_back(truth(b));
  const std::size_t size = sums_.size() / parts_,
                    place = sums_a_horizon * static_cast<std::size_t>(forecaster * horizons_ + horizon - 1);
  Index begin = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    const Index end = part_features_.empty() ? forecast.channels : begin + part_features_[part];
    const auto sums = sums_of<T>(forecast, truths_, begin, end, units, threads_);
    for (std::size_t k = 0; k < sums_a_horizon; ++k) sums_[part * size + place + k] += sums[k];
    begin = end;
  }
  if (sink_) show(forecaster, horizon, forecast, units);
  for (Index b = 0; b < forecast.cols && !origins_.empty(); ++b) {
    const auto column = static_cast<std::size_t>(b);
    const auto at =
        std::lower_bound(origins_.begin(), origins_.end(), units.steps[column] - horizon) - origins_.begin();
    require(
        at < std::ssize(origins_) && origins_[static_cast<std::size_t>(at)] == units.steps[column] - horizon,
        "errors of an origin that is kept");
    ScoredUnits of_column = units;
    of_column.steps = units.steps.subspan(column, 1);
    const NodeView<const T> values(forecast.at(0, b), forecast.rows, 1, forecast.channels,
                                   forecast.row_stride, forecast.col_stride);
    const auto sums = sums_of<T>(values, std::span<const float* const>(truths_).subspan(column, 1), 0,
                                 forecast.channels, of_column, threads_);
    double* to =
        at_origins_.data() + 2 * ((forecaster * horizons_ + horizon - 1) * std::ssize(origins_) + at);
    to[0] += sums[0];
    to[1] += sums[2];
  }
}

template <class T>
void HorizonErrors::show(Index forecaster, Index horizon, NodeView<const T> forecast,
                         const ScoredUnits& units) const {
  require(std::ssize(units.steps) == forecast.cols, "steps of the targets are shown");
  constexpr Index values_at_once = Index{1} << 16;
  // The same on all ranks, whatever their rows, because sinks may communicate.
  constexpr Index columns_at_once = 16;
  const bool anomalies = units.anomalies && units.anomalies->on();
  std::vector<double> values, truths;
  for (Index first_column = 0; first_column < forecast.cols; first_column += columns_at_once) {
    const Index columns = std::min(columns_at_once, forecast.cols - first_column);
    const auto steps =
        units.steps.subspan(static_cast<std::size_t>(first_column), static_cast<std::size_t>(columns));
    const Index some = std::max<Index>(1, values_at_once / std::max<Index>(1, columns * forecast.channels));
    Index first = 0;
    do {
      const Index rows = std::min(some, forecast.rows - first);
      values.clear();
      truths.clear();
      for (Index i = first; i < first + rows; ++i)
        for (Index b = first_column; b < first_column + columns; ++b)
          for (Index f = 0; f < forecast.channels; ++f) {
            const Index column = i * forecast.channels + f, step = units.steps[static_cast<std::size_t>(b)];
            const auto in_units = [&](double x) {
              return units.scaler ? units.scaler->to_value(x, i, f) : x;
            };
            const double value = in_units(static_cast<double>(forecast.at(i, b)[f])),
                         truth = in_units(static_cast<double>(truths_[static_cast<std::size_t>(b)][column])),
                         variance =
                             units.variance.empty() ? 0 : units.variance[static_cast<std::size_t>(column)];
            values.push_back(anomalies ? units.anomalies->to_value(value, step, column, variance) : value);
            truths.push_back(anomalies ? units.anomalies->to_observation(truth, step, column) : truth);
          }
      sink_({forecaster, horizon, steps, first, rows, forecast.channels, forecast.rows, values.data(),
             truths.data()});
      first += rows;
    } while (first < forecast.rows);
  }
}

void HorizonErrors::weigh(std::span<const double> weights) {
  weights_.assign(weights.begin(), weights.end());
}

void HorizonErrors::keep_origins(std::span<const Index> origins) {
  origins_.assign(origins.begin(), origins.end());
  at_origins_.assign(2 * names_.size() * static_cast<std::size_t>(horizons_) * origins.size(), 0);
}

OriginErrors HorizonErrors::reduce_origins(Index forecaster, Reducer& reducer) const {
  const Index origins = std::ssize(origins_), size = 2 * horizons_ * origins;
  std::vector<double> sums(at_origins_.begin() + forecaster * size,
                           at_origins_.begin() + (forecaster + 1) * size);
  reducer.sum(std::span<double>(sums));
  OriginErrors errors{horizons_, origins, {}, {}};
  for (std::size_t k = 0; k < sums.size(); k += 2) {
    errors.squares.push_back(sums[k]);
    errors.count.push_back(sums[k + 1]);
  }
  return errors;
}

#define ROSSBY_INSTANTIATE(T)                                                                         \
  template void HorizonErrors::add<T>(Index, Index, NodeView<const T>, const Series&,                 \
                                      std::span<const Index>, ScoredUnits);                           \
  template void HorizonErrors::add<T>(Index, Index, NodeView<const T>,                                \
                                      const std::function<const float*(Index)>&, const ScoredUnits&); \
  template void note_scores<T>(Tape<T>&, NodeView<const T>);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

template <class T>
void note_scores(Tape<T>& tape, NodeView<const T> forecast) {
  const auto values = static_cast<double>(forecast.size());
  if (BlockTrace* trace = tape.trace())
    trace->note("scores", {12 * values, values * (sizeof(T) + sizeof(float))});
}

HorizonScores HorizonErrors::reduce(Reducer& reducer) const {
  const std::size_t size = sums_.size() / parts_;
  std::vector<double> sums(size);
  for (std::size_t k = 0; k < sums_.size(); ++k) sums[k % size] += sums_[k];
  reducer.sum(std::span<double>(sums));
  return scores_of(sums);
}

std::vector<HorizonScores> HorizonErrors::reduce_parts(Reducer& reducer) const {
  const std::size_t size = sums_.size() / parts_;
  std::vector<double> sums = sums_;
  reducer.sum(std::span<double>(sums));
  std::vector<HorizonScores> scores;
  for (std::size_t part = 0; part < parts_; ++part)
    scores.push_back(scores_of(std::span<const double>(sums).subspan(part * size, size)));
  return scores;
}

HorizonScores HorizonErrors::scores_of(std::span<const double> sums) const {
  HorizonScores scores{names_, horizons_, {}, {}, {}, {}, {}};
  for (std::size_t k = 0; k < sums.size(); k += sums_a_horizon) {
    const double count = sums[k + 2];
    scores.rmse.push_back(count > 0 ? std::sqrt(sums[k] / count) : nan);
    scores.mae.push_back(count > 0 ? sums[k + 1] / count : nan);
    scores.count.push_back(count);
    scores.ratio_count.push_back(sums[k + 4]);
    scores.mape_percent.push_back(sums[k + 4] > 0 ? 100 * sums[k + 3] / sums[k + 4] : nan);
  }
  return scores;
}

}  // namespace rossby
