#include "rossby/run/report_drawing.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"
#include "rossby/run/external_program.hpp"

namespace rossby {
namespace {

/// Returns the folder of the scripts; empty if it is not found.
std::string script_folder() {
  namespace fs = std::filesystem;
  if (const char* named = std::getenv("ROSSBY_REPORT"); named != nullptr && *named != '\0') return named;
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  const auto holds = [&](const fs::path& folder) { return fs::exists(folder / "__main__.py", code); };
  if (const fs::path shared = program.parent_path().parent_path() / "share/rossby/report"; holds(shared))
    return shared.string();
  for (fs::path above = program.parent_path(); above.has_relative_path(); above = above.parent_path())
    if (holds(above / "jobscripts/report")) return (above / "jobscripts/report").string();
  return "";
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Returns the first Python that has the modules; empty if none has.
std::string python_with(std::span<const std::string> modules) {
  std::vector<std::string> candidates{"python3", "/usr/bin/python3"};
  if (const char* named = std::getenv("ROSSBY_PYTHON"); named != nullptr && *named != '\0')
    candidates = {named};
  constexpr const char* finds =
      "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))";
  for (const std::string& python : candidates)
    if (exit_code(run_command(fmt::format("{} -c {} {} >/dev/null 2>&1", quoted(python), quoted(finds),
                                          fmt::join(modules, " ")))
                      .status) == 0)
      return python;
  return "";
}

/// A temporary file that is removed with this object.
struct OwnFile {
  std::string path = (std::filesystem::temp_directory_path() / "rossby_report_XXXXXX").string();
  OwnFile() {
    const int file = ::mkstemp(path.data());
    if (file < 0)
      user_error("{}: this temporary file cannot be made. Set TMPDIR to a folder that can be written", path);
    ::close(file);
  }
  ~OwnFile() { ::unlink(path.c_str()); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
};

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line, last;
  while (std::getline(lines, line))
    if (!line.empty()) last = line;
  return one_line(last.substr(0, 500));
}

}  // namespace

Drawing find_drawing(std::span<const std::string> modules) {
  Drawing found{script_folder(), python_with(modules)};
  std::string packages;
  for (const std::string& module : modules) packages += " python3-" + lower_case(module);
  if (found.folder.empty())
    found.missing =
        "the scripts for the pictures were not found. Set ROSSBY_REPORT to the folder jobscripts/report";
  else if (found.python.empty())
    found.missing =
        fmt::format("no Python with {} was found. Run apt-get install{}, or name a Python with ROSSBY_PYTHON",
                    fmt::join(modules, " and "), packages);
  return found;
}

Drawn draw_report(const Drawing& drawing, std::span<const std::string> words) {
  if (!drawing.missing.empty()) return {"", drawing.missing};
  std::string command = fmt::format("{} -B {}", quoted(drawing.python), quoted(drawing.folder));
  for (const std::string& word : words) command += " " + quoted(word);
  const OwnFile printed, errors;
  const auto [status, signalled] =
      run_command(fmt::format("{} >{} 2>{}", command, quoted(printed.path), quoted(errors.path)));
  if (signalled != 0)
    user_error("stopped by signal {} while {} drew the pictures", signalled, drawing.python);
  if (exit_code(status) != 0) {
    const std::string line = last_line(read_text(errors.path));
    return {"", line.empty() ? fmt::format("{} could not draw the pictures", drawing.python) : line};
  }
  return {last_line(read_text(printed.path)), ""};
}

}  // namespace rossby
