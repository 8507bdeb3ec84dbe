#include "rossby/kernels/autotune.hpp"

#include <fmt/core.h>

namespace rossby {

std::string choice_in_words(std::string_view chosen, std::string_view first, std::string_view second,
                            const std::array<double, 2>& seconds) {
  if (seconds[0] == 0) return std::string(chosen);
  return fmt::format("{} ({} {:.3f} ms, {} {:.3f} ms)", chosen, first, 1e3 * seconds[0], second,
                     1e3 * seconds[1]);
}

}  // namespace rossby
