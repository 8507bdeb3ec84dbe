#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/data/synthetic_series.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

int synth(const Communicator& comm, const SyntheticSeries& series) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const SyntheticGrid grid = write_synthetic(series);
    fmt::print("{}: {} steps, {} x {} cells, {} with values\n", series.output, series.steps, grid.lat,
               grid.lon, grid.with_values);
  });
  return 0;
}

}  // namespace

void add_data_synth(CLI::App& data, Chosen& chosen) {
  const auto arguments = std::make_shared<SyntheticSeries>();
  SyntheticSeries& a = *arguments;
  auto* s = data.add_subcommand("synth", "write a synthetic series");
  s->add_option("--kind", a.kind, "pacific: sea surface temperature; heat: diffusion with known relations")
      ->check(CLI::IsMember({"pacific", "heat"}))
      ->capture_default_str();
  s->add_option("--lat", a.lat, "rows of the grid")->check(whole_number(1))->capture_default_str();
  s->add_option("--lon", a.lon, "columns of the grid")->check(whole_number(1))->capture_default_str();
  s->add_option("--steps", a.steps, "time steps")->check(whole_number(1))->capture_default_str();
  s->add_option("--seed", a.seed, "random seed")->check(whole_number(0))->capture_default_str();
  s->add_option("--noise", a.noise, "standard deviation of the noise; the default depends on --kind")
      ->check(non_negative_number());
  s->add_option(
       "--teleconnection", a.teleconnection,
       "pacific: weight (0 to 0.3) of two planted teleconnections; attributes of the file name their cells")
      ->check(non_negative_number())
      ->capture_default_str();
  s->add_option("-o,--output", a.output, "file to write")->required();
  choose(*s, chosen, arguments, synth);
}

}  // namespace rossby::commands
