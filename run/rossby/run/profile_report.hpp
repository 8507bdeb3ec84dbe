#pragma once

#include <string>

#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {

/// Returns the table of forecasters, smallest expected regret first, and lines on choice and cost.
[[nodiscard]] std::string profile_table(const ProfileState& state);
/// Returns the same as a Markdown page.
[[nodiscard]] std::string profile_markdown(const ProfileState& state);
/// Returns a plot (SVG) of validation errors over the share of each complete training, with the 90 %
/// intervals of final errors.
[[nodiscard]] std::string profile_plot(const ProfileState& state);

/// Writes the configuration of each candidate's complete training to candidates/<name>.toml. On rank 0.
void write_candidates(const std::string& directory, const ProfileQuestion& question);

/// Writes profile.json and the files made from it: profile.md, curves.svg and best.toml. On rank 0.
void write_profile(const std::string& directory, const ProfileQuestion& question, const ProfileState& state);

}  // namespace rossby
