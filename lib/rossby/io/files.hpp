#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace rossby {

/// The whole of a file of at most `most` bytes. Throws UserError naming path and cause.
[[nodiscard]] std::string read_text(const std::string& path, std::size_t most = std::size_t{1} << 28);

/// Puts `text` in place of `path` at once: written to a temporary name beside it, fsynced, renamed, directory
/// fsynced. On failure the old file stays, nothing else is left behind, and a UserError names path and cause
/// (disk full, …).
void atomic_write(const std::string& path, std::string_view text);

/// Throws UserError where `output` is one of the files that it is made from, or something that is no file.
void refuse_to_replace(const std::string& output, std::span<const std::string> inputs);
inline void refuse_to_replace(const std::string& output, std::initializer_list<std::string> inputs) {
  refuse_to_replace(output, std::span<const std::string>(inputs.begin(), inputs.size()));
}

/// Makes a finished temporary file durable and gives it its name. Throws UserError naming `path`, also where
/// something is there that is no regular file (a device, a pipe); the temporary stays.
void commit_file(const std::string& temporary, const std::string& path);

/// The temporary name that goes with `path`: same directory, this process.
[[nodiscard]] std::string temporary_name(const std::string& path);

}  // namespace rossby
