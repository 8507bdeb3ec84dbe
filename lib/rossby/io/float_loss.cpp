#include "rossby/io/float_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rossby {
namespace {

constexpr Index stretch = 64;
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// Values of one node and feature relative to the first one: count, sums, and the squares of float32's
/// errors.
struct Moments {
  double count = 0, sum = 0, squares = 0, rounding = 0, level = 0;
};

void look_at(double value, double& first, Moments& m) {
  if (std::isnan(value)) return;
  if (std::isnan(first)) first = value;
  const double off = value - first, lost = value - static_cast<double>(static_cast<float>(value));
  m.count += 1;
  m.sum += off;
  m.squares += off * off;
  m.rounding += lost * lost;
  m.level = std::max(m.level, std::abs(value));
}

/// Starts of the sampled stretches.
std::vector<Index> starts_of(Index first, Index last) {
  if (last - first <= 3 * stretch) {
    std::vector<Index> starts;
    for (Index t = first; t < last; t += stretch) starts.push_back(t);
    return starts;
  }
  return {first, first + (last - first - stretch) / 2, last - stretch};
}

}  // namespace

FloatLoss float_loss(const SeriesFile& file, std::span<const Index> nodes, Index first, Index last) {
  FloatLoss loss;
  if (!file.finer_than_float()) return loss;
  const auto m = static_cast<std::size_t>(file.info().features);
  const std::size_t width = nodes.size() * m;
  loss.first.assign(width, nan_value);
  for (auto* list : {&loss.varying, &loss.lost, &loss.level, &loss.spread, &loss.spacing}) list->assign(m, 0);
  std::vector<Moments> moments(width);
  const Index block =
      std::clamp<Index>((Index{1} << 18) / std::max<Index>(static_cast<Index>(width), 1), 1, stretch);
  std::vector<double> values(static_cast<std::size_t>(block) * width);
  for (const Index start : starts_of(first, last))
    for (Index t = start; t < std::min(start + stretch, last); t += block) {
      const Index steps = std::min({block, start + stretch - t, last - t});
      file.read_numbers(nodes, t, steps, values.data());
      for (std::size_t k = 0; k < static_cast<std::size_t>(steps) * width; ++k)
        look_at(values[k], loss.first[k % width], moments[k % width]);
    }
  for (std::size_t k = 0; k < width; ++k) {
    const Moments& node = moments[k];
    if (node.count < 2) continue;
    const double mean = node.sum / node.count;
    const double spread = std::sqrt(std::max(0.0, node.squares / node.count - mean * mean));
    constexpr double rounding = 1e-15;  // of doubles, relative
    if (!(spread > rounding * node.level)) continue;
    const std::size_t f = k % m;
    loss.varying[f] += 1;
    if (std::sqrt(node.rounding / node.count) < 0.005 * spread) continue;
    loss.lost[f] += 1;
    const auto level = static_cast<float>(node.level);
    const double spacing =
        static_cast<double>(std::nextafter(level, std::numeric_limits<float>::infinity()) - level);
    if (loss.spread[f] > 0 && spacing / spread <= loss.spacing[f] / loss.spread[f]) continue;
    loss.level[f] = node.level;
    loss.spread[f] = spread;
    loss.spacing[f] = spacing;
  }
  return loss;
}

void complete_first(const SeriesFile& file, std::span<const Index> nodes, std::vector<double>& first) {
  const std::size_t width = first.size();
  const auto any_missing = [&] {
    return std::any_of(first.begin(), first.end(), [](double value) { return std::isnan(value); });
  };
  if (width == 0 || !any_missing()) return;
  const Index block = std::clamp<Index>((Index{1} << 18) / static_cast<Index>(width), 1, 1024);
  std::vector<double> values(static_cast<std::size_t>(block) * width);
  for (Index t = 0; t < file.info().steps && any_missing(); t += block) {
    const Index steps = std::min(block, file.info().steps - t);
    file.read_numbers(nodes, t, steps, values.data());
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps) * width; ++k)
      if (std::isnan(first[k % width])) first[k % width] = values[k];
  }
  for (double& value : first)
    if (std::isnan(value)) value = 0;  // never observed
}

}  // namespace rossby
