#include "rossby/plan/op_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/plan/rates.hpp"

namespace rossby {
namespace {

constexpr int terms = 3;
constexpr int most_sweeps = 5'000;
constexpr double shortest = 1e-9;   // s, of a call: a model may predict 0
constexpr std::size_t few = 4;      // samples, too few to separate a constant from a slope
constexpr double same_call = 0.02;  // distance
constexpr std::size_t neighbours = 8;
constexpr double softening = 0.03;  // of their distances
// Standard deviations of logarithms: of one measurement, of other ranks' measurements, of a rate only; of
// neighbours beside their differences, nearby and per distance. With these, nine of ten of 10,000 measured
// calls lie where the other calls predict them, if up to 30 nearest calls are left out.
constexpr double least_doubt = 0.03, doubt_of_ranks = 0.15, doubt_of_rates = 0.8, doubt_of_few = 0.3,
                 doubt_near = 0.05, doubt_apart = 0.2;
using Row = std::array<double, terms>;

Row features(const Cost& cost) {
  return {1, cost.flops, cost.bytes};
}

double log2_of(double value) {
  return std::log2(value + 1);
}

constexpr Index register_values = 16;  // of the widest vectors
constexpr double widest_inner = 4096;  // above, a product's inner width always fills vectors

/// Counts full and partial registers of a row of `width` values, over the registers that would be full, as
/// log2. 8 values are half a register; 7 are a quarter, an eighth and a sixteenth.
double pieces(Index width) {
  const Index values = std::max<Index>(width, 1);
  const int parts = std::popcount(static_cast<std::uint64_t>(values % register_values));
  return std::log2(static_cast<double>(values / register_values + parts) *
                   static_cast<double>(register_values) / static_cast<double>(values));
}

double log2_of_width(Index width) {
  return std::log2(static_cast<double>(std::max<Index>(width, 1)));
}

/// For matrix products, flops and bytes per value give the kind of product, rows and width its amount. Total
/// flops alone would match a product of other widths.
OpFits::Point point_of(const Cost& cost, const ValueShape& made, double footprint) {
  const Index width = made.cols * made.channels;
  const double values = static_cast<double>(made.rows) * static_cast<double>(width);
  constexpr double least = 0.25;  // flops or bytes per value; less counts as none
  const auto of_a_value = [&](double all) {
    return values > 0 ? std::log2(all / values + least) : log2_of(all);
  };
  // Inner width of a matrix product; for other ops, a measure of work per value.
  const double inner = values > 0 ? std::round(cost.flops / 2 / values) : 0;
  const OpFits::Point point{of_a_value(cost.flops),
                            of_a_value(cost.bytes),
                            log2_of(footprint),
                            log2_of(static_cast<double>(made.rows)),
                            log2_of_width(made.channels),
                            log2_of_width(width),
                            pieces(made.channels),
                            pieces(width),
                            inner < widest_inner ? pieces(static_cast<Index>(inner)) : 0};
  // Distances beyond which calls are no longer similar.
  constexpr OpFits::Point lengths{6, 6, 4, 3.5, 3, 3, 1, 1, 1};
  OpFits::Point scaled;
  for (std::size_t k = 0; k < point.size(); ++k) scaled[k] = point[k] / lengths[k];
  return scaled;
}

double distance_between(const OpFits::Point& a, const OpFits::Point& b) {
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) squares += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(squares);
}

bool is_of(const OpSample& sample, const std::string& precision, int threads, Timed what) {
  return sample.precision == precision && sample.on_device == (what != Timed::host) &&
         (sample.on_device || sample.threads == threads);
}

/// Returns ", but in float with 1, in double with 2 threads"; empty if no host was measured.
std::string measured_with(const MachineProfile& profile) {
  std::string all;
  std::set<std::pair<std::string, int>> known;
  for (const OpSample& sample : profile.ops)
    if (!sample.on_device) known.emplace(sample.precision, sample.threads);
  for (const auto& [precision, threads] : known)
    all += fmt::format("{}in {} with {}", all.empty() ? ", but " : ", ", precision, threads);
  return all;
}

/// Returns the op's name for relations in memory.
std::string without_streams(std::string name) {
  for (const std::string_view part : {"_streamed", "_updated_on_host"})
    if (const std::size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
  return name;
}

}  // namespace

// Non-negative least squares: one term after another until nothing changes. Terms are scaled so that the
// normal equations are of similar size.
OpModel fit(const std::vector<const OpSample*>& samples) {
  if (samples.empty()) return {};
  Row scale{};
  for (const OpSample* sample : samples)
    for (std::size_t k = 0; k < terms; ++k)
      scale[k] = std::max(scale[k], features(sample->cost)[k] / sample->seconds);
  std::array<Row, terms> normal{};
  Row right{}, solution{};
  for (const OpSample* sample : samples) {
    Row row = features(sample->cost);
    for (std::size_t k = 0; k < terms; ++k) row[k] = scale[k] > 0 ? row[k] / sample->seconds / scale[k] : 0;
    for (std::size_t i = 0; i < terms; ++i) {
      right[i] += row[i];
      for (std::size_t j = 0; j < terms; ++j) normal[i][j] += row[i] * row[j];
    }
  }
  const bool grows = samples.size() < few && (scale[1] > 0 || scale[2] > 0);
  double change = 1;
  for (int sweep = 0; sweep < most_sweeps && change > 1e-12; ++sweep) {
    change = 0;
    for (std::size_t k = grows ? 1 : 0; k < terms; ++k) {
      if (normal[k][k] <= 0) continue;
      double rest = right[k];
      for (std::size_t j = 0; j < terms; ++j) rest -= normal[k][j] * solution[j];
      const double better = std::max(solution[k] + rest / normal[k][k], 0.0);
      change = std::max(change, std::abs(better - std::exchange(solution[k], better)));
    }
  }
  for (std::size_t k = 0; k < terms; ++k) solution[k] = scale[k] > 0 ? solution[k] / scale[k] : 0;
  return {solution[0], solution[1], solution[2]};
}

OpFits::OpFits(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
               Timed what) {
  for (const OpSample& sample : profile.ops)
    if (is_of(sample, precision, threads, what) && sample.ranks == ranks) {
      samples_.push_back(sample);
      OpSample& own = samples_.back();
      own.seconds = std::max(what == Timed::launches ? sample.host_seconds : sample.seconds, shortest);
    }
  if (what == Timed::launches) {
    std::vector<double> all;
    for (const OpSample& sample : samples_) all.push_back(sample.seconds);
    if (!all.empty()) usual_ = median_of(std::move(all));
  } else {
    bandwidth_ = rate_of(profile, what == Timed::device ? "device_stream" : "stream", ranks);
    product_rate_ = rate_of(profile, what == Timed::device ? "device_gemm" : "gemm", ranks);
    faster_ = profile.faster;
  }
  for (const OpSample& sample : samples_) by_op_[{sample.op, sample.backward}].samples.push_back(&sample);
  for (auto& [key, of] : by_op_) {
    of.model = fit(of.samples);
    for (const OpSample* sample : of.samples) {
      of.points.push_back(point_of(sample->cost, sample->made, sample->footprint));
      of.rest.push_back(std::log(sample->seconds / of.expected(sample->cost)));
    }
  }
}

// As measured, bytes take `memory` seconds and flops `compute` seconds.
double OpFits::projected(double seconds, const Cost& cost) const {
  const double memory = bandwidth_ > 0 ? cost.bytes / (bandwidth_ / faster_.memory) : 0,
               compute = product_rate_ > 0 ? cost.flops / (product_rate_ / faster_.compute) : 0;
  const double of_memory = memory <= seconds ? memory : 0;
  const double of_compute = std::min(compute, seconds);
  const double gained =
      of_memory >= of_compute ? of_memory * (1 - 1 / faster_.memory) : of_compute * (1 - 1 / faster_.compute);
  const double least = of_memory >= of_compute ? of_compute / faster_.compute : of_memory / faster_.memory;
  return std::max(seconds - gained, least);
}

double OpFits::OfOp::expected(const Cost& cost) const {
  return std::max(model.seconds(cost), shortest);
}

const OpFits::OfOp* OpFits::of(const OpKey& key) const {
  const auto found = by_op_.find(key);
  return found == by_op_.end() ? nullptr : &found->second;
}

OpTimes::OpTimes(const MachineProfile& profile, const std::string& precision, int ranks, int threads,
                 OpFitsOfMachine* shared, Timed what) {
  std::map<int, std::size_t> counts;  // samples by ranks
  for (const OpSample& sample : profile.ops)
    if (is_of(sample, precision, threads, what)) ++counts[sample.ranks];
  if (counts.empty() && what != Timed::host)
    user_error(
        "the devices of the machine were not measured in {}. Run 'rossby calibrate --device cuda --precision "
        "{}' on a host with GPUs",
        precision, precision);
  if (counts.empty())
    user_error(
        "the machine was not measured in {} with {} thread{} per rank{}. Run 'rossby calibrate' with the "
        "ranks and threads (OMP_NUM_THREADS) of the training, or set parallel.threads",
        precision, threads, threads == 1 ? "" : "s", measured_with(profile));
  const auto above = counts.upper_bound(ranks);
  const auto chosen = above == counts.begin() ? above : std::prev(above);
  const auto fullest = std::max_element(counts.begin(), counts.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  // More ranks than cores take turns. Up to that number, ranks are assumed to disturb each other as in the
  // measurements.
  const double cores =
      what == Timed::device ? profile.device.count : static_cast<double>(profile.cores) / threads;
  const auto source_of = [&](int measured) {
    std::shared_ptr<OpFits> own;
    std::shared_ptr<OpFits>& fits = shared ? (*shared)[{precision, measured, threads, what}] : own;
    if (!fits) fits = std::make_shared<OpFits>(profile, precision, measured, threads, what);
    return Source{fits, std::max(1.0, ranks / cores) / std::max(1.0, measured / cores)};
  };
  ranks_ = chosen->first;
  source_ = source_of(ranks_);
  // A few calls of one training do not represent other trainings.
  if (2 * chosen->second < fullest->second) fuller_ = source_of(fullest->first);
}

OpTimes::Answer OpTimes::answer_of(const Source& source, const TracedOp& op) {
  const Cost& cost = op.cost;
  const OpFits& all = *source.fits;
  const OpFits::OfOp* fits = all.of({op.name, op.backward});
  if (!fits)
    if (const std::string still = without_streams(op.name); still != op.name) {
      TracedOp same = op;
      same.name = still;
      Answer answer = answer_of(source, same);
      answer.moves = false;
      return answer;
    }
  if (!fits)
    return {source.crowding * all.unmeasured_seconds(cost), std::numeric_limits<double>::infinity(),
            doubt_of_rates, true, all.knows_unmeasured()};
  const OpFits::Point here = point_of(cost, op.made, op.footprint);
  std::vector<std::pair<double, std::size_t>> near;  // distances and sample numbers
  for (std::size_t s = 0; s < fits->samples.size(); ++s)
    near.emplace_back(distance_between(fits->points[s], here), s);
  std::sort(near.begin(), near.end());
  const bool measured = near.front().first <= same_call;
  if (measured)
    std::erase_if(near, [](const auto& sample) { return sample.first > same_call; });
  else
    near.resize(std::min(near.size(), neighbours));
  // Samples of the same call count by their times, other samples by their deviation from the polynomial.
  double weights = 0, mean = 0, spread = 0, squares = 0;
  for (const auto& [apart, s] : near) {
    const double value = measured ? std::log(fits->samples[s]->seconds) : fits->rest[s];
    const double weight = measured ? 1 : 1 / std::pow(apart + softening, 4);
    weights += weight;
    mean += weight * value;
    squares += weight * value * value;
    spread += weight * fits->samples[s]->spread;
  }
  mean /= weights;
  const double variance = std::max(squares / weights - mean * mean, 0.0);
  const double apart = measured ? 0 : near.front().first;
  const double seconds = std::exp(mean) * (measured ? 1 : fits->expected(cost));
  const double alone = near.size() < few ? doubt_of_few : 0;  // too few to show how much they differ
  const double doubt = std::hypot(std::sqrt(variance), doubt_near + doubt_apart * apart, alone);
  return {source.crowding * all.projected(seconds, cost), apart,
          measured ? std::max(spread / weights, least_doubt) : std::min(doubt, doubt_of_rates)};
}

OpTimes::Answer OpTimes::seconds(const TracedOp& op) const {
  constexpr double near = 0.5;
  Answer answer = answer_of(source_, op);
  if (!fuller_.fits || answer.distance <= near) return answer;
  Answer other = answer_of(fuller_, op);
  if (other.distance >= answer.distance) return answer;
  other.doubt = std::hypot(other.doubt, doubt_of_ranks);
  return other;
}

double OpTimes::distance(const TracedOp& op) const {
  const OpFits::OfOp* fits = source_.fits->of({op.name, op.backward});
  double nearest = std::numeric_limits<double>::infinity();
  if (!fits) return nearest;
  const OpFits::Point here = point_of(op.cost, op.made, op.footprint);
  constexpr std::size_t footprint = 2;  // samples of this kind that lack this call
  for (const OpFits::Point& point : fits->points)
    nearest = std::min(
        nearest, std::abs(point[footprint] - here[footprint]) < 1e-9 ? 0 : distance_between(point, here));
  return nearest;
}

}  // namespace rossby
