#pragma once

#include <span>
#include <string>

namespace rossby {

/// What the Python scripts of jobscripts/report are started with.
struct Drawing {
  std::string folder, python;
  std::string missing = {};  // what is not there, and how to get it, in one line; empty: nothing
};

/// The scripts are in the folder that the environment variable ROSSBY_REPORT names, in share/rossby/report of
/// the installed program, or in the tree that the program was built in. Python is the program that
/// ROSSBY_PYTHON names, else the first of python3 of PATH and /usr/bin/python3 that has the modules.
[[nodiscard]] Drawing find_drawing(std::span<const std::string> modules);

/// How drawing ended.
struct Drawn {
  std::string line;  // the last one that the script printed
  std::string why;   // nothing was drawn: why, in one line
};

/// Has the scripts draw: `words` are their arguments. Throws UserError if a signal asked to leave meanwhile.
[[nodiscard]] Drawn draw_report(const Drawing& drawing, std::span<const std::string> words);

}  // namespace rossby
