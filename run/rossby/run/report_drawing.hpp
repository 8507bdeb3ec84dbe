#pragma once

#include <span>
#include <string>

namespace rossby {

/// Needed to start the Python scripts of jobscripts/report.
struct Drawing {
  std::string folder, python;
  std::string missing = {};  // what is missing and how to get it, in one line; empty: nothing
};

/// Finds the scripts and Python. The scripts are in the folder that the environment variable ROSSBY_REPORT
/// names, in share/rossby/report of the installed program, or in the source tree of the build. Python is the
/// program that ROSSBY_PYTHON names, else the first of python3 in PATH and /usr/bin/python3 that has the
/// modules.
[[nodiscard]] Drawing find_drawing(std::span<const std::string> modules);

/// The result of drawing.
struct Drawn {
  std::string line;  // last line that the script printed
  std::string why;   // why nothing was drawn, in one line; empty: drawn
};

/// Runs the scripts with the arguments `words`. Throws UserError if a signal asked to leave meanwhile.
[[nodiscard]] Drawn draw_report(const Drawing& drawing, std::span<const std::string> words);

}  // namespace rossby
