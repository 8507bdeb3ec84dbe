#include "rossby/train/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view model_name = "model";

double mean_of(const std::vector<double>& values, Index forecaster, Index horizons) {
  double sum = 0;
  for (Index h = 0; h < horizons; ++h) sum += values[static_cast<std::size_t>(forecaster * horizons + h)];
  return horizons > 0 ? sum / static_cast<double>(horizons) : nan;
}

nlohmann::ordered_json figure(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

/// {name: figure(value of the forecaster)} over all names.
template <class Value>
nlohmann::ordered_json by_name(const HorizonScores& scores, Value value) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < scores.names.size(); ++k)
    object[scores.names[k]] = figure(value(static_cast<Index>(k)));
  return object;
}

std::string table_of(const HorizonScores& scores, std::string_view title, const std::vector<double>& values) {
  const Index model = scores.find(model_name);
  const Index best = scores.best_baseline();
  const bool skill = model >= 0 && best >= 0;
  std::string text = fmt::format("{}\n{:>8}", title, "horizon");
  const auto width = [&](std::size_t k) { return std::max<std::size_t>(scores.names[k].size(), 8); };
  for (std::size_t k = 0; k < scores.names.size(); ++k)
    text += fmt::format("  {:>{}}", scores.names[k], width(k));
  text += skill ? "     skill\n" : "\n";
  const auto line = [&](const std::string& label, auto value) {
    text += fmt::format("{:>8}", label);
    for (std::size_t k = 0; k < scores.names.size(); ++k)
      text += fmt::format("  {:>{}.4f}", value(static_cast<Index>(k)), width(k));
    if (skill) text += fmt::format("  {:>+6.1f} %", 100 * (1 - value(model) / value(best)));
    text += '\n';
  };
  for (Index h = 0; h < scores.horizons; ++h)
    line(std::to_string(h + 1),
         [&](Index k) { return values[static_cast<std::size_t>(k * scores.horizons + h)]; });
  line("mean", [&](Index k) { return mean_of(values, k, scores.horizons); });
  return text;
}

}  // namespace

Index HorizonScores::find(std::string_view name) const {
  const auto place = std::find(names.begin(), names.end(), name);
  return place == names.end() ? -1 : place - names.begin();
}

double HorizonScores::mean_rmse(Index forecaster) const {
  return mean_of(rmse, forecaster, horizons);
}
double HorizonScores::mean_mae(Index forecaster) const {
  return mean_of(mae, forecaster, horizons);
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

HorizonErrors::HorizonErrors(std::vector<std::string> names, Index horizons)
    : names_(std::move(names)),
      horizons_(horizons),
      sums_(names_.size() * static_cast<std::size_t>(3 * horizons)) {}

template <class T>
void HorizonErrors::add(Index forecaster, Index horizon, NodeView<const T> forecast, const Series& truth,
                        std::span<const Index> origins, const Scaler* scaler) {
  require(forecast.rows == truth.rows && forecast.channels == truth.features &&
              forecast.cols == static_cast<Index>(origins.size()),
          "a forecast has the rows and features of the series and one column an origin");
  add_columns<T>(
      forecaster, horizon, forecast,
      [&](Index b) {
        const Index step = origins[static_cast<std::size_t>(b)] + horizon;
        require(step >= 0 && step < truth.steps, "forecast targets lie in the series");
        return truth.values.data() + step * truth.rows * truth.features;
      },
      scaler);
}

template <class T>
void HorizonErrors::add(Index forecaster, Index horizon, NodeView<const T> forecast,
                        const std::function<const float*(Index)>& truth) {
  add_columns<T>(forecaster, horizon, forecast, truth, nullptr);
}

template <class T>
void HorizonErrors::add_columns(Index forecaster, Index horizon, NodeView<const T> forecast,
                                const std::function<const float*(Index)>& truth, const Scaler* scaler) {
  require(forecaster >= 0 && forecaster < static_cast<Index>(names_.size()),
          "errors of a forecaster that was named");
  require(horizon >= 1 && horizon <= horizons_, "errors at a horizon that is scored");
  double squares = 0, absolutes = 0, count = 0;
  for (Index b = 0; b < forecast.cols; ++b) {
    const float* x = truth(b);
    for (Index i = 0; i < forecast.rows; ++i) {
      const T* value = forecast.at(i, b);
      for (Index f = 0; f < forecast.channels; ++f) {
        const float observed = x[i * forecast.channels + f];
        if (std::isnan(observed)) continue;
        double error = static_cast<double>(value[f]) - static_cast<double>(observed);
        if (scaler) error *= scaler->error_factor(i, f);
        squares += error * error;
        absolutes += std::abs(error);
        count += 1;
      }
    }
  }
  double* sums = sums_.data() + 3 * (forecaster * horizons_ + horizon - 1);
  sums[0] += squares;
  sums[1] += absolutes;
  sums[2] += count;
}

#define ROSSBY_INSTANTIATE(T)                                                         \
  template void HorizonErrors::add<T>(Index, Index, NodeView<const T>, const Series&, \
                                      std::span<const Index>, const Scaler*);         \
  template void HorizonErrors::add<T>(Index, Index, NodeView<const T>,                \
                                      const std::function<const float*(Index)>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

HorizonScores HorizonErrors::reduce(Reducer& reducer) const {
  std::vector<double> sums = sums_;
  reducer.sum(std::span<double>(sums));
  HorizonScores scores{names_, horizons_, {}, {}, {}};
  for (std::size_t k = 0; k < sums.size(); k += 3) {
    const double count = sums[k + 2];
    scores.rmse.push_back(count > 0 ? std::sqrt(sums[k] / count) : nan);
    scores.mae.push_back(count > 0 ? sums[k + 1] / count : nan);
    scores.count.push_back(count);
  }
  return scores;
}

nlohmann::ordered_json evaluation_json(const HorizonScores& scores, std::string_view units) {
  nlohmann::ordered_json json;
  json["horizons"] = nlohmann::ordered_json::array();
  for (Index h = 0; h < scores.horizons; ++h) {
    const auto at = [&](const std::vector<double>& values) {
      return by_name(scores,
                     [&](Index k) { return values[static_cast<std::size_t>(k * scores.horizons + h)]; });
    };
    json["horizons"].push_back({{"step", h + 1}, {"rmse", at(scores.rmse)}, {"mae", at(scores.mae)}});
  }
  json["mean"]["rmse"] = by_name(scores, [&](Index k) { return scores.mean_rmse(k); });
  json["mean"]["mae"] = by_name(scores, [&](Index k) { return scores.mean_mae(k); });
  json["units"] = std::string(units);
  const Index best = scores.best_baseline();
  if (scores.find(model_name) >= 0 && best >= 0) {
    json["skill"]["baseline"] = scores.names[static_cast<std::size_t>(best)];
    json["skill"]["rmse"] = figure(scores.skill());
  }
  return json;
}

std::string evaluation_table(const HorizonScores& scores, std::string_view units) {
  const std::string in = units.empty() || units == "1" ? "" : fmt::format(" ({})", units);
  std::string text =
      table_of(scores, "RMSE" + in, scores.rmse) + '\n' + table_of(scores, "MAE" + in, scores.mae);
  const Index best = scores.best_baseline();
  if (scores.find(model_name) >= 0 && best >= 0)
    text +=
        fmt::format("skill: 1 - error of the model / error of {}, the baseline with the smallest mean RMSE\n",
                    scores.names[static_cast<std::size_t>(best)]);
  return text;
}

}  // namespace rossby
