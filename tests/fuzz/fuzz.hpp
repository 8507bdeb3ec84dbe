#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "rossby/base/error.hpp"

namespace rossby::fuzz {

/// Ends the process if a promise does not hold, which a fuzzer reports.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// A message must be one line that is not empty.
inline void check_message(std::string_view message) {
  check(!message.empty(), "a UserError says nothing");
  for (const char c : message)
    check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a UserError holds a control character");
}

/// Runs `work` on hostile input. True if it succeeded, false if it threw a UserError of one line. Any other
/// error (BugError, std::bad_alloc, a sanitizer's finding) ends the process.
template <class Work>
bool survives(Work&& work) {
  try {
    work();
    return true;
  } catch (const UserError& error) {
    check_message(error.what());
    return false;
  }
}

}  // namespace rossby::fuzz
