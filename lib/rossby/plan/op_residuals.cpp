#include "rossby/plan/op_residuals.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace rossby {
namespace {

/// Mean relative error of what interpolation says of each value without it.
double interpolation_error(const OpFits::OfOp& op) {
  if (op.samples.size() < 2) return 0;
  double sum = 0;
  const std::vector<double> errors = op.rest->left_out();
  for (const double error : errors) sum += std::abs(std::expm1(error));
  return sum / static_cast<double>(errors.size());
}

}  // namespace

std::vector<OpResiduals> residuals_of(const MachineProfile& profile) {
  std::set<std::tuple<std::string, bool, bool, std::string, int, int>> all;
  for (const OpSample& s : profile.ops)
    all.emplace(s.op, s.backward, s.on_device, s.precision, s.ranks, s.on_device ? 1 : s.threads);
  OpFitsOfMachine fits;
  std::vector<OpResiduals> residuals;
  for (const auto& [op, backward, on_device, precision, ranks, threads] : all) {
    const Timed what = on_device ? Timed::device : Timed::host;
    auto& of_kind = fits[{precision, ranks, threads, what}];
    if (!of_kind) of_kind = std::make_shared<OpFits>(profile, precision, ranks, threads, what);
    const OpFits::OfOp* of = of_kind->of({op, backward});
    OpResiduals& r = residuals.emplace_back();
    r = {op, backward, on_device, precision, ranks, threads, std::ssize(of->samples), of->model, 0, 0};
    for (const OpSample* sample : of->samples)
      r.worst = std::max(r.worst, std::abs(of->model.seconds(sample->cost) / sample->seconds - 1));
    r.interpolated = interpolation_error(*of);
  }
  return residuals;
}

std::string text_of(const std::vector<OpResiduals>& residuals) {
  std::string text = fmt::format("{:<36}{:<10}{:<10}{:>6}{:>8}{:>9}{:>11}{:>12}{:>12}{:>14}{:>8}{:>15}\n",
                                 "op", "direction", "precision", "ranks", "threads", "samples", "start us",
                                 "ns a kflop", "ns a KiB", "polynomial %", "worst", "interpolated %");
  double sum = 0, sum_interpolated = 0, count = 0;
  for (const OpResiduals& r : residuals) {
    text +=
        fmt::format("{:<36}{:<10}{:<10}{:>6}{:>8}{:>9}{:>11.3g}{:>12.3g}{:>12.3g}{:>14.1f}{:>8.0f}{:>15}\n",
                    r.op + (r.on_device ? " (device)" : ""), r.backward ? "backward" : "forward", r.precision,
                    r.ranks, r.threads, r.samples, 1e6 * r.model.constant, 1e12 * r.model.per_flop,
                    1024e9 * r.model.per_byte, 100 * r.model.error, 100 * r.worst,
                    r.samples > 1 ? fmt::format("{:.1f}", 100 * r.interpolated) : "-");
    if (r.samples < 2) continue;
    sum += r.model.error;
    sum_interpolated += r.interpolated;
    ++count;
  }
  if (count > 0)
    text +=
        fmt::format("mean of those with two samples or more: polynomial {:.1f} %, interpolated {:.1f} %\n",
                    100 * sum / count, 100 * sum_interpolated / count);
  return text;
}

nlohmann::ordered_json json_of(const std::vector<OpResiduals>& residuals) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OpResiduals& r : residuals)
    list.push_back({{"op", r.op},
                    {"backward", r.backward},
                    {"on_device", r.on_device},
                    {"precision", r.precision},
                    {"ranks", r.ranks},
                    {"threads", r.threads},
                    {"samples", r.samples},
                    {"constant_seconds", r.model.constant},
                    {"seconds_per_flop", r.model.per_flop},
                    {"seconds_per_byte", r.model.per_byte},
                    {"polynomial_error", r.model.error},
                    {"polynomial_worst", r.worst},
                    {"interpolation_error", r.interpolated}});
  return list;
}

}  // namespace rossby
