#include "rossby/data/synthetic_series.hpp"

#include <memory>
#include <vector>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/synthetic.hpp"
#include "rossby/io/series_writer.hpp"

namespace rossby {
namespace {

std::unique_ptr<SyntheticField> make_field(const SyntheticSeries& series) {
  if (series.kind == "heat") {
    if (series.teleconnection > 0)
      user_error(
          "--teleconnection works only with --kind pacific. Leave --teleconnection out, or give --kind "
          "pacific");
    HeatSpec spec;
    spec.n_lat = series.lat;
    spec.n_lon = series.lon;
    spec.seed = static_cast<std::uint64_t>(series.seed);
    if (series.noise >= 0) spec.noise = series.noise;
    return std::make_unique<HeatField>(spec);
  }
  PacificSpec spec;
  spec.teleconnection = series.teleconnection;
  spec.n_lat = series.lat;
  spec.n_lon = series.lon;
  spec.seed = static_cast<std::uint64_t>(series.seed);
  if (series.noise >= 0) spec.noise = series.noise;
  return std::make_unique<PacificField>(spec);
}

/// Positions of the cells' centres and weights: "-20,250 to 0,190: 0.25; …".
std::string teleconnections_text(const PacificField& field) {
  const auto place = [&](Index cell) {
    return fmt::format("{:g},{:g}", field.latitude(cell / field.n_lon()),
                       field.longitude(cell % field.n_lon()));
  };
  std::string text;
  for (const Teleconnection& t : field.teleconnections())
    text +=
        fmt::format("{}{} to {}: {:g}", text.empty() ? "" : "; ", place(t.source), place(t.target), t.weight);
  return text;
}

/// A grid of temperatures with its land, or a rod or plate of sensors with the edges that generate it.
SeriesLayout layout_of(const SyntheticSeries& series, const SyntheticField& field) {
  SeriesLayout layout;
  SeriesVariable variable;
  layout.nodes = field.cells();
  if (const auto* heat = dynamic_cast<const HeatField*>(&field)) {
    variable.name = "heat";
    variable.units = "1";
    variable.long_name = "temperature, simulated heat diffusion";
    layout.time = TimeAxis::counter(series.steps);
    layout.has_edges = true;
    for (const Edge& edge : heat->edges())
      layout.edges.push_back({edge.source, edge.destination, edge.weight});
    layout.title = "Simulated heat diffusion";
  } else {
    variable.name = "sst";
    variable.units = "degree_Celsius";
    variable.long_name = "synthetic sea surface temperature";
    variable.standard_name = "sea_surface_temperature";
    layout.gridded = true;
    for (Index i = 0; i < field.n_lat(); ++i) layout.lat.push_back(field.latitude(i));
    for (Index j = 0; j < field.n_lon(); ++j) layout.lon.push_back(field.longitude(j));
    layout.land_mask.assign(field.land().begin(), field.land().end());
    layout.time = TimeAxis::monthly(series.steps, "1970-01");
    layout.title = "Synthetic Pacific sea surface temperature";
    if (const auto* pacific = dynamic_cast<const PacificField*>(&field); !pacific->teleconnections().empty())
      layout.attributes.emplace_back("teleconnections", teleconnections_text(*pacific));
  }
  layout.variables.push_back(variable);
  layout.attributes.emplace_back(
      "source", fmt::format("rossby data synth --kind {} --seed {}", series.kind, series.seed));
  return layout;
}

}  // namespace

SyntheticGrid write_synthetic(const SyntheticSeries& series) {
  const auto field = make_field(series);
  SeriesWriter writer = SeriesWriter::create(series.output, layout_of(series, *field));
  std::vector<float> values(static_cast<std::size_t>(field->cells()));
  for (Index t = 0; t < series.steps; ++t) {
    field->next(values);
    writer.append(values);
  }
  writer.finish();
  return {field->n_lat(), field->n_lon(), field->sea_cells()};
}

}  // namespace rossby
