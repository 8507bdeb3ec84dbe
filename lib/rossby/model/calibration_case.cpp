#include "rossby/model/calibration_case.hpp"

#include <fmt/format.h>

namespace rossby {

CalibrationCase calibration_case(std::string_view name, const CalibrationWindows& size,
                                 const std::string& model, std::string_view graph) {
  return {
      .lat = size.lat,
      .lon = size.lon,
      .steps = 2 * size.batch + 2 * size.inputs + 2,
      .settings = fmt::format("[model]\nname = \"{}\"\n{}\n[window]\ninputs = {}\noutputs = {}\nbatch = {}\n"
                              "[relation]\ngraph = \"{}\"\n",
                              name, model, size.inputs, size.inputs, size.batch, graph),
      .horizons = size.inputs,
      .most_columns = size.batch};
}

std::vector<std::pair<CalibrationWindows, Index>> recurrent_calibration_sizes() {
  return {{{10, 20, 16, 2}, 32}, {{10, 20, 32, 6}, 64}, {{20, 30, 12, 12}, 24}, {{13, 20, 20, 5}, 40}};
}

}  // namespace rossby
