#include "rossby/run/hindcasts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "rossby/base/error.hpp"
#include "rossby/base/text_hash.hpp"
#include "rossby/run/version.hpp"
#include "rossby/train/evaluation.hpp"

namespace rossby {
namespace {

/// Returns leads 1, 2, … of these forecasts: as times, or as steps if a lead crosses a gap or has unknown
/// length.
FieldAxis lead_axis(const TimeAxis& time, const ScoredForecasts& scored) {
  FieldAxis axis{"lead", {}, "", "how far ahead, in steps", "", ""};
  for (Index h = 1; h <= scored.horizons; ++h) axis.values.push_back(static_cast<double>(h));
  const std::vector<Lead> leads = horizon_leads(time, scored.origins, scored.horizons);
  if (std::any_of(leads.begin(), leads.end(), [](const Lead& lead) { return lead.text.empty(); }))
    return axis;
  axis.standard_name = "forecast_period";
  axis.long_name = "time since init_time";
  if (time.spacing() == TimeAxis::Spacing::months) {
    for (double& value : axis.values) value *= static_cast<double>(time.step_months());
    axis.units = "months";
    return axis;
  }
  struct Unit {
    const char* name;
    double seconds;
  };
  constexpr std::array<Unit, 4> units{{{"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}}};
  for (const Unit& unit : units) {
    const auto whole = [&](const Lead& lead) {
      return std::fmod(lead.seconds.value_or(0), unit.seconds) == 0;
    };
    if (unit.seconds > 1 && !std::all_of(leads.begin(), leads.end(), whole)) continue;
    axis.units = unit.name;
    for (std::size_t h = 0; h < leads.size(); ++h)
      axis.values[h] = leads[h].seconds.value_or(0) / unit.seconds;
    return axis;
  }
  return axis;
}

FieldAxis init_axis(const TimeAxis& time, std::span<const Index> origins) {
  FieldAxis axis{"init_time",
                 {},
                 time.dated() ? "forecast_reference_time" : "",
                 "last step that the forecast knows",
                 time.units(),
                 time.calendar()};
  for (const Index origin : origins) axis.values.push_back(time.values()[static_cast<std::size_t>(origin)]);
  return axis;
}

/// Returns the nodes of the data and the axes, without fields.
FieldLayout result_layout(const Domain& domain, const ResultFile& file, std::vector<FieldAxis> axes) {
  FieldLayout layout;
  layout.space = layout_of(domain.info);
  layout.space.variables.clear();
  layout.space.attributes.emplace_back("source", fmt::format("rossby {}, {}", version_short(), file.source));
  if (layout.space.planar()) {
    layout.space.land_mask.assign(static_cast<std::size_t>(domain.info.file_nodes), 1);
    for (const Index node : domain.file_node) layout.space.land_mask[static_cast<std::size_t>(node)] = 0;
  }
  layout.axes = std::move(axes);
  layout.deflate = file.deflate;
  return layout;
}

/// Returns a field of the shape of a variable.
SeriesVariable field_of(const SeriesVariable& variable, const std::string& suffix, const std::string& what,
                        const std::string& units, bool same_quantity) {
  SeriesVariable field = variable;
  field.name += suffix;
  field.long_name = fmt::format("{} of {}", what, variable.name);
  field.units = units;
  if (!same_quantity) field.standard_name.clear();
  if (field.features > 1 && field.feature_name.empty()) field.feature_name = "feature_of_" + variable.name;
  return field;
}

}  // namespace

Hindcasts::Hindcasts(const Communicator& comm, const Domain& domain, const ResultFile& file,
                     const ScoredForecasts& scored, bool with_baseline)
    : domain_(domain),
      origins_(scored.origins.begin(), scored.origins.end()),
      horizons_(scored.horizons),
      kinds_(with_baseline ? 4 : 3),
      with_baseline_(with_baseline) {
  const TimeAxis& time = domain.info.time;
  FieldLayout layout = result_layout(domain, file, {init_axis(time, origins_), lead_axis(time, scored)});
  layout.space.wide = !domain.centers.empty();
  layout.space.title = fmt::format("Forecasts from {} origins, {} to {}", origins_.size(),
                                   time.text(origins_.front()), time.text(origins_.back()));
  for (const Index origin : origins_)
    for (Index h = 1; h <= horizons_; ++h)
      layout.valid_time.push_back(time.values()[static_cast<std::size_t>(origin + h)]);
  std::vector<Index> centered;
  Index feature = 0;
  for (const SeriesVariable& variable : domain.info.variables) {
    auto& fields = layout.space.variables;
    fields.push_back(field_of(variable, "", "forecast", variable.units, true));
    fields.push_back(field_of(variable, "_observation", "observation", variable.units, true));
    if (with_baseline) fields.push_back(field_of(variable, "_baseline", "baseline", variable.units, true));
    fields.push_back(field_of(variable, "_climatology", "climatology", variable.units, true));
    centered.insert(centered.end(), static_cast<std::size_t>(kinds_), feature);
    feature += variable.features;
  }
  KeptFields keeps{file.identity, {}};
  for (Index v = 0; v < std::ssize(domain.info.variables); ++v) keeps.fields.push_back(v * kinds_);
  file_ = std::make_unique<FieldFile>(comm, file.path, domain, std::move(layout), std::move(centered),
                                      std::move(keeps));
}

void Hindcasts::visit_kept(const std::function<void(Index, Index, NodeView<const float>)>& visit) const {
  const Index rows = std::ssize(domain_.rows), m = domain_.info.features;
  std::vector<float> values(static_cast<std::size_t>(rows * m));
  for (Index origin = 0; origin < kept(); ++origin)
    for (Index h = 0; h < horizons_; ++h) {
      Index feature = 0, number = 0;
      for (const SeriesVariable& variable : domain_.info.variables) {
        const std::vector<float> some = file_->read(number++ * kinds_, h, origin);
        for (Index i = 0; i < rows; ++i)
          std::copy_n(some.begin() + i * variable.features, variable.features,
                      values.begin() + i * m + feature);
        feature += variable.features;
      }
      visit(origin, h + 1, {values.data(), rows, 1, m});
    }
}

void Hindcasts::put(Index kind, Index inner, Index outer, NodeView<const float> values) {
  const Index field = kind == 3 ? kinds_ - 1 : kind;
  Index feature = 0, number = 0;
  for (const SeriesVariable& variable : domain_.info.variables) {
    file_->put<float>(number++ * kinds_ + field, inner, outer,
                      {values.data + feature, values.rows, values.cols, variable.features, values.row_stride,
                       values.col_stride});
    feature += variable.features;
  }
}

void Hindcasts::add(Index kind, const ScoredValues& values) {
  const Index columns = std::ssize(values.steps), m = values.features, width = columns * m;
  values_.resize(static_cast<std::size_t>(values.all_rows * width));
  std::copy_n(values.forecast, values.rows * width, values_.begin() + values.first_row * width);
  if (values.first_row + values.rows < values.all_rows) return;
  const Index first = values.steps.front() - values.horizon;
  const auto outer = std::lower_bound(origins_.begin(), origins_.end(), first) - origins_.begin();
  if (kind == 0 && outer < kept()) return;  // read from the file
  for (Index b = 0; b < columns; ++b)
    require(
        outer + b < std::ssize(origins_) && origins_[static_cast<std::size_t>(outer + b)] + values.horizon ==
                                                values.steps[static_cast<std::size_t>(b)],
        "forecasts come in the order of their origins");
  put(kind, values.horizon - 1, outer, {values_.data(), values.all_rows, columns, m});
}

/// Adds the values of a series at the targets of several consecutive origins.
void Hindcasts::add_targets(Index kind, const Series& series) {
  const Index count = std::ssize(origins_);
  for (Index h = 1; h <= horizons_; ++h)
    for (Index first = 0, last = 0; first < count; first = last) {
      const Index origin = origins_[static_cast<std::size_t>(first)];
      for (last = first; last < count && origins_[static_cast<std::size_t>(last)] == origin + last - first;)
        ++last;
      put(kind, h - 1, first, series.view(origin + h, last - first));
    }
}

void Hindcasts::finish(const Series& series, const Series& climatology, const std::string& baseline,
                       const std::string& climatology_name) {
  add_targets(1, series);
  add_targets(3, climatology);
  std::vector<std::pair<std::string, std::string>> attributes{{"climatology", climatology_name}};
  if (with_baseline_) attributes.emplace_back("baseline", baseline);
  file_->finish(attributes);
}

std::string identity_of_forecasts(const Config& config, const std::string& state, const SeriesInfo& data,
                                  const ScoredForecasts& scored) {
  TextHash hash;
  hash.add_format("{}\n{}\n", version_text(), config.to_toml());
  std::vector<std::string> files{state};
  for (const SeriesPartInfo& part : data.parts) files.push_back(part.path);
  for (const std::string& file : files) {
    std::error_code code;
    const auto bytes = std::filesystem::file_size(file, code);
    const auto time = std::filesystem::last_write_time(file, code);
    hash.add_format("{} {} {}\n", file, bytes, time.time_since_epoch().count());
  }
  hash.add_list(scored.origins);
  hash.add_format(" {}", scored.horizons);
  return fmt::format("{:016x}", hash.value());
}

void write_score_maps(const Communicator& comm, const Domain& domain, const ResultFile& file,
                      const ScoredForecasts& scored, const NodeMoments& model, const NodeMoments* baseline,
                      const std::string& baseline_name, const std::string& climatology_name) {
  using Score = std::function<double(const ScoreMoments& own, const ScoreMoments* other)>;
  struct Map {
    const char *suffix, *what;
    bool in_units, of_baseline;
    Score score;
  };
  const std::vector<Map> maps{
      {"_rmse", "root mean squared error", true, false, [](const ScoreMoments& m, auto) { return m.rmse(); }},
      {"_mae", "mean absolute error", true, false, [](const ScoreMoments& m, auto) { return m.mae(); }},
      {"_bias", "mean of forecast less observation", true, false,
       [](const ScoreMoments& m, auto) { return m.bias(); }},
      {"_acc", "anomaly correlation over time", false, false,
       [](const ScoreMoments& m, auto) { return m.acc(); }},
      {"_baseline_rmse", "root mean squared error of the baseline", true, true,
       [](const ScoreMoments&, const ScoreMoments* other) { return other->rmse(); }},
      {"_skill", "1 - RMSE / RMSE of the baseline", false, true,
       [](const ScoreMoments& m, const ScoreMoments* other) {
         return skill_against(m.rmse(), other->rmse());
       }},
      {"_count", "observations", false, false, [](const ScoreMoments& m, auto) { return m.number; }}};
  FieldLayout layout = result_layout(domain, file, {lead_axis(domain.info.time, scored)});
  layout.space.title = fmt::format("Scores of forecasts from {} origins", scored.origins.size());
  std::vector<std::pair<Index, const Map*>> fields;  // first feature of the variable
  Index feature = 0;
  for (const SeriesVariable& variable : domain.info.variables) {
    for (const Map& map : maps) {
      if (map.of_baseline && !baseline) continue;
      layout.space.variables.push_back(
          field_of(variable, map.suffix, map.what, map.in_units ? variable.units : "1", false));
      fields.emplace_back(feature, &map);
    }
    feature += variable.features;
  }
  layout.space.attributes.emplace_back("climatology", climatology_name);
  if (baseline) layout.space.attributes.emplace_back("baseline", baseline_name);
  const std::vector<SeriesVariable> variables = layout.space.variables;
  FieldFile out(comm, file.path, domain, std::move(layout), std::vector<Index>(fields.size(), -1));
  const Index rows = std::ssize(domain.rows);
  std::vector<float> values;
  for (std::size_t k = 0; k < fields.size(); ++k)
    for (Index h = 1; h <= scored.horizons; ++h) {
      values.clear();
      const Index m = variables[k].features;
      for (Index i = 0; i < rows; ++i)
        for (Index f = fields[k].first; f < fields[k].first + m; ++f)
          values.push_back(static_cast<float>(
              fields[k].second->score(model.at(h, i, f), baseline ? &baseline->at(h, i, f) : nullptr)));
      out.put<float>(static_cast<Index>(k), h - 1, 0, {values.data(), rows, 1, m});
    }
  out.finish();
}

}  // namespace rossby
