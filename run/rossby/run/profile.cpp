#include "rossby/run/profile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/run_directory.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/default_settings.hpp"
#include "rossby/run/profile_baselines.hpp"
#include "rossby/run/profile_costs.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_report.hpp"
#include "rossby/run/profile_search.hpp"
#include "rossby/run/profile_units.hpp"
#include "rossby/run/stop_request.hpp"
#include "rossby/run/train.hpp"

namespace rossby {
namespace {

using Status = ProfiledCandidate::Status;

/// Folds are used for a series without --folds whose validation part has fewer origins.
constexpr Index few_origins = 30;
constexpr Index folds_of_short_series = 3;

ProfileBudget budget_of(const std::string& text) {
  if (!text.ends_with('%')) return {0, parse_duration(text, "--budget")};
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() - 1 || !(percent > 0) || percent > 100)
    user_error(
        "--budget {} is neither a share nor a time. Write a share of at most 100 % like 3%, or a time like "
        "10m",
        text);
  return {percent / 100, 0};
}

/// Makes the directory of the profile if it is missing, and takes its lock. On rank 0.
RunDirectory hold(const std::string& directory) {
  if (directory.empty()) user_error("the directory for the profile is missing. Give -o DIR");
  for (const char* other : {"config.toml", "average.json"})
    if (std::filesystem::exists(directory + "/" + other))
      user_error(
          "{}: contains {}, so that it is not the directory of a profile. Choose another directory with -o",
          directory, other);
  return RunDirectory::create(directory);
}

/// One start of a profile.
class Search {
 public:
  Search(const Communicator& comm, const ProfileOptions& options)
      : comm_(comm), options_(options), budget_(agree(comm, [&] { return budget_of(options.budget); })) {}

  Profiled run() {
    question_ = ask(comm_, options_);
    const Domain domain = look_at_data();
    agree(comm_, [&] {
      if (comm_.rank() == 0) directory_.emplace(hold(options_.directory));
    });
    open(domain);
    // No watchdog: ranks that train candidates by themselves take as long as these trainings do.
    watch(comm_, 0);
    ProfileUnits units(comm_, question_, options_.directory, [this](const std::string& line) { say(line); });
    units_ = &units;
    if (state_.ended.empty() && state_.baselines.empty()) {
      say("baselines are scored");
      state_.baselines = profile_baselines(comm_, question_);
      predict(state_);
      write();
    }
    if (state_.ended.empty() && (!tried() && !learn_costs())) return left();
    if (state_.ended.empty() && state_.rungs.empty()) plan();
    while (state_.ended.empty())
      if (!climb()) return left();
    if (options_.prints && comm_.rank() == 0)
      fmt::print("{}done      {}\n", profile_table(state_), state_.ended);
    return result("");
  }

 private:
  [[nodiscard]] int factor(const ProfiledCandidate& candidate) const {
    return candidate.all_ranks ? comm_.size() : 1;
  }
  [[nodiscard]] bool tried() const {
    return std::none_of(state_.candidates.begin(), state_.candidates.end(),
                        [](const auto& one) { return one.status == Status::waiting; });
  }
  void say(const std::string& line) const {
    if (!options_.prints || comm_.rank() != 0) return;
    fmt::print("profile   {}\n", line);
    std::fflush(stdout);
  }

  /// Returns the domain. Throws UserError if there is nothing to compare candidates on.
  Domain look_at_data() {
    Domain domain = make_domain(comm_, question_.base_config(0));
    agree(comm_, [&] {
      const Index horizons = question_.base_config(0).evaluate.horizons;
      const StepRange& part = domain.split.validation;
      const Index origins = std::ssize(domain.split.origins(Role::validation, horizons));
      if (question_.folds == 0 && names_series(options_.config) && origins < few_origins) {
        question_.folds = folds_of_short_series;
        for (ProfiledCandidate& one : question_.candidates)
          one.folds.resize(static_cast<std::size_t>(question_.folds));
        return;
      }
      if (part.empty())
        user_error(
            "{}: there is no validation part to compare candidates on. Set split.validation (steps, a share "
            "or a date), or give --folds 5",
            domain.info.path);
      if (origins == 0)
        user_error(
            "{}: the validation part has {} steps, fewer than window.outputs = {}. Lengthen this part with "
            "split.validation, or give --folds 5",
            domain.info.path, part.size(), horizons);
    });
    agree(comm_, [&] {
      for (ProfiledCandidate& one : question_.candidates)
        one.all_ranks =
            comm_.size() > 1 && (one.all_ranks || for_all_ranks(question_.config_of(one), domain));
    });
    return domain;
  }

  /// Reads what was found before, or makes a new state.
  void open(const Domain& domain) {
    const std::string file = profile_file_of(options_.directory);
    const std::string text =
        broadcast(comm_, agree(comm_, [&]() -> std::string {
                    return comm_.rank() == 0 && std::filesystem::exists(file) ? read_text(file) : "";
                  }));
    const std::string question = question_.text(comm_.size());
    if (!text.empty()) {
      state_ = agree(comm_, [&] { return profile_from_text(text, file); });
      if (state_.rungs.empty()) state_.budget = options_.budget, state_.timed = budget_.share == 0;
      if (state_.question != question || state_.budget != options_.budget)
        user_error(
            "{}: this profile was made with other data, settings, candidates, budget, seed or number of "
            "ranks. Profile into another directory with -o, or remove this directory",
            options_.directory);
      return;
    }
    const Config config = question_.base_config(0);
    state_.question = question;
    state_.data = domain.info.path;
    state_.units = units_of(domain.info);
    state_.horizons = config.evaluate.horizons;
    state_.folds = question_.folds;
    state_.seed = options_.seed;
    state_.ranks = comm_.size();
    state_.decays = config.schedule.name != "constant";
    state_.timed = budget_.share == 0;
    state_.budget = options_.budget;
    state_.candidates = question_.candidates;
    agree(comm_, [&] {
      if (comm_.rank() == 0) write_candidates(options_.directory, question_);
    });
  }

  void write() const {
    agree(comm_, [&] {
      if (comm_.rank() == 0) write_profile(options_.directory, question_, state_);
    });
  }

  /// Records the result of a training; false if a signal ended it.
  bool take(const ProfileUnit& unit, const UnitResult& result) {
    ProfiledCandidate& one = state_.candidates[unit.candidate];
    if (!result.error.empty()) {
      one.status = Status::failed;
      one.reason = result.error;
      return true;
    }
    ProfiledFold& fold = one.folds[static_cast<std::size_t>(unit.fold)];
    // Points at the ends of rungs are kept; those of epochs are read anew.
    std::vector<CurvePoint> curve = result.fold.curve;
    if (result.reached.error > 0) curve.push_back(result.reached);
    for (const CurvePoint& point : fold.curve) curve.push_back(point);
    std::stable_sort(curve.begin(), curve.end(), [](auto& a, auto& b) { return a.steps < b.steps; });
    curve.erase(std::unique(curve.begin(), curve.end(), [](auto& a, auto& b) { return a.steps == b.steps; }),
                curve.end());
    one.wall_seconds += factor(one) * result.wall_seconds;
    if (result.paused) return false;
    one.train_seconds += factor(one) * result.train_seconds;
    fold = result.fold;
    fold.curve = std::move(curve);
    return true;
  }

  /// Trains a few steps of each candidate, to find its cost or why it fails. False if a signal came.
  bool learn_costs() {
    const std::vector<PlannedCost> planned = plan_costs(comm_, question_, state_, options_);
    std::vector<ProfileUnit> units;
    for (std::size_t k = 0; k < state_.candidates.size(); ++k) {
      ProfiledCandidate& one = state_.candidates[k];
      if (one.status != Status::waiting) continue;
      one.reason = planned[k].refused;
      if (one.reason.empty())
        units.push_back({k, 0, trial_steps});
      else
        one.status = Status::failed;
    }
    say(fmt::format("{} candidates are tried for {} steps each", units.size(), trial_steps));
    const std::vector<UnitResult> results = units_->train(units, state_, true);
    bool complete = true;
    for (std::size_t k = 0; k < units.size(); ++k) {
      const std::size_t place = units[k].candidate;
      ProfiledCandidate& one = state_.candidates[place];
      if (!take(units[k], results[k])) {
        complete = false;
      } else if (one.status == Status::waiting) {
        one.status = Status::running;
        set_cost(one, question_.config_of(one), results[k], planned[place], factor(one));
      }
    }
    if (!options_.costs.empty()) take_costs_of(comm_, options_.costs, state_);
    predict(state_);
    write();
    return complete;
  }

  void plan() {
    agree(comm_, [&] { plan_search(state_, budget_); });
    say(fmt::format("complete trainings would take {} of rank time, the budget is {}",
                    seconds_text(state_.complete), seconds_text(state_.allowed)));
    write();
  }

  /// Trains one rung; false if a signal came.
  bool climb() {
    std::vector<ProfileUnit> units;
    double cost = 0;
    for (const Index k : searched(state_)) {
      const auto place = static_cast<std::size_t>(k);
      const ProfiledCandidate& one = state_.candidates[place];
      const Index to = next_target(state_, one);
      for (Index fold = 0; fold < state_.rungs[static_cast<std::size_t>(state_.rung)].folds; ++fold) {
        const ProfiledFold& of = one.folds[static_cast<std::size_t>(fold)];
        if (of.ended || of.steps >= to) continue;
        units.push_back({place, fold, to});
        cost += unit_cost(state_, one, of.steps, to);
      }
    }
    say(fmt::format(
        "rung {} of {}: {} candidates, the most expensive one to {:.2g} % of its training, in about {}; {} "
        "of the budget are left",
        state_.rung + 1, state_.rungs.size(), searched(state_).size(),
        100 * state_.rungs[static_cast<std::size_t>(state_.rung)].share, seconds_text(cost / comm_.size()),
        seconds_text(std::max(state_.allowed - state_.planned, 0.0) / comm_.size())));
    const std::vector<UnitResult> results = units_->train(units, state_, false);
    bool complete = true;
    for (std::size_t k = 0; k < units.size(); ++k) complete = take(units[k], results[k]) && complete;
    measure();
    if (!complete) {
      predict(state_);
      write();
      return false;
    }
    state_.planned += cost;
    ++state_.rung;
    predict(state_);
    expect_any_candidate(state_);
    decide(state_);
    write();
    return true;
  }

  void measure() {
    state_.measured = 0;
    for (const ProfiledCandidate& one : state_.candidates)
      state_.measured += state_.timed ? one.wall_seconds : one.train_seconds;
  }

  Profiled left() {
    const std::string why =
        broadcast(comm_, StopSignals::received() != 0 ? signal_name(StopSignals::received()) + " was received"
                                                      : "a rank was asked to stop");
    if (options_.prints && comm_.rank() == 0)
      fmt::print("{}", state_.choice < 0 ? "" : profile_table(state_));
    return result(why);
  }

  [[nodiscard]] Profiled result(const std::string& paused) const {
    Profiled profiled;
    if (state_.choice >= 0) profiled.choice = state_.candidates[static_cast<std::size_t>(state_.choice)].name;
    if (state_.baseline >= 0)
      profiled.better_baseline = state_.baselines[static_cast<std::size_t>(state_.baseline)].name;
    profiled.paused = paused;
    return profiled;
  }

  const Communicator& comm_;
  const ProfileOptions& options_;
  ProfileBudget budget_;
  StopSignals signals_;
  ProfileQuestion question_;
  std::optional<RunDirectory> directory_;  // rank 0
  ProfileState state_;
  ProfileUnits* units_ = nullptr;
};

}  // namespace

Profiled profile(const Communicator& comm, const ProfileOptions& options) {
  return Search(comm, options).run();
}

}  // namespace rossby
