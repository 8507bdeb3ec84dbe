#include "rossby/train/paired_skill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"

namespace rossby {
namespace {

/// Returns the first lag at which the autocorrelation of a series is not positive, at most `most`.
Index first_zero(const std::vector<double>& x, Index most) {
  const auto n = static_cast<Index>(x.size());
  double mean = 0;
  for (const double v : x) mean += v / static_cast<double>(n);
  for (Index lag = 1; lag < most; ++lag) {
    double sum = 0;
    for (Index t = lag; t < n; ++t)
      sum += (x[static_cast<std::size_t>(t)] - mean) * (x[static_cast<std::size_t>(t - lag)] - mean);
    if (sum <= 0) return lag;
  }
  return most;
}

/// Returns prefix sums over origins of a row repeated twice, so that blocks wrap around.
std::vector<double> prefix(const double* row, Index origins) {
  std::vector<double> sums(static_cast<std::size_t>(2 * origins + 1));
  for (Index o = 0; o < 2 * origins; ++o)
    sums[static_cast<std::size_t>(o + 1)] = sums[static_cast<std::size_t>(o)] + row[o % origins];
  return sums;
}

/// `least`: minimum number of origins in a block.
PairedSkill skill_in_blocks(const OriginErrors& model, const OriginErrors& baseline, Index least) {
  require(model.horizons == baseline.horizons && model.origins == baseline.origins,
          "errors of the same origins are compared");
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const Index n = model.origins;
  PairedSkill result{unknown, unknown, unknown, 0};
  struct PrefixSums {
    std::vector<double> model, baseline, count;
  };
  std::vector<PrefixSums> horizons;
  std::vector<double> difference(static_cast<std::size_t>(n));
  for (Index h = 0; h < model.horizons; ++h) {
    const auto row = static_cast<std::size_t>(h * n);
    PrefixSums sums{prefix(model.squares.data() + row, n), prefix(baseline.squares.data() + row, n),
                    prefix(model.count.data() + row, n)};
    if (!(sums.count[static_cast<std::size_t>(n)] > 0)) continue;
    for (Index o = 0; o < n; ++o)
      difference[static_cast<std::size_t>(o)] += model.squares[row + static_cast<std::size_t>(o)] -
                                                 baseline.squares[row + static_cast<std::size_t>(o)];
    horizons.push_back(std::move(sums));
  }
  if (n < 8 || horizons.empty()) return result;

  const Index most = n / 4;
  result.block = std::clamp<Index>(first_zero(difference, most), std::min(least, most), most);
  const Index length = result.block, blocks = (n + length - 1) / length;
  // Skill of the blocks [first, first + length). The last block is cut so that each resample has as many
  // origins as the data.
  const auto skill_of = [&](const auto& first_of) {
    double ours = 0, theirs = 0;
    for (const PrefixSums& sums : horizons) {
      double squares = 0, others = 0, count = 0;
      for (Index b = 0; b < blocks; ++b) {
        const auto first = static_cast<std::size_t>(first_of(b)),
                   last = first + static_cast<std::size_t>(std::min(length, n - b * length));
        squares += sums.model[last] - sums.model[first];
        others += sums.baseline[last] - sums.baseline[first];
        count += sums.count[last] - sums.count[first];
      }
      if (count <= 0) continue;
      ours += std::sqrt(squares / count);
      theirs += std::sqrt(others / count);
    }
    return 1 - ours / theirs;
  };
  result.skill = skill_of([&](Index b) { return b * length; });
  constexpr Index resamples = 2000;
  const Random random(1, "paired skill");
  std::vector<double> drawn;
  for (Index k = 0; k < resamples; ++k) {
    const Random of_sample = random.at(static_cast<std::uint64_t>(k));
    drawn.push_back(skill_of([&](Index b) {
      return static_cast<Index>(of_sample.uniform(static_cast<std::uint64_t>(b)) * static_cast<double>(n));
    }));
  }
  if (std::any_of(drawn.begin(), drawn.end(), [](double x) { return std::isnan(x); })) return result;
  std::sort(drawn.begin(), drawn.end());
  result.low = drawn[static_cast<std::size_t>(resamples * 25 / 1000)];
  result.high = drawn[static_cast<std::size_t>(resamples - 1 - resamples * 25 / 1000)];
  return result;
}

OriginErrors errors_at(Index horizon, const OriginErrors& all) {
  const auto first = static_cast<std::ptrdiff_t>((horizon - 1) * all.origins),
             last = first + static_cast<std::ptrdiff_t>(all.origins);
  return {1,
          all.origins,
          {all.squares.begin() + first, all.squares.begin() + last},
          {all.count.begin() + first, all.count.begin() + last}};
}

}  // namespace

PairedSkill paired_skill(const OriginErrors& model, const OriginErrors& baseline) {
  return skill_in_blocks(model, baseline, model.horizons);
}

PairedSkill paired_skill_at(Index horizon, const OriginErrors& model, const OriginErrors& baseline) {
  require(horizon >= 1 && horizon <= model.horizons, "a horizon that was scored");
  return skill_in_blocks(errors_at(horizon, model), errors_at(horizon, baseline), horizon);
}

}  // namespace rossby
