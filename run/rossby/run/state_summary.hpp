#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rossby {

/// Returns what a checkpoint or state file says of itself, without the text of the configuration and the
/// optimiser's counts, and "arrays" with name, placement, shape and checksum. Reads no array. Throws
/// UserError naming the file. Not collective.
[[nodiscard]] nlohmann::ordered_json state_summary(const std::string& file);

/// Returns the same as lines of text.
[[nodiscard]] std::string state_summary_text(const std::string& file);

}  // namespace rossby
