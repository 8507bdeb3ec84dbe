#pragma once

#include <span>
#include <string>
#include <vector>

namespace rossby {

/// The files named by data.file, in the order in which they are named. An entry is a file, a shell pattern
/// (*, ?, [a-z]) or a text file (*.txt) with one entry per line. Files that match a pattern are sorted by
/// name. Blank lines and lines that begin with # are skipped. An entry that exists by its exact name is no
/// pattern. Relative paths, also in a text file, start at the working directory. Throws UserError if a
/// pattern or a text file has no files, or if a file is named twice.
[[nodiscard]] std::vector<std::string> series_names(std::span<const std::string> entries);

}  // namespace rossby
