#include "rossby/run/evaluation_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rossby {
namespace {

/// Returns tables of each part, if they are few, and of all parts together or the only one.
std::string tables_of(const Domain& domain, const std::vector<ScoredPart>& parts,
                      const std::vector<HorizonScores>& of_parts, const HorizonScores& scores,
                      std::span<const Lead> leads, std::span<const Index> report) {
  constexpr std::size_t few_features = 4;
  const std::string units = units_of(domain.info), all = evaluation_table(scores, units, leads, report);
  const SeriesVariable& first = domain.info.variables.front();
  if (parts.empty())
    return (first.features > 1 ? fmt::format("the {} features of {} together\n", first.features, first.name)
                               : "") +
           all;
  const bool of_features = !parts.front().feature.empty();
  std::string text;
  for (std::size_t p = 0; p < parts.size() && !(of_features && parts.size() > few_features); ++p)
    text += (of_features
                 ? fmt::format("{}, {} {}\n", first.name,
                               first.feature_name.empty() ? "feature" : first.feature_name, parts[p].feature)
                 : fmt::format("variable {}\n", parts[p].variable->name)) +
            evaluation_table(of_parts[p], parts[p].units(), leads, report) + "\n";
  if (of_features)
    return text + fmt::format(
                      "all {} features of {} together: if their units differ, those with large values "
                      "dominate{}\n{}",
                      first.features, first.name,
                      text.empty() ? "; the file also has each feature by itself" : "", all);
  return text + fmt::format(
                    "all variables together{}\n{}",
                    units == "mixed" ? ", although their units differ: those with large values dominate" : "",
                    all);
}

/// "+3.1 % (95 % interval +1.0 to +5.2 %): better".
std::string paired_text(const PairedSkill& paired) {
  const auto share = [](double x) { return fmt::format("{:+.1f}", 100 * x); };
  if (!std::isfinite(paired.low)) return share(paired.skill) + " %, too few origins for an interval";
  return fmt::format("{} % (95 % interval {} to {} %): {}", share(paired.skill), share(paired.low),
                     share(paired.high),
                     paired.tie()     ? "a tie"
                     : paired.low > 0 ? "better"
                                      : "worse");
}

nlohmann::ordered_json json_of(const PairedSkill& paired, const std::string& baseline) {
  const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
  return {{"baseline", baseline},
          {"rmse", figure(paired.skill)},
          {"interval", {{"low", figure(paired.low)}, {"high", figure(paired.high)}}},
          {"block", paired.block}};
}

/// Returns the steps that are forecast, ascending.
std::vector<Index> targets_of(const TestForecasts& test) {
  std::vector<Index> targets;
  for (const Index origin : test.origins)
    for (Index h = 1; h <= test.horizons; ++h) targets.push_back(origin + h);
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

}  // namespace

std::vector<ScoredPart> scored_parts(const Domain& domain) {
  constexpr Index most_features = 32;
  std::vector<ScoredPart> parts;
  const auto& variables = domain.info.variables;
  const SeriesVariable& only = variables.front();
  if (variables.size() > 1)
    for (const SeriesVariable& variable : variables) parts.push_back({&variable, variable.features});
  else if (only.features > 1 && only.features <= most_features)
    for (Index f = 0; f < only.features; ++f) {
      const auto place = static_cast<std::size_t>(f);
      const bool labelled = place < only.feature_labels.size() && !only.feature_labels[place].empty();
      parts.push_back({&only, 1, labelled ? only.feature_labels[place] : std::to_string(f)});
    }
  return parts;
}

std::vector<bool> has_relative_errors(const Series& series, const TestForecasts& test,
                                      std::span<const Index> part_features, Reducer& reducer) {
  constexpr double near = 0.05, few = 0.01;
  std::vector<std::size_t> part_of;
  for (std::size_t p = 0; p < part_features.size(); ++p)
    part_of.insert(part_of.end(), static_cast<std::size_t>(part_features[p]), p);
  part_of.resize(static_cast<std::size_t>(series.features), 0);
  const std::size_t parts = std::max<std::size_t>(1, part_features.size());
  const std::vector<Index> targets = targets_of(test);
  const auto of_targets = [&](const auto& visit) {
    for (const Index step : targets)
      for (Index k = 0; k < series.rows * series.features; ++k)
        if (const double x = series.at(step)[k]; !std::isnan(x) && x != 0)
          visit(part_of[static_cast<std::size_t>(k % series.features)], x);
  };
  std::vector<double> sums(3 * parts), small(parts);  // number, sum, number of negative values
  of_targets([&](std::size_t part, double x) {
    sums[3 * part] += 1;
    sums[3 * part + 1] += x;
    sums[3 * part + 2] += x < 0;
  });
  reducer.ordered_sum(sums);
  of_targets(
      [&](std::size_t part, double x) { small[part] += x < near * sums[3 * part + 1] / sums[3 * part]; });
  reducer.ordered_sum(small);
  std::vector<bool> meant;
  for (std::size_t part = 0; part < parts; ++part)
    meant.push_back(sums[3 * part + 2] == 0 && small[part] <= few * sums[3 * part]);
  return meant;
}

void add_moments(HorizonScores& scores, const Verification& verification, Index slice, Index part,
                 Index parts) {
  for (Index k = 0; k < std::ssize(scores.names); ++k)
    for (Index h = 1; h <= scores.horizons; ++h) {
      ScoreMoments sum;
      for (Index p = 0; p < std::max<Index>(1, parts); ++p)
        if (part < 0 || p == part) sum += verification.at(slice, p, k, h);
      scores.bias.push_back(sum.bias());
      scores.acc.push_back(sum.acc());
    }
}

namespace {

void drop_relative(HorizonScores& scores) {
  scores.mape_percent.clear();
  scores.ratio_count.clear();
}

}  // namespace

void keep_relative(EvaluationReport& found, const std::vector<bool>& meant) {
  const bool all = std::all_of(meant.begin(), meant.end(), [](bool it) { return it; });
  if (all) return;
  drop_relative(found.scores);
  for (std::size_t p = 0; p < found.of_parts.size(); ++p)
    if (!meant[p]) drop_relative(found.of_parts[p]);
  found.relative = "MAPE is left out: observations are negative, or near 0\n";
}

bool EvaluationReport::seen() const {
  return std::any_of(test.origins.begin(), test.origins.end(),
                     [&](Index origin) { return domain.split.reaches_training(origin, test.horizons); });
}

HorizonScores EvaluationReport::of_slice(Index slice, Index part) const {
  HorizonScores of{scores.names, scores.horizons, {}, {}, {}, {}, {}};
  const Index count = std::max<Index>(1, std::ssize(parts));
  for (Index k = 0; k < std::ssize(of.names); ++k)
    for (Index h = 1; h <= of.horizons; ++h) {
      ScoreMoments sum;
      for (Index p = 0; p < count; ++p)
        if (part < 0 || p == part) sum += verification.at(slice, p, k, h);
      of.rmse.push_back(sum.rmse());
      of.mae.push_back(sum.mae());
      of.count.push_back(sum.number);
    }
  add_moments(of, verification, slice, part, std::ssize(parts));
  return of;
}

nlohmann::ordered_json EvaluationReport::slices_json(Index part, const std::string& units) const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const std::vector<Slice> names = slices.all();
  for (std::size_t s = 1; s < names.size(); ++s) {
    const HorizonScores of = of_slice(static_cast<Index>(s), part);
    nlohmann::ordered_json one{{"kind", names[s].kind}, {"name", names[s].name}};
    double count = 0;
    for (Index h = 0; h < of.horizons; ++h) count += of.count[static_cast<std::size_t>(h)];
    one["observations"] = static_cast<std::int64_t>(count);
    one.update(evaluation_json(of, units, leads));
    one.erase("units");
    all.push_back(std::move(one));
  }
  return all;
}

nlohmann::ordered_json EvaluationReport::json() const {
  const TimeAxis& time = domain.info.time;
  nlohmann::ordered_json all = evaluation_json(scores, units_of(domain.info), leads);
  const bool sliced = slices.all().size() > 1;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    nlohmann::ordered_json part{{"variable", parts[p].variable->name}};
    if (!parts[p].feature.empty()) part["feature"] = parts[p].feature;
    part.update(evaluation_json(of_parts[p], parts[p].units(), leads));
    if (sliced) part["slices"] = slices_json(static_cast<Index>(p), parts[p].units());
    all["variables"].push_back(std::move(part));
  }
  const auto name = [&](Index k) { return scores.names[static_cast<std::size_t>(k)]; };
  if (chosen >= 0) all["skill"]["validated"] = json_of(paired, name(chosen));
  put_lead_intervals(all);
  if (against >= 0) all["skill"]["against"] = json_of(against_it, name(against));
  if (!climatology.empty()) all["climatology"] = climatology;
  if (!weights.empty()) all["weights"] = weights;
  if (sliced) all["slices"] = slices_json(-1, units_of(domain.info));
  if (!spread.empty()) all["ensemble"] = spread_json();
  if (!intervals.empty()) all["intervals"] = intervals_json();
  if (!dressed.empty()) all["dressed"] = dressed_json();
  if (!quantiles.empty()) all["quantiles"] = quantiles_json();
  if (epochs >= 0) all["state"] = {{"epochs", epochs}};
  all["data"] = {{"file", domain.info.path},
                 {"first_origin", time.text(test.origins.front())},
                 {"last_origin", time.text(test.origins.back())},
                 {"origins", test.origins.size()},
                 {"seen", seen()}};
  if (changes.changed + changes.gone > 0)
    all["data"]["accepted"] = {{"changed_steps", changes.changed}, {"missing_steps", changes.gone}};
  return all;
}

/// Returns a table with a line for each slice: means over the horizons.
std::string EvaluationReport::slices_table() const {
  const std::vector<Slice> names = slices.all();
  if (names.size() == 1) return "";
  const Index other = against >= 0 ? against : chosen >= 0 ? chosen : scores.best_baseline();
  std::size_t width = 8;
  for (const Slice& slice : names) width = std::max(width, slice.name.size());
  const std::string base = other >= 0 ? scores.names[static_cast<std::size_t>(other)] : "-";
  const std::size_t of_base = std::max<std::size_t>(8, base.size());
  const auto number = [&](double x) { return error_text(x, largest_error(scores)); };
  std::string text = fmt::format(
      "\nRMSE by {}, means over the horizons\n{:>{}}  {:>8}  {:>{}}     skill      bias       ACC\n",
      slices.time_kind.empty() ? "region"
      : slices.regions.empty() ? slices.time_kind
                               : slices.time_kind + " and region",
      "", width, "model", base, of_base);
  for (std::size_t s = 1; s < names.size(); ++s) {
    const HorizonScores of = of_slice(static_cast<Index>(s), -1);
    if (of.scored_horizons(0) == 0) continue;
    const double rmse = of.mean_rmse(0), reference = other >= 0 ? of.mean_rmse(other) : NAN,
                 skill = 100 * skill_against(rmse, reference);
    text +=
        fmt::format("{:>{}}  {:>8}  {:>{}}  {:>8}  {:>8}  {:>8}\n", names[s].name, width, number(rmse),
                    number(reference), of_base, std::isfinite(skill) ? fmt::format("{:+.1f} %", skill) : "-",
                    number(of.mean_bias(0)), error_text(of.mean_acc(0), 1));
  }
  return text;
}

void EvaluationReport::print(std::span<const Index> report, const std::string& path) const {
  const TimeAxis& time = domain.info.time;
  if (seen())
    fmt::print(
        "warning   some of these forecasts are of the training part, which the model has seen: their scores "
        "are not test scores\n");
  fmt::print("{} origins from {} to {}{}\n{}", test.origins.size(), time.text(test.origins.front()),
             time.text(test.origins.back()), weights.empty() ? "" : fmt::format(", weighted by {}", weights),
             tables_of(domain, parts, of_parts, scores, leads, report));
  if (scores.scored_horizons(0) == 0)
    fmt::print(
        "warning: no target of these forecasts is observed, so that nothing is scored. "
        "Move the test part with split.test, or leave out steps without values with data.last_step\n");
  if (!climatology.empty()) fmt::print("ACC: correlation of anomalies from {}\n", climatology);
  fmt::print("{}{}{}", relative, spread_line() + intervals_line() + dressed_line() + quantiles_line(),
             slices_table());
  const auto name = [&](Index k) { return scores.names[static_cast<std::size_t>(k)]; };
  if (chosen >= 0)
    fmt::print("against {}, the baseline with the smallest mean RMSE of the validation part: {}\n",
               name(chosen), paired_text(paired));
  if (against >= 0) fmt::print("against {}: {}\n", name(against), paired_text(against_it));
  fmt::print("\nwritten to {}\n", path);
}

}  // namespace rossby
