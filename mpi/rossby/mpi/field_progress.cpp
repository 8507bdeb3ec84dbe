#include "rossby/mpi/field_progress.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "rossby/io/files.hpp"

namespace rossby {
namespace {

FieldProgress read_progress(const std::string& path) {
  FieldProgress progress;
  std::ifstream file(progress_file_of(path));
  std::getline(file, progress.identity);
  std::getline(file, progress.file);
  file >> progress.bytes >> progress.steps;
  for (std::uint64_t offset = 0; file >> offset;) progress.offsets.push_back(offset);
  return progress;
}

/// True if a process of this machine runs; a zombie does not count.
bool runs(int process) {
  if (::kill(process, 0) != 0 && errno == ESRCH) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat.compare(name_end + 2, 1, "Z") != 0;
}

/// Returns the process named in the temporary name of the file `path`; 0 if there is none.
int process_of(const std::string& name, const std::string& path) {
  const std::string start = std::filesystem::path(path).filename().string() + ".", end = ".part";
  if (!name.starts_with(start) || !name.ends_with(end) || name.size() <= start.size() + end.size()) return 0;
  const std::string process = name.substr(start.size(), name.size() - start.size() - end.size());
  if (process.size() > 9 || process.find_first_not_of("0123456789") != std::string::npos) return 0;
  return std::stoi(process);
}

}  // namespace

std::string progress_file_of(const std::string& path) {
  return path + ".progress";
}

void FieldProgress::write(const std::string& path) const {
  atomic_write(progress_file_of(path),
               fmt::format("{}\n{}\n{} {} {}\n", identity, file, bytes, steps, fmt::join(offsets, " ")));
}

std::optional<FieldProgress> take_up(const std::string& path, const std::string& temporary,
                                     const std::string& identity, Index fields, Index outer) {
  FieldProgress left = read_progress(path);
  const int process = process_of(left.file, path);
  if (process == 0) return std::nullopt;
  const std::filesystem::path old = std::filesystem::path(path).parent_path() / left.file;
  std::error_code code;
  const bool fits = !identity.empty() && left.identity == identity && left.steps >= 1 &&
                    left.steps <= outer && !runs(process) && std::ssize(left.offsets) == fields &&
                    std::filesystem::file_size(old, code) == left.bytes && !code;
  if (fits) std::filesystem::rename(old, temporary, code);
  if (!fits || code) {
    ::unlink(progress_file_of(path).c_str());
    return std::nullopt;
  }
  left.file = std::filesystem::path(temporary).filename().string();
  left.write(path);
  return left;
}

void remove_leftovers(const std::string& path) {
  const std::filesystem::path file(path);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    const int process = process_of(entry.path().filename().string(), path);
    if (process != 0 && !runs(process)) std::filesystem::remove(entry.path(), code);
  }
}

}  // namespace rossby
