#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace rossby {

/// Reads a whole file of at most `most` bytes. Throws UserError with path and cause, also for UTF-16.
[[nodiscard]] std::string read_text(const std::string& path, std::size_t most = std::size_t{1} << 28);

/// Replaces `path` by `text` atomically: writes a temporary file beside it, syncs it, renames it, and syncs
/// the directory. On failure the old file stays, nothing else is left behind, and UserError gives path and
/// cause (disk full, …).
void atomic_write(const std::string& path, std::string_view text);

/// Throws UserError if `output` is one of the files that it is made from, or exists and is no regular file.
void refuse_to_replace(const std::string& output, std::span<const std::string> inputs);
inline void refuse_to_replace(const std::string& output, std::initializer_list<std::string> inputs) {
  refuse_to_replace(output, std::span<const std::string>(inputs.begin(), inputs.size()));
}

/// Makes a finished temporary file durable and renames it to `path`. Throws UserError with `path`, also if a
/// device, a pipe or the like has that name; the temporary file then stays.
void commit_file(const std::string& temporary, const std::string& path);

/// The temporary name for `path`: same directory, unique to this process.
[[nodiscard]] std::string temporary_name(const std::string& path);

}  // namespace rossby
