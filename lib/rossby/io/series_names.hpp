#pragma once

#include <span>
#include <string>
#include <vector>

namespace rossby {

/// The files that data.file names, in the order in which they are named. An entry is a file, a pattern of the
/// shell (*, ?, [a-z]), whose files come in the order of their names, or a text file (*.txt) with an entry a
/// line; there, blank lines and what begins with # are skipped. What is there by that very name is no
/// pattern. Relative paths start at the working directory, those in a text file, too. Throws UserError where
/// a pattern or a text file has no files, or a file is named twice.
[[nodiscard]] std::vector<std::string> series_names(std::span<const std::string> entries);

}  // namespace rossby
