#include "rossby/run/members.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/io/files.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/row_move.hpp"
#include "rossby/run/run_baselines.hpp"

namespace rossby {
namespace {

using Kind = AverageMember::Kind;

/// Returns the steps of the part as text for messages.
std::string part_text(const Domain& domain, const StepRange& part) {
  if (part.empty()) return "none";
  return fmt::format("{} to {}", domain.info.time.text(part.first), domain.info.time.text(part.last - 1));
}

}  // namespace

std::vector<Index> origins_of_files(std::span<const ForecastFile* const> files, const TimeAxis& time,
                                    std::vector<Index> origins, Index horizons, std::string& remark) {
  const std::size_t all = origins.size();
  for (const ForecastFile* file : files) {
    if (file->horizons() < horizons)
      user_error(
          "{}: this file has forecasts of {} steps ahead, but {} are needed. Lower evaluate.horizons or "
          "--steps to {}",
          file->path(), file->horizons(), horizons, file->horizons());
    std::vector<Index> left;
    std::copy_if(origins.begin(), origins.end(), std::back_inserter(left),
                 [&](Index origin) { return file->has(origin); });
    if (left.empty() && !origins.empty())
      user_error(
          "{}: this file has no forecast from {}; its init_time is {}. Add the missing forecasts to "
          "this file, or leave it out",
          file->path(),
          origins.size() == 1 ? time.text(origins.front())
                              : fmt::format("any of the {} origins from {} to {}", origins.size(),
                                            time.text(origins.front()), time.text(origins.back())),
          file->inits());
    origins = std::move(left);
  }
  if (origins.size() < all)
    remark += fmt::format("{} of {} origins are in all files of forecasts; only these origins are used\n",
                          origins.size(), all);
  return origins;
}

void forecast_from_file(const Communicator& comm, const ForecastFile& file, const Domain& domain,
                        std::span<const Index> origins, Index horizons, const ForecastVisit& visit) {
  constexpr Index held = Index{1} << 22;  // forecasts at once
  const Index m = domain.info.features, rows = std::ssize(domain.rows), count = std::ssize(origins);
  std::vector<Index> nodes;
  for (const GlobalRow row : domain.rows)
    nodes.push_back(domain.file_node[static_cast<std::size_t>(row.value)]);
  const std::vector<double> centers = centers_of_rows(domain);
  Index most = 1;
  for (int part = 0; part < domain.partition.parts(); ++part)
    most = std::max(most, domain.partition.size(part));
  const Index at_once = std::clamp<Index>(held / (most * m * horizons), 1, std::max<Index>(count, 1));
  std::vector<float> values(static_cast<std::size_t>(horizons * at_once * rows * m));
  for (Index first = 0; first < count; first += at_once) {
    const Index some = std::min(at_once, count - first);
    agree(comm, [&] {
      file.read(nodes, origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(some)),
                horizons, centers, values.data());
    });
    for (Index h = 1; h <= horizons; ++h)
      visit(first, h, {values.data() + (h - 1) * some * rows * m, rows, some, m, m, rows * m});
  }
}

Members::Members(const Communicator& comm, std::vector<AverageMember> members,
                 std::span<const std::string> sets, const std::string& device, Parts parts)
    : comm_(comm), members_(std::move(members)), parts_(parts), reducer_(comm) {
  for (Index k = 0; k < size(); ++k) {
    if ((*this)[k].kind != Kind::run) continue;
    runs_.emplace(k, open_run(comm, (*this)[k].name, sets, device));
    if (first_run_ < 0) first_run_ = k;
  }
  agree(comm, [&] {
    if (first_run_ < 0)
      user_error("none of the members is a run, but data and split come from a run. Add a run directory");
  });
  domain_ = make_domain(comm, config());
  if (std::any_of(runs_.begin(), runs_.end(), [](const auto& run) { return run.second.config.windows(); }))
    domain_.split.breaks = time_breaks(domain_.info.time);
  exec_.threads = threads_per_rank(comm, config());
  agree(comm, [&] {
    for (Index k = 0; k < size(); ++k)
      if ((*this)[k].kind == Kind::file) {
        files_.emplace(k, ForecastFile::open((*this)[k].name, domain_.info));
        files_.at(k).expect_nodes(domain_.file_node);
      }
  });
}

std::vector<AverageMember> Members::before_refit() const {
  std::vector<AverageMember> members = members_;
  for (const auto& [member, run] : runs_) {
    std::string chosen = chosen_run_of((*this)[member].name);
    std::error_code code;
    if (run.config.split.validation == "0" && std::filesystem::exists(state_file_of(chosen), code))
      members[static_cast<std::size_t>(member)].name = std::move(chosen);
  }
  return members;
}

std::string Members::remarks() const {
  std::string remarks;
  for (const auto& [member, run] : runs_)
    if (!run.remark.empty()) remarks += fmt::format("{}: {}", (*this)[member].name, run.remark);
  for (const auto& [member, file] : files_) remarks += file.remark();
  return remarks;
}

bool Members::read_ahead() const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [](const auto& run) { return !run.second.config.data.known_inputs.empty(); });
}

void Members::hash() {
  for (AverageMember& member : members_) member.hash = hash_of(member);
}

void Members::expect_same_data() {
  for (const auto& [member, run] : runs_) {
    if (member == first_run_) {
      splits_[member] = domain_.split;
      continue;
    }
    const Domain other = make_domain(comm_, run.config);
    expect_same_data((*this)[member].name, run.config, other);
    splits_[member] = other.split;
  }
}

std::vector<Index> Members::test_origins(Index horizons) const {
  const EvaluateSettings& asked = config().evaluate;
  std::vector<Index> origins = domain_.split.test_origins(horizons, asked.first_origin, asked.last_origin);
  for (const auto& [member, split] : splits_) {
    const std::vector<Index> theirs = split.test_origins(horizons, asked.first_origin, asked.last_origin);
    std::vector<Index> both;
    std::set_intersection(origins.begin(), origins.end(), theirs.begin(), theirs.end(),
                          std::back_inserter(both));
    if (both.empty() && !origins.empty())
      user_error(
          "{}: its test part, {}, has no forecast origin in common with the test parts of the other "
          "forecasters. Give all forecasters the same test part with --set split.test=PART (steps, a share, "
          "a date or \"rest\")",
          (*this)[member].name, part_text(domain_, split.test));
    origins = std::move(both);
  }
  return origins;
}

void Members::expect_same_data(const std::string& name, const Config& theirs, const Domain& other) const {
  const std::string& first = (*this)[first_run_].name;
  const SeriesInfo &a = domain_.info, &b = other.info;
  const auto refuse = [&](const std::string& what) {
    if (parts_ == Parts::any)
      user_error(
          "{}: {}. Forecasters are compared only on the same nodes of the same data. Leave this forecaster "
          "out",
          name, what);
    user_error(
        "{}: {}. All members of an average must forecast the same nodes of the same data, with the same "
        "split. Train this member again, or leave it out",
        name, what);
  };
  agree(comm_, [&] {
    if (!same_files(theirs.data.file, config().data.file))
      refuse(fmt::format("its data are {}, and those of {} are {}", b.path, first, a.path));
    const auto variables = [](const SeriesInfo& info) {
      std::string text;
      for (const SeriesVariable& v : info.variables)
        text += fmt::format("{}{} [{}, {}]", text.empty() ? "" : ", ", v.name, v.units, v.features);
      return text;
    };
    if (variables(a) != variables(b))
      refuse(fmt::format("it forecasts {}, and {} forecasts {}", variables(b), first, variables(a)));
    if (a.time.values() != b.time.values())
      refuse(fmt::format("it reads {} steps from {}, and {} reads {} from {}", b.steps, b.time.text(0), first,
                         a.steps, a.time.text(0)));
    if (domain_.file_node != other.file_node)
      refuse(fmt::format("it forecasts {} nodes, and {} forecasts {}{}", other.nodes(), first,
                         domain_.nodes(), domain_.nodes() == other.nodes() ? " others" : ""));
    if (theirs.data.null_value != config().data.null_value)
      refuse(fmt::format("its data.null_value is \"{}\", and that of {} is \"{}\"", theirs.data.null_value,
                         first, config().data.null_value));
    if (parts_ == Parts::any) return;
    const Split &x = domain_.split, &y = other.split;
    if (x.role != y.role)
      refuse(fmt::format(
          "its parts are training {}, validation {}, test {}, and those of {} training {}, "
          "validation {}, test {}",
          part_text(other, y.train), part_text(other, y.validation), part_text(other, y.test), first,
          part_text(domain_, x.train), part_text(domain_, x.validation), part_text(domain_, x.test)));
  });
}

Index Members::horizons() const {
  Index most = 0;
  for (const auto& [member, run] : runs_)
    if (run.config.windows()) most = std::max(most, run.config.window.outputs);
  const Index asked = config().evaluate.horizons, horizons = most > 0 ? std::min(asked, most) : asked;
  for (const auto& [member, run] : runs_)
    if (run.config.windows() && run.config.window.outputs < horizons)
      user_error(
          "{}: this run forecasts {} steps (window.outputs), but the average needs {}. Average fewer steps "
          "with --set evaluate.horizons={}",
          (*this)[member].name, run.config.window.outputs, horizons, run.config.window.outputs);
  for (const auto& [member, file] : files_)
    if (file.horizons() < horizons)
      user_error(
          "{}: this file has forecasts of {} steps ahead, but the average needs {}. Average fewer steps with "
          "--set evaluate.horizons={}",
          file.path(), file.horizons(), horizons, file.horizons());
  const KspSolver solver(comm_);
  const auto baselines = run_baselines(config(), domain_, horizons, 1, solver, domain_.info.time);
  for (const AverageMember& member : members_) {
    if (member.kind != Kind::baseline) continue;
    std::vector<std::string_view> names;
    for (const auto& baseline : baselines) names.push_back(baseline->name());
    if (std::find(names.begin(), names.end(), member.name) == names.end())
      user_error("{}: this baseline does not exist for these data and {} horizons. Choose from {}",
                 member.name, horizons, fmt::join(names, ", "));
  }
  return horizons;
}

std::vector<Index> Members::usable(std::vector<Index> origins, Index horizons, std::string& remark) const {
  for (const auto& [member, run] : runs_) {
    if (!run.config.windows()) continue;
    const WindowShape shape{run.config.window.inputs, run.config.window.outputs};
    auto left = window_origins(origins, shape, horizons, time_breaks(domain_.info.time));
    if (left.empty() && !origins.empty())
      user_error(
          "{}: no forecast origin has window.inputs = {} known steps before it and the {} forecast steps "
          "after it without a gap of the time axis. Choose other origins (evaluate.first_origin, "
          "evaluate.last_origin or split.test; in rossby forecast: --origin, or fewer --steps)",
          (*this)[member].name, shape.inputs, horizons);
    origins = std::move(left);
  }
  std::vector<const ForecastFile*> files;
  for (const auto& [member, file] : files_) files.push_back(&file);
  return origins_of_files(files, domain_.info.time, std::move(origins), horizons, remark);
}

void Members::forecast(Index member, std::span<const Index> origins, Index horizons, Index fitted,
                       const ForecastVisit& visit, const Ahead* ahead) {
  const AverageMember& one = (*this)[member];
  if (one.kind == Kind::file)
    return forecast_from_file(comm_, files_.at(member), domain_, origins, horizons, visit);
  if (one.kind == Kind::baseline) return forecast_baseline(one.name, origins, horizons, fitted, visit);
  if (run(member).config.model.precision == "double")
    forecast_run<double>(member, origins, horizons, visit, ahead);
  else
    forecast_run<float>(member, origins, horizons, visit, ahead);
  release_unused_memory();
}

template <class T>
void Members::forecast_run(Index member, std::span<const Index> origins, Index horizons,
                           const ForecastVisit& visit, const Ahead* ahead) {
  const OpenRun& open = run(member);
  const auto made = make_run<T>(comm_, open.config, Purpose::forecasting);
  made->load(open.state, open.other_file);
  expect_same_data((*this)[member].name, open.config, made->domain());
  if (ahead)
    made->know_ahead(ahead->origin, ahead->steps,
                     open.config.data.known_inputs.empty() ? std::string() : ahead->inputs);
  RowMove move(comm_, made->domain().partition, domain_.partition);
  in_exchanges(comm_, [&] {
    made->forecast(origins, horizons,
                   [&](Index first, Index horizon, NodeView<const T> x) { visit(first, horizon, move(x)); });
  });
}

void Members::forecast_baseline(const std::string& name, std::span<const Index> origins, Index horizons,
                                Index fitted, const ForecastVisit& visit) {
  Series series = read_series(comm_, config(), domain_);
  TimeAxis axis = domain_.info.time;
  Split split = domain_.split;
  agree(comm_, [&] {
    const Index last = origins.empty() ? 0 : *std::max_element(origins.begin(), origins.end()) + horizons;
    if (last >= axis.size()) continue_by(last + 1 - axis.size(), axis, split, series);
  });
  const KspSolver solver(comm_);
  const auto baselines = run_baselines(config(), domain_, fitted, exec_.threads, solver, axis);
  const auto found = std::find_if(baselines.begin(), baselines.end(),
                                  [&](const auto& baseline) { return baseline->name() == name; });
  require(found != baselines.end(), "a baseline that was looked for before");
  (*found)->fit(series, split, reducer_);
  (*found)->forecast(series, origins, horizons, reducer_,
                     [&](Index horizon, NodeView<const float> x) { visit(0, horizon, x); });
}

void Members::expect_output(const std::string& asked) const {
  for (const auto& [member, run] : runs_) (void)run.output(asked, "");
  std::vector<std::string> inputs;
  for (const auto& [member, file] : files_) inputs.push_back(file.path());
  refuse_to_replace(asked, inputs);
}

}  // namespace rossby
