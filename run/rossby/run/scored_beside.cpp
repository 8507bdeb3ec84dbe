#include "rossby/run/scored_beside.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/run/run_baselines.hpp"

namespace rossby {
namespace {

/// Returns the key of a file in evaluation.json: lower_snake_case.
std::string name_of_file(const std::string& path) {
  std::string name = "file_" + lower_case(std::filesystem::path(path).stem().string());
  for (char& c : name)
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) c = '_';
  return name;
}

/// Returns the number of observed values without a forecast.
double count_missing(NodeView<const float> x, const Series& series, std::span<const Index> origins,
                     Index horizon) {
  double count = 0;
  for (Index i = 0; i < x.rows; ++i)
    for (Index b = 0; b < x.cols; ++b)
      for (Index f = 0; f < x.channels; ++f)
        count += std::isnan(x.at(i, b)[f]) &&
                 !std::isnan(series.at(origins[static_cast<std::size_t>(b)] + horizon, i, f));
  return count;
}

/// Returns a line on the leads that have no figure; empty if every observed value has a forecast. Collective.
std::string missing_text(const ForecastFile& file, std::vector<double> missing, Reducer& reducer) {
  reducer.sum(std::span<double>(missing));
  std::vector<std::size_t> leads;
  double all = 0;
  for (std::size_t h = 0; h < missing.size(); ++h) {
    if (missing[h] > 0) leads.push_back(h + 1);
    all += missing[h];
  }
  if (leads.empty()) return "";
  return fmt::format(
      "remark    {}: {:.0f} observed value{} no forecast, so that {} of {} leads {} no figure (\"-\"), the "
      "first one lead {}\n",
      file.path(), all, all == 1 ? " has" : "s have", leads.size(), missing.size(),
      leads.size() == 1 ? "has" : "have", leads.front());
}

}  // namespace

ScoredBeside::ScoredBeside(const Config& config, const KspSolver& solver, const Domain& domain, int threads,
                           Index horizons, std::span<const std::string> paths) {
  // A rollout has no regression for each horizon.
  const Index regressions = config.evaluate.kind == "rollout" ? 0 : horizons;
  if (config.evaluate.baselines)
    baselines = run_baselines(config, domain, regressions, threads, solver, domain.info.time);
  for (const std::string& path : paths) {
    this->files.push_back(ForecastFile::open(path, domain.info));
    this->files.back().expect_nodes(domain.file_node);
    const std::vector<std::string> all = this->names();
    if (std::count(all.begin(), all.end(), all.back()) > 1)
      user_error("{}: two files of forecasts would be called {} in the tables. Rename one of these files",
                 path, all.back());
  }
}

std::vector<std::string> ScoredBeside::names() const {
  std::vector<std::string> names;
  for (const auto& baseline : baselines) names.emplace_back(baseline->name());
  for (const ForecastFile& file : files) names.push_back(name_of_file(file.path()));
  return names;
}

void ScoredBeside::forecast(const Communicator& comm, const Domain& domain, Reducer& reducer, Index k,
                            const Series& series, std::span<const Index> origins, Index horizons,
                            const ForecastVisit& visit) const {
  const auto place = static_cast<std::size_t>(k);
  if (place >= baselines.size())
    return forecast_from_file(comm, files[place - baselines.size()], domain, origins, horizons, visit);
  baselines[place]->forecast(series, origins, horizons, reducer,
                             [&](Index horizon, NodeView<const float> x) { visit(0, horizon, x); });
}

std::string ScoredBeside::add_errors(const Communicator& comm, const Domain& domain, Reducer& reducer,
                                     const TestForecasts& test, const Series& series,
                                     const std::optional<Split>& chosen_by, HorizonErrors& errors,
                                     HorizonErrors& earlier) const {
  const Split& deciding = chosen_by ? *chosen_by : domain.split;
  const std::vector<Index> validation = deciding.origins(Role::validation, test.horizons);
  const std::span<const Index> origins(test.origins);
  std::string remarks;
  for (Index k = 0; k < size(); ++k) {
    const Index number = k + 1;
    if (k < std::ssize(baselines)) {
      Baseline& baseline = *baselines[static_cast<std::size_t>(k)];
      if (chosen_by || &baseline != fitted) baseline.fit(series, deciding, reducer);
      if (!validation.empty())
        baseline.forecast(series, validation, test.horizons, reducer,
                          [&](Index horizon, NodeView<const float> x) {
                            earlier.add<float>(number, horizon, x, series, validation);
                          });
      if (chosen_by) baseline.fit(series, domain.split, reducer);
    }
    const bool of_file = k >= std::ssize(baselines);
    std::vector<double> missing(of_file ? static_cast<std::size_t>(test.horizons) : 0, 0.0);
    forecast(comm, domain, reducer, k, series, origins, test.horizons,
             [&](Index first, Index horizon, NodeView<const float> x) {
               const auto of =
                   origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(x.cols));
               errors.add<float>(number, horizon, x, series, of);
               if (of_file)
                 missing[static_cast<std::size_t>(horizon - 1)] += count_missing(x, series, of, horizon);
             });
    if (of_file)
      remarks +=
          missing_text(files[static_cast<std::size_t>(k) - baselines.size()], std::move(missing), reducer);
  }
  return remarks;
}

void ScoredBeside::visit_again(const Communicator& comm, const Domain& domain, Reducer& reducer,
                               const TestForecasts& test, const Series& series, Index k,
                               const std::function<void(const ScoredValues&)>& visit) const {
  constexpr Index values_at_once = Index{1} << 22;
  Index rows = 1;
  for (int part = 0; part < domain.partition.parts(); ++part)
    rows = std::max(rows, domain.partition.size(part));
  const Index at_once = std::max<Index>(1, values_at_once / (rows * series.features * test.horizons));
  HorizonErrors errors({"baseline"}, test.horizons);
  errors.watch(visit);
  for (Index first = 0; first < std::ssize(test.origins); first += at_once) {
    const Index some = std::min(at_once, std::ssize(test.origins) - first);
    const auto origins =
        std::span(test.origins).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(some));
    forecast(comm, domain, reducer, k, series, origins, test.horizons,
             [&](Index begin, Index horizon, NodeView<const float> x) {
               errors.add<float>(
                   0, horizon, x, series,
                   origins.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(x.cols)));
             });
  }
}

Series ScoredBeside::climatology(const Domain& domain, Reducer& reducer, const TestForecasts& test,
                                 const Series& series) {
  const auto& all = baselines;
  const auto cycle =
      std::find_if(all.begin(), all.end(), [](const auto& baseline) { return baseline->name() == "cycle"; });
  const std::unique_ptr<Baseline> own = cycle == all.end() ? make_climatology() : nullptr;
  Baseline& baseline = own ? *own : **cycle;
  baseline.fit(series, domain.split, reducer);
  climatology_name = baseline.name();
  fitted = own ? nullptr : &baseline;
  const Index first = test.origins.front() + 1, last = test.origins.back() + test.horizons;
  Series values(last + 1 - first, series.rows, series.features);
  values.first = first;
  constexpr Index at_once = 64;
  std::vector<Index> origins;
  for (Index step = first; step <= last; step += at_once) {
    origins.clear();
    for (Index s = step; s <= std::min(last, step + at_once - 1); ++s) origins.push_back(s - 1);
    baseline.forecast(series, origins, 1, reducer, [&](Index, NodeView<const float> x) {
      for (Index b = 0; b < x.cols; ++b)
        for (Index i = 0; i < x.rows; ++i)
          for (Index f = 0; f < x.channels; ++f) values.at(step + b, i, f) = x.at(i, b)[f];
    });
  }
  return values;
}

Index asked_baseline(const std::vector<std::string>& names, const std::string& asked) {
  if (asked.empty()) return -1;
  const auto at = std::find(names.begin() + 1, names.end(), asked);
  if (at == names.end())
    user_error("--against {}: {}", asked,
               names.size() == 1
                   ? std::string("nothing else is scored. Set evaluate.baselines = true, or give --baseline")
                   : fmt::format("this is not a scored forecaster. Choose from {}",
                                 fmt::join(names.begin() + 1, names.end(), ", ")));
  return at - names.begin();
}

}  // namespace rossby
