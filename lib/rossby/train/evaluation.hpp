#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/io/cf_time.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// Lead time of a horizon. Both members are empty if the axis counts steps, if it has no regular step, or if
/// horizons from these origins lead across a gap of the axis.
struct Lead {
  std::string text;               // "15 min", "2 months"
  std::optional<double> seconds;  // none for months, whose lengths differ
};

/// Returns the lead times of horizons 1, 2, …, `horizons` from some origins.
[[nodiscard]] std::vector<Lead> horizon_leads(const TimeAxis& axis, std::span<const Index> origins,
                                              Index horizons);

/// Returns the horizons that evaluate.report names, ascending, each once: counts of steps ("3") or times ("15
/// min", "1 h"). If none is named, returns all of up to six horizons, and otherwise the first, the last and
/// the quarters (of twelve: 1, 3, 6, 9, 12). Throws UserError that names the key if a text is neither a count
/// nor a time, or if a horizon was not scored.
[[nodiscard]] std::vector<Index> reported_horizons(std::span<const std::string> wanted, const TimeAxis& axis,
                                                   Index horizons);

/// Returns the largest finite RMSE of the scores; 1 if there is none.
[[nodiscard]] double largest_error(const HorizonScores& scores);

/// Returns an error as text: with four decimals, or with four digits if the largest error of its table is
/// below 0.1, so that errors in large units are not rounded away. "-" if it is not finite.
[[nodiscard]] std::string error_text(double value, double largest);

/// Returns the content of evaluation.json: {"horizons": [{"step", "lead", "lead_seconds", "rmse": {name:
/// value}, "mae": {…}, "mape_percent": {…}, "bias": {…}, "acc": {…}}, …], "mean": {"rmse": {…}, …}, "units":
/// units}. If a model and a baseline were scored, it also has "skill": {"baseline": name, "rmse": value}.
/// Figures that are not finite are null. Unknown leads and measures that the scores lack are left out.
[[nodiscard]] nlohmann::ordered_json evaluation_json(const HorizonScores& scores, std::string_view units,
                                                     std::span<const Lead> leads = {});

/// Returns the same as text: one table each of RMSE, MAE and MAPE with the skill, and one of bias and anomaly
/// correlation. The columns are the horizons of `report` (empty: all) and the mean of all horizons. The text
/// ends with a newline.
[[nodiscard]] std::string evaluation_table(const HorizonScores& scores, std::string_view units,
                                           std::span<const Lead> leads = {},
                                           std::span<const Index> report = {});

}  // namespace rossby
