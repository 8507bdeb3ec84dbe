#include "rossby/train/evaluation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr Index most_rows = 6;  // of a table by default

nlohmann::ordered_json figure(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

/// Returns {name: figure(value of the forecaster)} over all names.
template <class Value>
nlohmann::ordered_json by_name(const HorizonScores& scores, Value value) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < scores.names.size(); ++k)
    object[scores.names[k]] = figure(value(static_cast<Index>(k)));
  return object;
}

/// One measure of a table: its values (names, horizons) and their mean over all horizons.
struct Measure {
  std::string title;
  const std::vector<double>* values;
  double (HorizonScores::*mean)(Index) const;
  double largest;  // error of the scores that sets the digits; 0: two decimals
};

std::string label(std::span<const Lead> leads, Index horizon) {
  const auto h = static_cast<std::size_t>(horizon - 1);
  return h < leads.size() && !leads[h].text.empty() ? leads[h].text : std::to_string(horizon);
}

/// Returns "-" if the value is undefined: no target was observed, or all targets are zero.
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

/// Errors below this need more than four decimals.
constexpr double small_error = 0.1;

bool has_decimals(double largest) {
  return !(largest > 0 && largest < small_error);
}

std::string measured(double value, double largest) {
  return largest > 0 ? error_text(value, largest) : number(value, 2);
}

std::string table_of(const HorizonScores& scores, const Measure& measure, std::span<const Lead> leads,
                     std::span<const Index> report) {
  const Index model = scores.find(model_name);
  const Index best = scores.best_baseline();
  const bool skill = model >= 0 && best >= 0;
  std::size_t labels = 8;
  for (const Index h : report) labels = std::max(labels, label(leads, h).size());
  std::string text = fmt::format("{}\n{:>{}}", measure.title, "horizon", labels);
  const std::size_t least = has_decimals(measure.largest) ? 8 : 10;
  const auto width = [&](std::size_t k) { return std::max(scores.names[k].size(), least); };
  for (std::size_t k = 0; k < scores.names.size(); ++k)
    text += fmt::format("  {:>{}}", scores.names[k], width(k));
  text += skill ? "     skill\n" : "\n";
  const auto line = [&](const std::string& name, auto value) {
    text += fmt::format("{:>{}}", name, labels);
    for (std::size_t k = 0; k < scores.names.size(); ++k)
      text += fmt::format("  {:>{}}", measured(value(static_cast<Index>(k)), measure.largest), width(k));
    if (skill)
      if (const double ratio = value(model) / value(best); std::isfinite(ratio))
        text += fmt::format("  {:>+6.1f} %", 100 * (1 - ratio));
    text += '\n';
  };
  for (const Index h : report)
    line(label(leads, h),
         [&](Index k) { return (*measure.values)[static_cast<std::size_t>(k * scores.horizons + h - 1)]; });
  line("mean", [&](Index k) { return (scores.*measure.mean)(k); });
  return text;
}

/// Bias and anomaly correlation of the model, and the anomaly correlation of the best baseline.
std::string bias_table(const HorizonScores& scores, const std::string& in, std::span<const Lead> leads,
                       std::span<const Index> report) {
  const Index model = std::max<Index>(0, scores.find(model_name)), best = scores.best_baseline();
  const std::string of = best >= 0 ? "ACC of " + scores.names[static_cast<std::size_t>(best)] : "";
  std::size_t labels = 8;
  for (const Index h : report) labels = std::max(labels, label(leads, h).size());
  const std::string bias = "bias" + in;
  const double largest = largest_error(scores);
  const auto line = [&](const std::string& name, double b, double acc, double other) {
    std::string text = fmt::format("{:>{}}  {:>{}}  {:>8}", name, labels, error_text(b, largest),
                                   std::max<std::size_t>(bias.size(), 8), number(acc, 4));
    if (best >= 0) text += fmt::format("  {:>{}}", number(other, 4), of.size());
    return text + "\n";
  };
  std::string text =
      fmt::format("Bias and anomaly correlation (ACC) of {}\n{:>{}}  {:>8}  {:>8}",
                  scores.names[static_cast<std::size_t>(model)], "horizon", labels, bias, "ACC");
  text += best >= 0 ? "  " + of + "\n" : "\n";
  for (const Index h : report) {
    const auto at = [&](const std::vector<double>& values, Index k) {
      return k < 0 ? 0 : values[static_cast<std::size_t>(k * scores.horizons + h - 1)];
    };
    text += line(label(leads, h), at(scores.bias, model), at(scores.acc, model), at(scores.acc, best));
  }
  return text +
         line("mean", scores.mean_bias(model), scores.mean_acc(model), best < 0 ? 0 : scores.mean_acc(best));
}

}  // namespace

double largest_error(const HorizonScores& scores) {
  double largest = 0;
  for (const double error : scores.rmse)
    if (std::isfinite(error)) largest = std::max(largest, error);
  return largest > 0 ? largest : 1;
}

std::string error_text(double value, double largest) {
  if (!std::isfinite(value)) return "-";
  return has_decimals(largest) ? fmt::format("{:.4f}", value) : fmt::format("{:#.4g}", value);
}

std::vector<Lead> horizon_leads(const TimeAxis& axis, std::span<const Index> origins, Index horizons) {
  std::vector<Lead> leads(static_cast<std::size_t>(horizons));
  for (Index h = 1; h <= horizons; ++h)
    if (std::all_of(origins.begin(), origins.end(), [&](Index origin) { return axis.spans(origin, h); }))
      leads[static_cast<std::size_t>(h - 1)] = {axis.span_text(h), axis.span_seconds(h)};
  return leads;
}

std::vector<Index> reported_horizons(std::span<const std::string> wanted, const TimeAxis& axis,
                                     Index horizons) {
  std::vector<Index> report;
  for (const std::string& text : wanted) {
    Index horizon = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), horizon);
    if (error != std::errc() || end != text.data() + text.size()) {
      try {
        horizon = axis.steps_in(text);
      } catch (const UserError& fault) {
        user_error("evaluate.report: {}", fault.what());
      }
    }
    if (horizon < 1 || horizon > horizons)
      user_error(
          "evaluate.report: \"{}\" is not one of the {} horizons that are scored. Raise evaluate.horizons, "
          "or remove this horizon",
          text, horizons);
    report.push_back(horizon);
  }
  if (wanted.empty() && horizons <= most_rows) {
    report.resize(static_cast<std::size_t>(horizons));
    std::iota(report.begin(), report.end(), Index{1});
  } else if (wanted.empty()) {
    report = {1, horizons / 4, horizons / 2, 3 * horizons / 4, horizons};
  }
  std::sort(report.begin(), report.end());
  report.erase(std::unique(report.begin(), report.end()), report.end());
  return report;
}

nlohmann::ordered_json evaluation_json(const HorizonScores& scores, std::string_view units,
                                       std::span<const Lead> leads) {
  nlohmann::ordered_json json;
  json["horizons"] = nlohmann::ordered_json::array();
  for (Index h = 0; h < scores.horizons; ++h) {
    const auto at = [&](const std::vector<double>& values) {
      return by_name(scores,
                     [&](Index k) { return values[static_cast<std::size_t>(k * scores.horizons + h)]; });
    };
    nlohmann::ordered_json one{{"step", h + 1}};
    if (const auto place = static_cast<std::size_t>(h); place < leads.size()) {
      if (!leads[place].text.empty()) one["lead"] = leads[place].text;
      if (leads[place].seconds) one["lead_seconds"] = *leads[place].seconds;
    }
    one["rmse"] = at(scores.rmse);
    one["mae"] = at(scores.mae);
    if (!scores.mape_percent.empty()) one["mape_percent"] = at(scores.mape_percent);
    if (!scores.bias.empty()) one["bias"] = at(scores.bias);
    if (!scores.acc.empty()) one["acc"] = at(scores.acc);
    json["horizons"].push_back(std::move(one));
  }
  json["mean"]["rmse"] = by_name(scores, [&](Index k) { return scores.mean_rmse(k); });
  json["mean"]["mae"] = by_name(scores, [&](Index k) { return scores.mean_mae(k); });
  if (!scores.mape_percent.empty())
    json["mean"]["mape_percent"] = by_name(scores, [&](Index k) { return scores.mean_mape_percent(k); });
  if (!scores.bias.empty())
    json["mean"]["bias"] = by_name(scores, [&](Index k) { return scores.mean_bias(k); });
  if (!scores.acc.empty()) json["mean"]["acc"] = by_name(scores, [&](Index k) { return scores.mean_acc(k); });
  json["units"] = std::string(units);
  const Index best = scores.best_baseline();
  if (scores.find(model_name) >= 0 && best >= 0) {
    json["skill"]["baseline"] = scores.names[static_cast<std::size_t>(best)];
    json["skill"]["rmse"] = figure(scores.skill());
  }
  return json;
}

std::string evaluation_table(const HorizonScores& scores, std::string_view units, std::span<const Lead> leads,
                             std::span<const Index> report) {
  const std::string in = units.empty() || units == "1" ? "" : fmt::format(" ({})", units);
  std::vector<Index> all;
  if (report.empty()) {
    all.resize(static_cast<std::size_t>(scores.horizons));
    std::iota(all.begin(), all.end(), Index{1});
    report = all;
  }
  const double largest = largest_error(scores);
  std::string text;
  for (const Measure& measure :
       {Measure{"RMSE" + in, &scores.rmse, &HorizonScores::mean_rmse, largest},
        Measure{"MAE" + in, &scores.mae, &HorizonScores::mean_mae, largest},
        Measure{"MAPE (%)", &scores.mape_percent, &HorizonScores::mean_mape_percent, 0}})
    if (!measure.values->empty())
      text += (text.empty() ? "" : "\n") + table_of(scores, measure, leads, report);
  if (!scores.bias.empty()) text += "\n" + bias_table(scores, in, leads, report);
  const Index best = scores.best_baseline();
  if (scores.find(model_name) >= 0 && best >= 0)
    text +=
        fmt::format("skill: 1 - error of the model / error of {}, the baseline with the smallest mean RMSE\n",
                    scores.names[static_cast<std::size_t>(best)]);
  // The horizons are the same for all forecasters, because all are scored on the same targets.
  const Index scored = scores.names.empty() ? scores.horizons : scores.scored_horizons(0);
  const bool shortened = static_cast<Index>(report.size()) < scores.horizons;
  if (shortened)
    text += fmt::format("{} of {} horizons are shown (evaluate.report); ", report.size(), scores.horizons);
  if (scored < scores.horizons)
    text +=
        fmt::format("mean: of the {} of {} horizons that have observed targets\n", scored, scores.horizons);
  else if (shortened)
    text += "mean: of all horizons\n";
  if (scores.mape_percent.empty()) return text;
  if (const Index ratios = scores.names.empty() ? scored : scores.ratio_horizons(0); ratios < scored)
    text += fmt::format("mean MAPE: of the {} of {} horizons that have targets other than 0\n", ratios,
                        scores.horizons);
  return text;
}

}  // namespace rossby
