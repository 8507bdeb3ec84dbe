#include "rossby/run/forecast.hpp"

#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_writer.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/gather_nodes.hpp"
#include "rossby/mpi/observed_steps.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

/// The step that is asked for, or the last one at which a node has a value. Says if values end before it.
/// Collective.
Index origin_of(const Communicator& comm, const Config& config, const Domain& domain,
                const ForecastOptions& options) {
  const TimeAxis& time = domain.info.time;
  const bool named = !options.origin.empty();
  const Index asked = agree(comm, [&] { return named ? time.step_of(options.origin) : time.size() - 1; });
  const Index observed = last_observed_step(comm, config, domain, asked);
  if (observed == asked || observed < 0) return asked;
  const Index empty = asked - observed;
  const std::string which = empty == 1 ? fmt::format("step {} has", time.text(asked))
                                       : fmt::format("the {} steps from {} to {} have", empty,
                                                     time.text(observed + 1), time.text(asked));
  if (options.prints && comm.rank() == 0)
    fmt::print(
        "{}: {} no value of any node; {}\n", domain.info.path, which,
        named ? fmt::format("warning: the last values before that origin are of {}", time.text(observed))
              : fmt::format("the forecast starts from {}, the last step with values", time.text(observed)));
  return named ? asked : observed;
}

/// The values of all file nodes, one step after the other: NaN where a file node is no node of the run. What
/// was subtracted from the data is added.
template <class V>
std::vector<V> on_file_nodes(const Domain& domain, const std::vector<float>& nodes, Index steps) {
  const Index m = domain.info.features;
  std::vector<V> values(static_cast<std::size_t>(steps * domain.info.file_nodes * m),
                        std::numeric_limits<V>::quiet_NaN());
  const auto center = [&](Index i, Index f) {
    return domain.centers.empty() ? 0 : domain.centers[static_cast<std::size_t>(i * m + f)];
  };
  for (Index i = 0; i < domain.nodes(); ++i)
    for (Index h = 0; h < steps; ++h)
      for (Index f = 0; f < m; ++f)
        values[static_cast<std::size_t>(
            (h * domain.info.file_nodes + domain.file_node[static_cast<std::size_t>(i)]) * m + f)] =
            static_cast<V>(static_cast<double>(nodes[static_cast<std::size_t>((i * steps + h) * m + f)]) +
                           center(i, f));
  return values;
}

SeriesLayout forecast_layout(const Domain& domain, const OpenRun& open, Index origin, Index steps) {
  SeriesLayout layout = layout_of(domain.info);
  layout.wide = !domain.centers.empty();
  layout.time = domain.info.time.after(origin, steps);
  layout.reference = domain.info.time.values()[static_cast<std::size_t>(origin)];
  layout.title = fmt::format("Forecast of {} steps from {}", steps, domain.info.time.text(origin));
  layout.attributes.emplace_back("source", fmt::format("rossby {}, {}, run {}", version_short(),
                                                       open.config.model.name, open.directory->path()));
  if (layout.planar()) {
    layout.land_mask.assign(static_cast<std::size_t>(domain.info.file_nodes), 1);
    for (const Index node : domain.file_node) layout.land_mask[static_cast<std::size_t>(node)] = 0;
  }
  return layout;
}

template <class T>
std::string forecast_with(const Communicator& comm, const OpenRun& open, const ForecastOptions& options) {
  const Config& config = open.config;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    (void)open.output(options.output, "");
    if (!options.inputs.empty() && !options.output.empty())
      refuse_to_replace(options.output, {options.inputs});
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", open.remark);
  const auto made = make_run<T>(comm, config, Purpose::forecasting);
  ModelRun<T>& run = *made;
  run.load(open.state, open.other_file);
  if (options.prints && comm.rank() == 0 && !run.device_remark().empty())
    fmt::print("{}\n", run.device_remark());
  const Domain& domain = run.domain();
  const Index steps = options.steps;
  agree(comm, [&] {
    constexpr Index most = 10'000'000;
    if (steps < 1) user_error("a forecast of {} steps; ask for 1 or more", steps);
    if (steps > most) user_error("--steps {}: a forecast has at most {} steps", steps, most);
    check_memory(steps * domain.nodes() * domain.info.features, sizeof(float),
                 fmt::format("a forecast of {} steps", steps));
  });
  const Index origin = origin_of(comm, config, domain, options);
  agree(comm, [&] {
    (void)domain.info.time.after(origin, steps);  // has to be known
    (void)run.usable({origin}, steps);
  });
  run.know_ahead(origin, steps, options.inputs);

  const Index m = domain.info.features;
  const auto owned = static_cast<Index>(domain.rows.size());
  std::vector<float> local(static_cast<std::size_t>(owned * steps * m));
  const std::vector<Index> origins{origin};
  const auto keep = [&](Index, Index horizon, NodeView<const T> x) {
    for (Index i = 0; i < owned; ++i)
      for (Index f = 0; f < m; ++f)
        local[static_cast<std::size_t>((i * steps + horizon - 1) * m + f)] =
            static_cast<float>(x.at(i, 0)[f]);
  };
  in_exchanges(comm, [&] { run.forecast(origins, steps, keep); });
  const Stage stage(comm, "writing the forecast", patience_with_files);
  const auto nodes = gather_nodes(comm, domain.partition, local, steps * m);
  const std::string written = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    for (const float value : nodes)
      if (!std::isfinite(value))
        user_error(
            "forecast: the model diverges within {} steps from {}; forecast fewer steps or train longer",
            steps, domain.info.time.text(origin));
    const std::string path = open.output(options.output, open.directory->forecast_file());
    const SeriesLayout layout = forecast_layout(domain, open, origin, steps);
    if (layout.wide)
      write_series_in_double(path, layout, on_file_nodes<double>(domain, nodes, steps));
    else
      write_series(path, layout, on_file_nodes<float>(domain, nodes, steps));
    if (!options.prints) return path;
    fmt::print("{} steps from {}, written to {}{}\n", steps, domain.info.time.text(origin), path,
               domain.split.reaches_training(origin, steps)
                   ? " (steps of the training part are among them: the model has seen those)"
                   : "");
    return path;
  });
  return broadcast(comm, written);
}

}  // namespace

std::string forecast(const Communicator& comm, const std::string& run, const ForecastOptions& options) {
  return with_run(comm, run, options.sets, options.device,
                  [&]<class T>(const Communicator& ranks, const OpenRun& open) {
                    return forecast_with<T>(ranks, open, options);
                  });
}

}  // namespace rossby
