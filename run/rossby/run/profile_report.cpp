#include "rossby/run/profile_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/io/files.hpp"
#include "rossby/run/console.hpp"

namespace rossby {
namespace {

/// A line of the table.
struct Row {
  std::string name;
  Chances chances;
  std::string steps, seconds, note;
};

std::vector<Row> rows_of(const ProfileState& state) {
  std::vector<Row> rows;
  for (const ProfiledCandidate& one : state.candidates) {
    if (one.status == ProfiledCandidate::Status::failed) continue;
    const std::string note = one.ended() ? "trained to its end" : one.reason;
    rows.push_back({one.name, one.chances, fmt::format("{}/{}", one.steps(), one.cost.steps),
                    fmt::format("{:.3g}", one.train_seconds), note});
  }
  for (const ProfiledBaseline& one : state.baselines)
    if (one.chances.predicted > 0) rows.push_back({one.name, one.chances, "-", "-", "baseline"});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const bool known_a = a.chances.predicted > 0, known_b = b.chances.predicted > 0;
    if (known_a != known_b) return known_a;
    return a.chances.regret < b.chances.regret;
  });
  return rows;
}

std::string error_text(double error) {
  return fmt::format("{:.4g}", error);
}

std::string interval_text(const Chances& chances) {
  return chances.low == chances.high
             ? "known"
             : fmt::format("{}..{}", error_text(chances.low), error_text(chances.high));
}

std::string choice_lines(const ProfileState& state) {
  std::string text;
  if (state.choice >= 0) {
    const ProfiledCandidate& best = state.candidates[static_cast<std::size_t>(state.choice)];
    text += fmt::format("choice    {}: expected regret {:.2g} % among candidates\n", best.name,
                        100 * state.regret);
  }
  if (state.baseline >= 0)
    text += fmt::format("choice    the baseline {} is predicted to be better than every candidate\n",
                        state.baselines[static_cast<std::size_t>(state.baseline)].name);
  return text;
}

std::string cost_line(const ProfileState& state) {
  double wall = 0;
  for (const ProfiledCandidate& one : state.candidates) wall += one.wall_seconds;
  const auto share = [&](double seconds) {
    return state.complete > 0 ? fmt::format("{:.2g} %", 100 * seconds / state.complete) : std::string("-");
  };
  return fmt::format(
      "cost      budget {}: allowed {} of the complete trainings, planned {}, measured {}; rank time with "
      "all starts: {}\n",
      state.budget, share(state.allowed), share(state.planned), share(state.measured), seconds_text(wall));
}

std::string failures(const ProfileState& state) {
  std::string text;
  for (const ProfiledCandidate& one : state.candidates)
    if (one.status == ProfiledCandidate::Status::failed)
      text += fmt::format("failed    {}: {}\n", one.name, one.reason);
  return text;
}

std::string title(const ProfileState& state) {
  return fmt::format("validation RMSE{}, mean over {} horizon{}{}",
                     state.units == "1" || state.units.empty() ? "" : fmt::format(" ({})", state.units),
                     state.horizons, state.horizons == 1 ? "" : "s",
                     state.folds > 0 ? fmt::format(", mean over {} folds", state.folds) : "");
}

/// Escapes bars in cells of Markdown tables.
std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string profile_table(const ProfileState& state) {
  const std::vector<Row> rows = rows_of(state);
  std::size_t width = 9, interval = 12, steps = 5;
  for (const Row& row : rows) {
    width = std::max(width, row.name.size());
    interval = std::max(interval, interval_text(row.chances).size());
    steps = std::max(steps, row.steps.size());
  }
  std::string text = fmt::format("{}\n{:<{}}  {:>9}  {:>{}}  {:>6}  {:>8}  {:>{}}  {:>7}\n", title(state),
                                 "candidate", width, "predicted", "90 % interval", interval + 1, "best",
                                 "regret", "steps", steps, "seconds");
  for (const Row& row : rows) {
    const bool known = row.chances.predicted > 0;
    text +=
        fmt::format("{:<{}}  {:>9}  {:>{}}  {:>6}  {:>8}  {:>{}}  {:>7}  {}\n", row.name, width,
                    known ? error_text(row.chances.predicted) : "-", known ? interval_text(row.chances) : "-",
                    interval + 1, known ? fmt::format("{:.0f} %", 100 * row.chances.probability_best) : "-",
                    known ? fmt::format("{:.2g} %", 100 * row.chances.regret) : "-", row.steps, steps,
                    row.seconds, row.note);
    while (text.ends_with(" \n")) text.erase(text.size() - 2, 1);
  }
  return text + failures(state) + choice_lines(state) + cost_line(state);
}

std::string profile_markdown(const ProfileState& state) {
  std::string text = fmt::format(
      "# Profile of {}\n\n{}. Search: {}.\n\n| candidate | predicted final error | 90 % interval | "
      "probability best | expected regret | steps | seconds | |\n|---|---|---|---|---|---|---|---|\n",
      state.data, title(state), state.ended.empty() ? "not over" : state.ended);
  for (const Row& row : rows_of(state)) {
    const bool known = row.chances.predicted > 0;
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", row.name,
                    known ? error_text(row.chances.predicted) : "", known ? interval_text(row.chances) : "",
                    known ? fmt::format("{:.1f} %", 100 * row.chances.probability_best) : "",
                    known ? fmt::format("{:.2g} %", 100 * row.chances.regret) : "", row.steps, row.seconds,
                    escaped(row.note));
  }
  text += "\n```\n" + failures(state) + choice_lines(state) + cost_line(state) + "```\n";
  return text + "\n![validation curves](curves.svg)\n";
}

void write_candidates(const std::string& directory, const ProfileQuestion& question) {
  std::error_code code;
  std::filesystem::create_directories(directory + "/candidates", code);
  for (const ProfiledCandidate& one : question.candidates)
    atomic_write(candidate_folder_of(directory, one.name) + ".toml", question.config_of(one).to_toml());
}

void write_profile(const std::string& directory, const ProfileQuestion& question, const ProfileState& state) {
  atomic_write(profile_file_of(directory), to_json(state).dump(2) + "\n");
  if (state.choice < 0) return;
  atomic_write(directory + "/profile.md", profile_markdown(state));
  atomic_write(directory + "/curves.svg", profile_plot(state));
  const ProfiledCandidate& best = state.candidates[static_cast<std::size_t>(state.choice)];
  atomic_write(directory + "/best.toml", question.config_of(best).to_toml());
}

}  // namespace rossby
