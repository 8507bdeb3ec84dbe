#include "rossby/run/forecast.hpp"

#include <algorithm>
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
#include "rossby/run/average_run.hpp"
#include "rossby/run/intervals.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

/// Returns the requested step, or the last one at which a node has a value. Prints if values end before it.
/// Collective.
Index origin_of(const Communicator& comm, const Config& config, const Domain& domain,
                const ForecastOptions& options) {
  const TimeAxis& time = domain.info.time;
  const bool named = !options.origin.empty();
  const Index asked = agree(comm, [&] { return named ? time.step_of(options.origin) : time.size() - 1; });
  const Index observed = last_observed_step(comm, config, domain, asked);
  if (const Index padded = repeated_steps(comm, config, domain, observed);
      padded > 0 && options.prints && comm.rank() == 0)
    fmt::print("warning: the {}. If these steps are not observations, name an earlier --origin\n",
               repetition_text(time, observed, padded));
  if (observed == asked || observed < 0) return asked;
  const Index empty = asked - observed;
  const std::string which = empty == 1 ? fmt::format("step {} has", time.text(asked))
                                       : fmt::format("the {} steps from {} to {} have", empty,
                                                     time.text(observed + 1), time.text(asked));
  if (options.prints && comm.rank() == 0)
    fmt::print(
        "{}{}: {} no value of any node; {}\n", named ? "warning: " : "", domain.info.path, which,
        named ? fmt::format("the last values before this origin are from {}", time.text(observed))
              : fmt::format("the forecast starts from {}, the last step with values", time.text(observed)));
  return named ? asked : observed;
}

/// Returns the values of all file nodes, step by step; NaN for file nodes that the run does not use. Adds
/// what was subtracted from the data.
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

SeriesLayout forecast_layout(const Domain& domain, const std::string& source, Index origin, Index steps) {
  SeriesLayout layout = layout_of(domain.info);
  layout.wide = !domain.centers.empty();
  layout.time = domain.info.time.after(origin, steps);
  layout.reference = domain.info.time.values()[static_cast<std::size_t>(origin)];
  layout.title = fmt::format("Forecast of {} steps from {}", steps, domain.info.time.text(origin));
  layout.attributes.emplace_back("source", fmt::format("rossby {}, {}", version_short(), source));
  if (layout.planar()) {
    layout.land_mask.assign(static_cast<std::size_t>(domain.info.file_nodes), 1);
    for (const Index node : domain.file_node) layout.land_mask[static_cast<std::size_t>(node)] = 0;
  }
  return layout;
}

/// Throws UserError if so many steps cannot be forecast, or do not fit into memory.
void check_steps(const Communicator& comm, const Domain& domain, Index steps, Index forecasts) {
  agree(comm, [&] {
    constexpr Index most = 10'000'000;
    if (steps < 1) user_error("--steps {} is too small. Give at least 1", steps);
    if (steps > most) user_error("--steps {} is too large. Give at most {}", steps, most);
    check_memory(forecasts * steps * domain.nodes() * domain.info.features, sizeof(float),
                 fmt::format("a forecast of {} steps", steps));
  });
}

/// A forecast before it is written.
struct Forecast {
  const Domain& domain;
  Index origin = 0, steps = 0;
  std::vector<float> nodes = {};    // (nodes, steps, m) on rank 0
  std::vector<float> members = {};  // (members, nodes, steps, m), if they are written
  std::vector<std::string> member_names = {};
  std::vector<float> quantiles = {};  // (levels, nodes, steps, m), if they are written
  std::vector<double> levels = {};

  void expect_finite() const {
    for (const float value : nodes)
      if (!std::isfinite(value))
        user_error(
            "forecast: the model diverges within {} steps from {}. Forecast fewer steps or train longer",
            steps, domain.info.time.text(origin));
  }

  void write(const std::string& path, const std::string& source) const {
    SeriesLayout layout = forecast_layout(domain, source, origin, steps);
    layout.members = member_names;
    layout.quantiles = levels;
    SeriesWriter writer = SeriesWriter::create(path, layout);
    if (layout.wide)
      writer.append_in_double(on_file_nodes<double>(domain, nodes, steps));
    else
      writer.append(on_file_nodes<float>(domain, nodes, steps));
    if (!member_names.empty()) writer.put_members(all_on_file_nodes(members));
    if (!levels.empty()) writer.put_quantiles(all_on_file_nodes(quantiles));
    writer.finish();
  }

  /// Returns the line to print.
  [[nodiscard]] std::string line(const std::string& path) const {
    return fmt::format("{} steps from {}, written to {}{}\n", steps, domain.info.time.text(origin), path,
                       domain.split.reaches_training(origin, steps)
                           ? " (some of these steps are in the training part, which the model has seen)"
                           : "");
  }

 private:
  [[nodiscard]] std::vector<double> all_on_file_nodes(const std::vector<float>& forecasts) const {
    const std::size_t size = nodes.size();
    std::vector<double> all;
    for (std::size_t first = 0; first < forecasts.size(); first += size) {
      const auto at = forecasts.begin() + static_cast<std::ptrdiff_t>(first);
      const auto one = on_file_nodes<double>(domain, {at, at + static_cast<std::ptrdiff_t>(size)}, steps);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

/// Returns the ends of the intervals as levels, ascending. Throws UserError if an interval is no percentage.
std::vector<double> levels_of(const ForecastOptions& options) {
  std::vector<double> levels;
  for (const double percent : options.intervals) {
    if (!(percent > 0 && percent <= 99))
      user_error("--intervals {} is out of range. Give numbers above 0 and up to 99 percent", percent);
    levels.insert(levels.end(), {(100 - percent) / 200, (100 + percent) / 200});
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

/// Throws UserError if `quantiles` lack steps of the forecast, which `option` needs.
void expect_leads(const ConformalQuantiles& quantiles, Index steps, const std::string& directory,
                  std::string_view option) {
  for (Index h = 1; h <= steps; ++h)
    for (Index f = 0; f < quantiles.features; ++f)
      if (h > quantiles.horizons || std::isnan(quantiles.at(h, f).front()))
        user_error(
            "{}: {} has residuals of only {} steps. Forecast fewer steps with --steps, or run rossby "
            "evaluate {} with a larger evaluate.horizons",
            option, intervals_file_of(directory), std::min(h - 1, quantiles.horizons), directory);
}

/// Adds quantiles of forecasts (rows, steps, m). Collective.
void add_quantiles(const Communicator& comm, const std::string& directory, const Config& config,
                   const std::vector<float>& forecasts, Forecast& forecast) {
  if (forecast.levels.empty()) return;
  const Domain& domain = forecast.domain;
  const ConformalQuantiles quantiles = read_intervals(comm, directory, config, domain);
  const Index steps = forecast.steps, m = domain.info.features;
  agree(comm, [&] { expect_leads(quantiles, steps, directory, "--intervals"); });
  std::vector<float> one(forecasts.size());
  for (const double level : forecast.levels) {
    for (Index k = 0; k < std::ssize(forecasts); ++k)
      one[static_cast<std::size_t>(k)] =
          static_cast<float>(quantiles.quantile(static_cast<double>(forecasts[static_cast<std::size_t>(k)]),
                                                k / m % steps + 1, k / (steps * m), k % m, level));
    const auto gathered = gather_nodes(comm, domain.partition, one, steps * m);
    forecast.quantiles.insert(forecast.quantiles.end(), gathered.begin(), gathered.end());
  }
}

/// Adds the model's own quantiles. Collective.
template <class T>
void add_own_quantiles(const Communicator& comm, ModelRun<T>& run, std::span<const Index> origins,
                       Forecast& forecast) {
  const Index steps = forecast.steps, rows = std::ssize(run.domain().rows), m = run.domain().info.features;
  forecast.levels = run.quantiles();
  std::vector<std::vector<float>> of_levels(forecast.levels.size(),
                                            std::vector<float>(static_cast<std::size_t>(rows * steps * m)));
  in_exchanges(comm, [&] {
    run.forecast_quantiles(origins, steps, [&](Index, Index horizon, Index level, NodeView<const T> x) {
      for (Index i = 0; i < rows; ++i)
        for (Index f = 0; f < m; ++f)
          of_levels[static_cast<std::size_t>(level)]
                   [static_cast<std::size_t>((i * steps + horizon - 1) * m + f)] =
                       static_cast<float>(x.at(i, 0)[f]);
    });
  });
  for (const std::vector<float>& one : of_levels) {
    const auto gathered = gather_nodes(comm, run.domain().partition, one, steps * m);
    forecast.quantiles.insert(forecast.quantiles.end(), gathered.begin(), gathered.end());
  }
}

template <class T>
std::string forecast_run(const Communicator& comm, const std::string& directory, const OpenRun& open,
                         const ForecastOptions& options) {
  const Config& config = open.config;
  agree(comm, [&] {
    for (const auto& [given, name] :
         {std::pair{options.members, "--members"}, {options.dressed > 0, "--dressed"}})
      if (given) user_error("{} works only with averages, but this is a run. Leave this option out", name);
    if (comm.rank() != 0) return;
    (void)open.output(options.output, "");
    if (!options.inputs.empty() && !options.output.empty())
      refuse_to_replace(options.output, {options.inputs});
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", open.remark);
  const auto made = make_run<T>(comm, config, Purpose::forecasting, nullptr, open.record);
  ModelRun<T>& run = *made;
  const DataChanges changes = run.load(open.state, open.other_file, open.accepts);
  if (options.prints && comm.rank() == 0) fmt::print("{}", changes.text);
  if (options.prints && comm.rank() == 0 && !run.device_remark().empty())
    fmt::print("{}\n", run.device_remark());
  const Domain& domain = run.domain();
  const Index steps = options.steps;
  const std::vector<double> levels = agree(comm, [&] { return levels_of(options); }),
                            own = levels.empty() ? run.quantiles() : levels;
  check_steps(comm, domain, steps, 1 + std::ssize(own));
  const Index origin = origin_of(comm, config, domain, options);
  agree(comm, [&] {
    (void)domain.info.time.after(origin, steps);  // throws if the times are unknown
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
  Forecast forecast{domain, origin, steps, gather_nodes(comm, domain.partition, local, steps * m)};
  forecast.levels = levels;
  add_quantiles(comm, directory, config, local, forecast);
  if (levels.empty() && !own.empty()) add_own_quantiles(comm, run, origins, forecast);
  const std::string written = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    forecast.expect_finite();
    const std::string path = open.output(options.output, open.directory->forecast_file());
    forecast.write(path, fmt::format("{}, run {}{}", config.model.name, open.directory->path(),
                                     open.epochs < 0 ? "" : fmt::format(", {} epochs", open.epochs)));
    if (options.prints) fmt::print("{}", forecast.line(path));
    return path;
  });
  return broadcast(comm, written);
}

/// Adds realizations of dressed members. `members`: their forecasts, (members)(rows, steps, m). Collective.
void add_dressed(const Communicator& comm, const std::string& directory, AverageRun& run, Index count,
                 const std::vector<std::vector<float>>& members, Forecast& forecast) {
  const Domain& domain = forecast.domain;
  const ConformalQuantiles quantiles = read_intervals(comm, directory, run.config(), domain);
  const Index steps = forecast.steps, m = domain.info.features;
  agree(comm, [&] {
    if (quantiles.dressing.empty())
      user_error("--dressed: {} was written by an earlier version. Run rossby evaluate {} again",
                 intervals_file_of(directory), directory);
    expect_leads(quantiles, steps, directory, "--dressed");
  });
  std::vector<std::vector<double>> weights(static_cast<std::size_t>(steps));
  for (Index h = 1; h <= steps; ++h)
    for (Index k = 0; k < std::ssize(members); ++k)
      weights[static_cast<std::size_t>(h - 1)].push_back(run.weight(h, k));
  std::vector<float> one(members.front().size());
  for (Index r = 0; r < count; ++r) {
    for (Index k = 0; k < std::ssize(one); ++k) {
      const Index step = k / m % steps;
      const Realization is = realization_of(r, count, weights[static_cast<std::size_t>(step)]);
      const float member = members[static_cast<std::size_t>(is.member)][static_cast<std::size_t>(k)];
      one[static_cast<std::size_t>(k)] = static_cast<float>(
          quantiles.dressed(static_cast<double>(member), step + 1, k / (steps * m), k % m, is.quantile));
    }
    const auto gathered = gather_nodes(comm, domain.partition, one, steps * m);
    forecast.members.insert(forecast.members.end(), gathered.begin(), gathered.end());
    forecast.member_names.push_back(fmt::format("dressed {}", r + 1));
  }
}

std::string forecast_average(const Communicator& comm, const std::string& directory,
                             const ForecastOptions& options) {
  AverageRun run(comm, directory, options.sets, options.device, options.output);
  const Watch watching(comm, run.config().parallel.watchdog_seconds, directory);
  const std::string path = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    if (!options.inputs.empty() && !options.output.empty())
      refuse_to_replace(options.output, {options.inputs});
    return run.output("forecast.nc");
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", run.remarks());
  Members& members = run.members();
  const Domain& domain = run.domain();
  const Index steps = options.steps, m = domain.info.features, owned = std::ssize(domain.rows);
  const std::vector<double> levels = agree(comm, [&] { return levels_of(options); });
  agree(comm, [&] {
    constexpr Index most = 100'000;
    if (options.members && options.dressed > 0)
      user_error("--members and --dressed both write realizations. Give only one of these options");
    if (options.dressed < 0 || options.dressed > most)
      user_error("--dressed {} is out of range. Give a number from 1 to {}", options.dressed, most);
  });
  check_steps(comm, domain, steps,
              (options.members || options.dressed > 0 ? members.size() + 1 : 1) + options.dressed +
                  std::ssize(levels));
  const Index origin = origin_of(comm, run.config(), domain, options);
  agree(comm, [&] {
    (void)domain.info.time.after(origin, steps);  // throws if the times are unknown
    (void)run.usable({origin}, steps);
    if (!options.inputs.empty() && !members.read_ahead())
      user_error("--inputs {}: no member reads data.known_inputs. Leave --inputs out", options.inputs);
  });
  const Members::Ahead ahead{origin, steps, options.inputs};
  const std::vector<Index> origins{origin};
  std::vector<float> sum(static_cast<std::size_t>(owned * steps * m)), one(sum.size());
  std::vector<std::vector<float>> of_members;
  Forecast forecast{domain, origin, steps};
  for (Index k = 0; k < members.size(); ++k) {
    members.forecast(
        k, origins, steps, run.horizons(),
        [&](Index, Index horizon, NodeView<const float> x) {
          for (Index i = 0; i < owned; ++i)
            for (Index f = 0; f < m; ++f)
              one[static_cast<std::size_t>((i * steps + horizon - 1) * m + f)] = x.at(i, 0)[f];
        },
        &ahead);
    for (Index q = 0; q < owned * steps * m; ++q)
      if (const double w = run.weight(q / m % steps + 1, k); w > 0)
        sum[static_cast<std::size_t>(q)] += static_cast<float>(w) * one[static_cast<std::size_t>(q)];
    double lost = static_cast<double>(
        std::count_if(one.begin(), one.end(), [](float value) { return !std::isfinite(value); }));
    run.reducer().sum(std::span<double>(&lost, 1));
    if (lost > 0)
      user_error(
          "forecast: {} of {} values of the member {} are missing or not finite. Forecast fewer steps, or "
          "make an average without this member",
          lost, domain.nodes() * steps * m, members[k].name);
    if (options.dressed > 0) of_members.push_back(one);
    if (!options.members) continue;
    const auto gathered = gather_nodes(comm, domain.partition, one, steps * m);
    forecast.members.insert(forecast.members.end(), gathered.begin(), gathered.end());
    forecast.member_names.push_back(members[k].name);
  }
  const Stage stage(comm, "writing the forecast", patience_with_files);
  forecast.nodes = gather_nodes(comm, domain.partition, sum, steps * m);
  forecast.levels = levels;
  add_quantiles(comm, directory, run.config(), sum, forecast);
  if (options.dressed > 0) add_dressed(comm, directory, run, options.dressed, of_members, forecast);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    forecast.write(path, run.text());
    if (options.prints) fmt::print("{}", forecast.line(path));
  });
  return broadcast(comm, path);
}

}  // namespace

std::string forecast(const Communicator& comm, const std::string& run, const ForecastOptions& options) {
  if (averages(comm, run)) {
    if (options.accept_changed_data)
      user_error(
          "{}: this is an average, but --accept-changed-data works only with runs. Name a member of this "
          "average instead",
          run);
    return as_run(comm, [&](const Communicator& ranks) {
      return or_on_the_cores([&] { return forecast_average(ranks, run, options); });
    });
  }
  return with_run(comm, run, options.sets, options.device, options.accept_changed_data,
                  [&]<class T>(const Communicator& ranks, const OpenRun& open) {
                    return forecast_run<T>(ranks, run, open, options);
                  });
}

}  // namespace rossby
