#include "rossby/run/compare.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/average_run.hpp"
#include "rossby/run/members.hpp"

namespace rossby {
namespace {

/// The forecasters to compare: averages, and the others, opened as members of an average.
struct Compared {
  struct One {
    std::string name;
    Index member = -1;   // index into members; −1: an average
    Index average = -1;  // index into averages
  };
  std::vector<One> all;
  std::unique_ptr<Members> members;
  std::vector<std::unique_ptr<AverageRun>> averages;
};

Compared open_compared(const Communicator& comm, const CompareOptions& options) {
  Compared open;
  agree(comm, [&] {
    if (options.forecasters.size() < 2)
      user_error(
          "report compare needs at least two forecasters. Name directories of runs or averages, baselines, "
          "or files of forecasts");
    for (auto word = options.forecasters.begin(); word != options.forecasters.end(); ++word)
      if (std::find(options.forecasters.begin(), word, *word) != word)
        user_error("report compare: {} is named twice. Name each forecaster once", *word);
  });
  std::vector<AverageMember> members;
  std::vector<std::string> averaged;
  for (const std::string& word : options.forecasters) {
    if (averages(comm, word)) {
      open.all.push_back({word, -1, std::ssize(averaged)});
      averaged.push_back(word);
      continue;
    }
    open.all.push_back({word, std::ssize(members), -1});
    members.push_back(agree(comm, [&] { return member_named(word); }));
  }
  agree(comm, [&] {
    if (std::none_of(members.begin(), members.end(),
                     [](const AverageMember& m) { return m.kind == AverageMember::Kind::run; }))
      user_error(
          "report compare: none of the forecasters is a run, but the data come from a run. Add the "
          "directory of a run");
  });
  for (const std::string& directory : averaged) {
    open.averages.push_back(std::make_unique<AverageRun>(comm, directory, options.sets, options.device, ""));
    open.averages.back()->members().expect_same_data();
    open.averages.back()->members().unlock();
  }
  open.members =
      std::make_unique<Members>(comm, std::move(members), options.sets, options.device, Members::Parts::any);
  open.members->expect_same_data();
  for (std::size_t k = 0; k < averaged.size(); ++k)
    open.members->expect_same_data(averaged[k], open.averages[k]->config(), open.averages[k]->domain());
  return open;
}

/// Returns the number of steps that all can forecast.
Index common_horizons(const Compared& open) {
  Index horizons = open.members->horizons();
  for (const auto& average : open.averages) horizons = std::min(horizons, average->horizons());
  return horizons;
}

std::vector<Index> common_origins(Compared& open, Index horizons, std::string& remarks) {
  std::vector<Index> origins = open.members->test_origins(horizons);
  const auto both = [&origins](const std::vector<Index>& theirs) {
    std::erase_if(origins,
                  [&](Index origin) { return !std::binary_search(theirs.begin(), theirs.end(), origin); });
  };
  for (const auto& average : open.averages) {
    both(average->members().test_origins(horizons));
    if (origins.empty())
      user_error(
          "report compare: the test parts of {} and of the other forecasters have no forecast origin in "
          "common. Give all forecasters the same test part with --set split.test=PART (steps, a share, a "
          "date or \"rest\")",
          average->text());
    origins = average->usable(std::move(origins), horizons);
    remarks += average->remark();
  }
  return open.members->usable(std::move(origins), horizons, remarks);
}

std::string percent(double x) {
  return std::isfinite(x) ? fmt::format("{:+.1f}", 100 * x) : "-";
}

std::string outcome(const PairedSkill& skill) {
  if (!std::isfinite(skill.low)) return fmt::format("{} %", percent(skill.skill));
  return fmt::format("{} % ({} to {}) {}", percent(skill.skill), percent(skill.low), percent(skill.high),
                     skill.tie()     ? "tie"
                     : skill.low > 0 ? "better"
                                     : "worse");
}

/// Aligns cells in columns, the first column to the left.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      text += c == 0 ? fmt::format("{:<{}}", row[c], widths[c])
                     : fmt::format("  {:>{}}{}", row[c], widths[c], c + 1 == row.size() ? "\n" : "");
  return text;
}

}  // namespace

Comparison compare(const Communicator& comm, const CompareOptions& options) {
  return as_run(comm, [&](const Communicator& ranks) {
    Compared open = open_compared(ranks, options);
    Members& members = *open.members;
    const Watch watching(ranks, members.config().parallel.watchdog_seconds, "");
    Comparison found;
    const Index horizons = agree(ranks, [&] { return common_horizons(open); });
    const std::vector<Index> origins =
        agree(ranks, [&] { return common_origins(open, horizons, found.remarks); });
    found.remarks = members.remarks() + found.remarks;
    const Series truth = read_series(ranks, members.config(), members.domain());
    const auto size = static_cast<Index>(open.all.size());
    for (const Compared::One& one : open.all) found.names.push_back(one.name);
    HorizonErrors errors(found.names, horizons, {}, members.exec().threads);
    errors.keep_origins(origins);
    std::vector<OriginErrors> by_origin(open.all.size());
    for (Index k = 0; k < size; ++k) {
      const Compared::One& one = open.all[static_cast<std::size_t>(k)];
      if (one.member >= 0) {
        members.forecast(one.member, origins, horizons, horizons,
                         [&](Index first, Index h, NodeView<const float> x) {
                           errors.add<float>(k, h, x, truth,
                                             std::span(origins).subspan(static_cast<std::size_t>(first),
                                                                        static_cast<std::size_t>(x.cols)));
                         });
        continue;
      }
      AverageRun& average = *open.averages[static_cast<std::size_t>(one.average)];
      average.add_errors(errors, origins, horizons, k);
    }
    found.scores = errors.reduce(members.reducer());
    for (Index k = 0; k < size; ++k)
      by_origin[static_cast<std::size_t>(k)] = errors.reduce_origins(k, members.reducer());
    for (Index k = 0; k < size; ++k) {
      std::vector<PairedSkill> skill;
      const OriginErrors& theirs = by_origin[static_cast<std::size_t>(k)];
      if (k > 0) skill.push_back(paired_skill(theirs, by_origin.front()));
      for (Index h = 1; k > 0 && h <= horizons; ++h)
        skill.push_back(paired_skill_at(h, theirs, by_origin.front()));
      found.skill.push_back(std::move(skill));
    }
    const TimeAxis& time = members.domain().info.time;
    found.units = units_of(members.domain().info);
    found.first_origin = time.text(origins.front());
    found.last_origin = time.text(origins.back());
    found.origins = std::ssize(origins);
    found.leads = horizon_leads(time, origins, horizons);
    return found;
  });
}

std::string Comparison::text() const {
  std::string text =
      fmt::format("{}{} common origins from {} to {}\n", remarks, origins, first_origin, last_origin);
  const auto lead = [&](Index h) {
    const std::string& known = leads[static_cast<std::size_t>(h - 1)].text;
    return known.empty() ? std::to_string(h) : known;
  };
  for (const bool of_rmse : {true, false}) {
    std::vector<std::vector<std::string>> rows{{of_rmse ? "RMSE" : "MAE"}};
    rows.front().front() += fmt::format(" ({})", units);
    rows.front().insert(rows.front().end(), names.begin(), names.end());
    for (Index h = 1; h <= scores.horizons + 1; ++h) {
      const bool mean = h > scores.horizons;
      std::vector<std::string> row{mean ? "mean" : lead(h)};
      for (Index k = 0; k < std::ssize(names); ++k) {
        const auto at = static_cast<std::size_t>(k * scores.horizons + h - 1);
        row.push_back(error_text(mean ? (of_rmse ? scores.mean_rmse(k) : scores.mean_mae(k))
                                      : (of_rmse ? scores.rmse : scores.mae)[at],
                                 largest_error(scores)));
      }
      rows.push_back(std::move(row));
    }
    text += "\n" + aligned(rows);
  }
  std::vector<std::vector<std::string>> rows{{"skill"}};
  rows.front().insert(rows.front().end(), names.begin() + 1, names.end());
  for (Index h = 1; h <= scores.horizons + 1; ++h) {
    std::vector<std::string> row{h > scores.horizons ? "mean" : lead(h)};
    for (std::size_t k = 1; k < names.size(); ++k)
      row.push_back(outcome(skill[k][h > scores.horizons ? 0 : static_cast<std::size_t>(h)]));
    rows.push_back(std::move(row));
  }
  return text + "\n" + aligned(rows) +
         fmt::format(
             "skill: 1 - RMSE / RMSE of {}, with its 95 % interval by a block bootstrap of the origins\n",
             names.front());
}

nlohmann::ordered_json Comparison::json() const {
  using Json = nlohmann::ordered_json;
  const auto figure = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  const auto skill_of = [&](std::size_t forecaster, std::size_t at) {
    const PairedSkill& s = skill[forecaster][at];
    return Json{{"rmse", figure(s.skill)},
                {"interval", {{"low", figure(s.low)}, {"high", figure(s.high)}}},
                {"block", s.block}};
  };
  Json all{{"format", 1},
           {"against", names.front()},
           {"origins", origins},
           {"first_origin", first_origin},
           {"last_origin", last_origin},
           {"units", units}};
  for (std::size_t k = 0; k < names.size(); ++k) {
    const auto forecaster = static_cast<Index>(k);
    Json of_one{{"name", names[k]}};
    for (Index h = 1; h <= scores.horizons; ++h) {
      const auto at = static_cast<std::size_t>(forecaster * scores.horizons + h - 1);
      Json of_lead{{"step", h}};
      const Lead& lead = leads[static_cast<std::size_t>(h - 1)];
      if (!lead.text.empty()) of_lead["lead"] = lead.text;
      if (lead.seconds) of_lead["lead_seconds"] = *lead.seconds;
      of_lead["rmse"] = figure(scores.rmse[at]);
      of_lead["mae"] = figure(scores.mae[at]);
      if (k > 0) of_lead["skill"] = skill_of(k, static_cast<std::size_t>(h));
      of_one["horizons"].push_back(std::move(of_lead));
    }
    of_one["mean"] = {{"rmse", figure(scores.mean_rmse(forecaster))},
                      {"mae", figure(scores.mean_mae(forecaster))}};
    if (k > 0) of_one["mean"]["skill"] = skill_of(k, 0);
    all["forecasters"].push_back(std::move(of_one));
  }
  return all;
}

}  // namespace rossby
