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

/// How far ahead a horizon is in time; both empty where the axis counts steps, has none that is regular, or
/// horizons from these origins lead across gaps of it.
struct Lead {
  std::string text;               // "15 min", "2 months"
  std::optional<double> seconds;  // none for months, whose lengths differ
};

/// Leads of horizons 1, 2, …, `horizons` from some origins.
[[nodiscard]] std::vector<Lead> horizon_leads(const TimeAxis& axis, std::span<const Index> origins,
                                              Index horizons);

/// The horizons that evaluate.report names, ascending, each once: counts of steps ("3") or times ("15 min",
/// "1 h"). None named: all of up to six; of more the first, the last and the quarters (of twelve: 1, 3, 6, 9,
/// 12). Throws UserError naming the key where a text is neither or a horizon is not among those scored.
[[nodiscard]] std::vector<Index> reported_horizons(std::span<const std::string> wanted, const TimeAxis& axis,
                                                   Index horizons);

/// Content of evaluation.json: {"horizons": [{"step", "lead", "lead_seconds", "rmse": {name: value}, "mae":
/// {…}, "mape_percent": {…}, "bias": {…}, "acc": {…}}, …], "mean": {"rmse": {…}, …}, "units": units} and,
/// where a model and a baseline were scored, "skill": {"baseline": name, "rmse": value}. Figures that are not
/// finite are null; leads that are not known, and measures that the scores do not have, are left out.
[[nodiscard]] nlohmann::ordered_json evaluation_json(const HorizonScores& scores, std::string_view units,
                                                     std::span<const Lead> leads = {});

/// The same for people: a table each of RMSE, MAE and MAPE with the skill, and one of bias and anomaly
/// correlation, at every horizon of `report` (empty: at all) and the mean of all; ends with a newline.
[[nodiscard]] std::string evaluation_table(const HorizonScores& scores, std::string_view units,
                                           std::span<const Lead> leads = {},
                                           std::span<const Index> report = {});

}  // namespace rossby
