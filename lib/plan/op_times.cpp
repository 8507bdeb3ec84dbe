#include "rossby/plan/op_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr int terms = 3;
constexpr double shortest = 1e-9;  // s, of a call: a model may say 0 of one that costs nothing
using Row = std::array<double, terms>;

Row features(const Cost& cost) {
  return {1, cost.flops, cost.bytes};
}

/// Least squares over some of the terms (a bit each), by Gauss's elimination of the normal equations; false
/// where they do not determine all.
bool solve(const std::array<Row, terms>& normal, const Row& right, unsigned chosen, Row& solution) {
  std::array<int, terms> of{};
  int count = 0;
  for (int k = 0; k < terms; ++k)
    if (chosen >> k & 1U) of[static_cast<std::size_t>(count++)] = k;
  std::array<std::array<double, terms + 1>, terms> a{};
  const auto at = [](auto& array, int i) -> auto& {
    return array[static_cast<std::size_t>(i)];
  };
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) at(at(a, i), j) = at(at(normal, at(of, i)), at(of, j));
    at(at(a, i), count) = at(right, at(of, i));
  }
  for (int i = 0; i < count; ++i) {
    int pivot = i;
    for (int j = i + 1; j < count; ++j)
      if (std::abs(at(at(a, j), i)) > std::abs(at(at(a, pivot), i))) pivot = j;
    std::swap(at(a, i), at(a, pivot));
    if (std::abs(at(at(a, i), i)) < 1e-12) return false;
    for (int j = i + 1; j < count; ++j) {
      const double factor = at(at(a, j), i) / at(at(a, i), i);
      for (int k = i; k <= count; ++k) at(at(a, j), k) -= factor * at(at(a, i), k);
    }
  }
  solution = {};
  for (int i = count - 1; i >= 0; --i) {
    double value = at(at(a, i), count);
    for (int j = i + 1; j < count; ++j) value -= at(at(a, i), j) * at(solution, at(of, j));
    at(solution, at(of, i)) = value / at(at(a, i), i);
  }
  return true;
}

double log2_of(double value) {
  return std::log2(value + 1);
}

/// A call as a point, and how much its coordinates count: small steps in size change a rate little, a width
/// that leaves vectors half empty changes it much.
using Point = std::array<double, 5>;
constexpr Point weights{0.3, 0.3, 0.5, 1, 2};

Point point_of(const Cost& cost, double channels, double footprint) {
  const double width = std::max(channels, 1.0);
  return {log2_of(cost.flops), log2_of(cost.bytes), log2_of(footprint), std::log2(width),
          std::log2(std::ceil(width / 16) * 16 / width)};
}

double distance(const Point& a, const Point& b) {
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) squares += std::pow(weights[k] * (a[k] - b[k]), 2);
  return std::sqrt(squares);
}

}  // namespace

// Three terms at most: every choice of those that are not zero is tried, and the best that is not negative is
// taken. Terms are scaled so that the normal equations are of one size.
OpModel fit(const std::vector<const OpSample*>& samples) {
  OpModel model;
  if (samples.empty()) return model;
  Row scale{};
  for (const OpSample* sample : samples)
    for (std::size_t k = 0; k < terms; ++k)
      scale[k] = std::max(scale[k], features(sample->cost)[k] / sample->seconds);
  std::array<Row, terms> normal{};
  Row right{};
  for (const OpSample* sample : samples) {
    Row row = features(sample->cost);
    for (std::size_t k = 0; k < terms; ++k) row[k] = scale[k] > 0 ? row[k] / sample->seconds / scale[k] : 0;
    for (std::size_t i = 0; i < terms; ++i) {
      right[i] += row[i];
      for (std::size_t j = 0; j < terms; ++j) normal[i][j] += row[i] * row[j];
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << terms; ++chosen) {
    Row solution{};
    if (!solve(normal, right, chosen, solution)) continue;
    if (std::any_of(solution.begin(), solution.end(), [](double x) { return x < 0; })) continue;
    const auto unscaled = [&](std::size_t k) { return scale[k] > 0 ? solution[k] / scale[k] : 0; };
    OpModel tried{unscaled(0), unscaled(1), unscaled(2), 0};
    double squares = 0;
    for (const OpSample* sample : samples) {
      const double relative = tried.seconds(sample->cost) / sample->seconds - 1;
      squares += relative * relative;
      tried.error += std::abs(relative) / static_cast<double>(samples.size());
    }
    if (squares >= best) continue;
    best = squares;
    model = tried;
  }
  return model;
}

OpTimes::OpTimes(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
                 Method method)
    : method_(method) {
  choose_ranks(profile, precision, ranks, threads);
  for (const OpSample& sample : profile.ops)
    if (sample.precision == precision && sample.ranks == ranks_ && sample.threads == threads)
      samples_.push_back(sample);
  for (const OpSample& sample : samples_) by_op_[{sample.op, sample.backward}].push_back(&sample);
  for (const auto& [key, samples] : by_op_) models_[key] = fit(samples);
  bandwidth_ = rate_of(profile, "stream", ranks_);
  product_rate_ = rate_of(profile, "gemm", ranks_);
}

void OpTimes::choose_ranks(const MachineProfile& profile, const std::string& precision, int ranks,
                           int threads) {
  int below = 0, above = 0;
  for (const OpSample& sample : profile.ops) {
    if (sample.precision != precision || sample.threads != threads) continue;
    if (sample.ranks <= ranks) below = std::max(below, sample.ranks);
    if (sample.ranks > ranks && (above == 0 || sample.ranks < above)) above = sample.ranks;
  }
  if (below == 0 && above == 0)
    user_error(
        "the machine was not measured in {} with {} thread{} a rank: run 'rossby calibrate' with the ranks "
        "and "
        "threads of the training",
        precision, threads, threads == 1 ? "" : "s");
  ranks_ = below > 0 ? below : above;
  // More ranks than cores take turns; as many as cores or fewer are taken to disturb each other no more than
  // those measured.
  const double cores = static_cast<double>(profile.cores) / threads;
  const double had = std::max(1.0, ranks_ / cores), have = std::max(1.0, ranks / cores);
  crowding_ = have / had;
}

OpTimes::Answer OpTimes::seconds(const TracedOp& op, double footprint) const {
  const Cost& cost = op.cost;
  const auto found = by_op_.find({op.name, op.backward});
  if (found == by_op_.end()) {
    const double bytes = bandwidth_ > 0 ? cost.bytes / bandwidth_ : 0;
    const double flops = product_rate_ > 0 ? cost.flops / product_rate_ : 0;
    return {crowding_ * std::max(bytes, flops), std::numeric_limits<double>::infinity()};
  }
  const Point here = point_of(cost, static_cast<double>(op.channels), footprint);
  double nearest = std::numeric_limits<double>::infinity();
  double sum = 0, logs = 0;
  for (const OpSample* sample : found->second) {
    const double d = distance(point_of(sample->cost, sample->channels, sample->footprint), here);
    nearest = std::min(nearest, d);
    const double weight = 1 / (d * d + 1e-6);
    sum += weight;
    // An op without costs takes what it took.
    logs += weight * std::log(sample->seconds * (cost.bytes + 1) / (sample->cost.bytes + 1));
  }
  if (method_ == Method::model)
    return {crowding_ * std::max(models_.at(found->first).seconds(cost), shortest), nearest};
  return {crowding_ * std::exp(logs / sum), nearest};
}

}  // namespace rossby
