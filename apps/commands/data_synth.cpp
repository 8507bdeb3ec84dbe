#include <cmath>
#include <memory>

#include <fmt/core.h>

#include "apps/commands.hpp"
#include "rossby/data/synthetic.hpp"
#include "rossby/io/series_writer.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

std::unique_ptr<SyntheticField> make_field(const Synth& arguments) {
  if (arguments.kind == "heat") {
    HeatSpec spec;
    spec.n_lat = arguments.lat;
    spec.n_lon = arguments.lon;
    spec.seed = static_cast<std::uint64_t>(arguments.seed);
    if (arguments.noise >= 0) spec.noise = arguments.noise;
    return std::make_unique<HeatField>(spec);
  }
  PacificSpec spec;
  spec.n_lat = arguments.lat;
  spec.n_lon = arguments.lon;
  spec.seed = static_cast<std::uint64_t>(arguments.seed);
  if (arguments.noise >= 0) spec.noise = arguments.noise;
  return std::make_unique<PacificField>(spec);
}

/// A grid of temperatures with its land, or a rod or plate of sensors with the edges that made it.
SeriesLayout layout(const Synth& arguments, const SyntheticField& field) {
  SeriesLayout layout;
  SeriesVariable variable;
  layout.nodes = field.cells();
  if (const auto* heat = dynamic_cast<const HeatField*>(&field)) {
    variable.name = "heat";
    variable.units = "1";
    variable.long_name = "temperature, simulated heat diffusion";
    layout.time = TimeAxis::counter(arguments.steps);
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
    layout.time = TimeAxis::monthly(arguments.steps, "1970-01");
    layout.title = "Synthetic Pacific sea surface temperature";
  }
  layout.variables.push_back(variable);
  layout.attributes.emplace_back(
      "source", fmt::format("rossby data synth --kind {} --seed {}", arguments.kind, arguments.seed));
  return layout;
}

void write(const Synth& arguments) {
  const auto field = make_field(arguments);
  SeriesWriter writer = SeriesWriter::create(arguments.output, layout(arguments, *field));
  std::vector<float> values(static_cast<std::size_t>(field->cells()));
  for (Index t = 0; t < arguments.steps; ++t) {
    field->next(values);
    writer.append(values);
  }
  writer.finish();
  fmt::print("{}: {} steps, {} x {} cells, {} with values\n", arguments.output, arguments.steps,
             field->n_lat(), field->n_lon(), field->sea_cells());
}

}  // namespace

int synth(const Communicator& comm, const Synth& arguments) {
  agree(comm, [&] {
    if (comm.rank() == 0) write(arguments);
  });
  return 0;
}

}  // namespace rossby::commands
