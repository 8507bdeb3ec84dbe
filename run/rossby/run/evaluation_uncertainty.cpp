#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/run/evaluation_report.hpp"

// Reports of an evaluation on intervals, ensembles and quantiles.

namespace rossby {

void EvaluationReport::add_lead_intervals(const OriginErrors& model, const OriginErrors* baseline) {
  // RMSE is 1 − skill over a forecaster whose errors are all 1.
  const OriginErrors unit{model.horizons, model.origins, model.count, model.count};
  for (Index h = 1; h <= model.horizons; ++h) {
    const PairedSkill of = paired_skill_at(h, model, unit);
    rmse_intervals.emplace_back(1 - of.high, 1 - of.low);
    if (baseline) paired_at.push_back(paired_skill_at(h, model, *baseline));
  }
}

void EvaluationReport::put_lead_intervals(nlohmann::ordered_json& all) const {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  const auto bounds = [&](double low, double high) {
    return nlohmann::ordered_json{{"low", figure(low)}, {"high", figure(high)}};
  };
  for (std::size_t h = 0; h < rmse_intervals.size(); ++h)
    if (std::isfinite(rmse_intervals[h].first))
      all["horizons"][h]["interval"]["rmse"] = bounds(rmse_intervals[h].first, rmse_intervals[h].second);
  for (std::size_t h = 0; h < paired_at.size(); ++h)
    all["skill"]["validated"]["horizons"].push_back(
        {{"step", h + 1},
         {"rmse", figure(paired_at[h].skill)},
         {"interval", bounds(paired_at[h].low, paired_at[h].high)}});
}
namespace {

/// Returns the mean over the horizons that have targets.
IntervalScores mean_of(const std::vector<IntervalScores>& all) {
  IntervalScores mean;
  double count = 0;
  for (const IntervalScores& s : all) {
    if (!(s.weight > 0)) continue;
    count += 1;
    mean.inside_50 += s.inside_50;
    mean.inside_90 += s.inside_90;
    mean.width_50 += s.width_50;
    mean.width_90 += s.width_90;
    mean.crps += s.crps;
    for (std::size_t b = 0; b < s.pit.size(); ++b) mean.pit[b] += s.pit[b];
  }
  for (double* value : {&mean.inside_50, &mean.inside_90, &mean.width_50, &mean.width_90, &mean.crps})
    *value /= count;
  for (double& share : mean.pit) share /= count;
  return mean;
}

nlohmann::ordered_json json_of(const IntervalScores& s) {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  nlohmann::ordered_json pit = nlohmann::ordered_json::array();
  for (const double share : s.pit) pit.push_back(figure(share));
  return {{"coverage", {{"interval_50", figure(s.inside_50)}, {"interval_90", figure(s.inside_90)}}},
          {"width", {{"interval_50", figure(s.width_50)}, {"interval_90", figure(s.width_90)}}},
          {"crps", figure(s.crps)},
          {"pit", std::move(pit)}};
}

nlohmann::ordered_json json_of(const Coverage& c) {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  return {{"interval_50", figure(c.interval_50)}, {"interval_90", figure(c.interval_90)}};
}

/// Returns the mean over the horizons that have residuals.
Coverage mean_of(const std::vector<Coverage>& all) {
  Coverage mean;
  double count = 0;
  for (const Coverage& c : all) {
    if (!std::isfinite(c.interval_50)) continue;
    count += 1;
    mean.interval_50 += c.interval_50;
    mean.interval_90 += c.interval_90;
  }
  return {mean.interval_50 / count, mean.interval_90 / count};
}

}  // namespace

nlohmann::ordered_json EvaluationReport::intervals_json() const {
  nlohmann::ordered_json all{{"validation_origins", residual_origins}};
  if (!left_out.empty()) {
    nlohmann::ordered_json& held = all["left_out"] = {{"blocks", left_out_blocks}};
    for (std::size_t h = 0; h < left_out.size(); ++h)
      held["horizons"].push_back({{"step", h + 1}, {"coverage", json_of(left_out[h])}});
    held["mean"] = json_of(mean_of(left_out));
  }
  all["horizons"] = nlohmann::ordered_json::array();
  for (std::size_t h = 0; h < intervals.size(); ++h) {
    nlohmann::ordered_json one{{"step", h + 1}};
    one.update(json_of(intervals[h]));
    all["horizons"].push_back(std::move(one));
  }
  all["mean"] = json_of(mean_of(intervals));
  return all;
}

std::string EvaluationReport::intervals_line() const {
  if (intervals.empty()) return "";
  const IntervalScores mean = mean_of(intervals);
  const Coverage held = mean_of(left_out);
  return fmt::format(
      "intervals from {} forecasts of the validation part: the 50 % interval contains {:.1f} % of the "
      "observations, the 90 % interval {:.1f} %{}; CRPS {}\n",
      residual_origins, 100 * mean.inside_50, 100 * mean.inside_90,
      std::isfinite(held.interval_50)
          ? fmt::format(" (on left-out blocks of the validation part {:.1f} and {:.1f} %)",
                        100 * held.interval_50, 100 * held.interval_90)
          : "",
      error_text(mean.crps, largest_error(scores)));
}

nlohmann::ordered_json EvaluationReport::dressed_json() const {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  nlohmann::ordered_json all{{"validation_origins", residual_origins}};
  all["horizons"] = nlohmann::ordered_json::array();
  for (std::size_t h = 0; h < dressed.size(); ++h) {
    const double spread_here = std::sqrt(dressed[h].variance);
    nlohmann::ordered_json one{{"step", h + 1}};
    one.update(json_of(dressed[h]));
    one["spread"] = figure(spread_here);
    one["spread_skill_ratio"] = figure(spread_here / scores.rmse[h]);
    all["horizons"].push_back(std::move(one));
  }
  all["mean"] = json_of(mean_of(dressed));
  return all;
}

std::string EvaluationReport::dressed_line() const {
  if (dressed.empty()) return "";
  const IntervalScores mean = mean_of(dressed);
  double sum = 0, count = 0;
  for (std::size_t h = 0; h < dressed.size(); ++h)
    if (const double ratio = std::sqrt(dressed[h].variance) / scores.rmse[h]; std::isfinite(ratio))
      sum += ratio, count += 1;
  return fmt::format(
      "members dressed with residuals of the validation part: the 50 % interval contains {:.1f} %, the 90 % "
      "interval {:.1f} %; CRPS {}; spread / RMSE {:.2f}\n",
      100 * mean.inside_50, 100 * mean.inside_90, error_text(mean.crps, largest_error(scores)), sum / count);
}

namespace {

/// Returns pairs of levels that enclose a central interval, the widest first.
std::vector<std::pair<std::size_t, std::size_t>> central(std::span<const double> levels) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t low = 0; low < levels.size() && levels[low] < 0.5; ++low)
    for (std::size_t high = levels.size(); high-- > low + 1;)
      if (std::abs(levels[low] + levels[high] - 1) < 1e-9) pairs.emplace_back(low, high);
  return pairs;
}

/// Returns the mean over the horizons that have targets.
QuantileScores mean_of(const std::vector<QuantileScores>& all, std::size_t levels) {
  QuantileScores mean{0, {}, {}, {}, {}};
  for (std::vector<double>* of : {&mean.below, &mean.not_above, &mean.loss, &mean.offset})
    of->assign(levels, 0);
  double count = 0;
  for (const QuantileScores& s : all) count += s.weight > 0;
  for (const QuantileScores& s : all) {
    if (!(s.weight > 0)) continue;
    for (std::size_t q = 0; q < levels; ++q) {
      mean.below[q] += s.below[q] / count;
      mean.not_above[q] += s.not_above[q] / count;
      mean.loss[q] += s.loss[q] / count;
      mean.offset[q] += s.offset[q] / count;
    }
  }
  return mean;
}

nlohmann::ordered_json json_of(const QuantileScores& s, std::span<const double> levels) {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  nlohmann::ordered_json shares = nlohmann::ordered_json::array(), inside = nlohmann::ordered_json::array();
  for (std::size_t q = 0; q < levels.size(); ++q) shares.push_back(figure(s.not_above[q]));
  for (const auto& [low, high] : central(levels))
    inside.push_back({{"nominal", std::round(1e9 * (levels[high] - levels[low])) / 1e9},
                      {"coverage", figure(s.inside(low, high))},
                      {"width", figure(s.width(low, high))}});
  return {
      {"not_above", std::move(shares)}, {"intervals", std::move(inside)}, {"crps", figure(s.crps(levels))}};
}

}  // namespace

nlohmann::ordered_json EvaluationReport::quantiles_json() const {
  nlohmann::ordered_json all{{"levels", levels}};
  all["horizons"] = nlohmann::ordered_json::array();
  for (std::size_t h = 0; h < quantiles.size(); ++h) {
    nlohmann::ordered_json one{{"step", h + 1}};
    one.update(json_of(quantiles[h], levels));
    all["horizons"].push_back(std::move(one));
  }
  all["mean"] = json_of(mean_of(quantiles, levels.size()), levels);
  return all;
}

std::string EvaluationReport::quantiles_line() const {
  if (quantiles.empty()) return "";
  const QuantileScores mean = mean_of(quantiles, levels.size());
  std::string text = "quantiles of the model:";
  for (const auto& [low, high] : central(levels))
    text += fmt::format(" the interval of {:.0f} % contains {:.1f} %,", 100 * (levels[high] - levels[low]),
                        100 * mean.inside(low, high));
  text.back() = text.back() == ',' ? ';' : ':';
  return text + fmt::format(" CRPS {} from {} quantiles\n",
                            error_text(mean.crps(levels), largest_error(scores)), levels.size());
}

nlohmann::ordered_json EvaluationReport::spread_json() const {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t h = 0; h < spread.size(); ++h)
    all.push_back({{"step", h + 1},
                   {"spread", figure(spread[h])},
                   {"spread_skill_ratio", figure(spread[h] / scores.rmse[h])}});
  return all;
}

std::string EvaluationReport::spread_line() const {
  if (spread.empty()) return "";
  double sum = 0, count = 0;
  for (std::size_t h = 0; h < spread.size(); ++h)
    if (const double ratio = spread[h] / scores.rmse[h]; std::isfinite(ratio)) sum += ratio, count += 1;
  return fmt::format(
      "spread of the members / RMSE of their average: {:.2f} (1 if the spread of the members is as large as "
      "their errors)\n",
      sum / count);
}

}  // namespace rossby
