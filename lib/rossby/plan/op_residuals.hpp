#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/op_times.hpp"

namespace rossby {

/// How well the times of one op and direction are told, of one precision, one number of ranks on a host and
/// threads: by its polynomial, and by interpolation between its other samples.
struct OpResiduals {
  std::string op;
  bool backward = false;
  bool on_device = false;
  std::string precision;
  int ranks = 1;
  int threads = 1;
  Index samples = 0;
  OpModel model;            // `error`: mean absolute relative residual
  double worst = 0;         // largest one
  double interpolated = 0;  // mean absolute relative error at samples that interpolation is not told (of the
                            // logarithms that the polynomial, fitted to all, leaves); 0: one sample
};

/// Of all that the machine was measured in, in the order of ops, directions, precisions, ranks, threads.
[[nodiscard]] std::vector<OpResiduals> residuals_of(const MachineProfile& profile);

[[nodiscard]] std::string text_of(const std::vector<OpResiduals>& residuals);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<OpResiduals>& residuals);

}  // namespace rossby
