#include "rossby/train/choice.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/random.hpp"

namespace rossby {
namespace {

constexpr std::size_t draws = 8000;

double quantile(const std::vector<double>& ascending, double share) {
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double part = at - static_cast<double>(below);
  return (1 - part) * ascending[below] + part * ascending[above];
}

/// Draw number `draw` of a contender's log error; `gain` is that of the draw.
double draw_error(const Contender& contender, double gain, const Random& random, std::size_t draw) {
  double error = contender.error.mean + contender.error.sd * random.normal(draw);
  if (contender.ends_with_decay) error += gain;
  return std::min(error, std::log(contender.best_so_far));
}

}  // namespace

void shrink(std::span<Contender> contenders, std::span<const double> expected) {
  constexpr double usual = 0.08, weight = 4;  // spread of most data sets, and what it weighs in contenders
  double variance = usual * usual, level = 0;
  for (int round = 0; round < 20; ++round) {
    double sum = 0, weights = 0, excess = 0;
    for (std::size_t k = 0; k < contenders.size(); ++k) {
      const LogError& error = contenders[k].error;
      const double precision = 1 / (variance + error.sd * error.sd);
      sum += precision * (error.mean - expected[k]);
      weights += precision;
    }
    if (weights == 0) return;
    level = sum / weights;
    for (std::size_t k = 0; k < contenders.size(); ++k) {
      const LogError& error = contenders[k].error;
      const double deviation = error.mean - expected[k] - level;
      // Posterior mean of the squared deviation (expectation-maximisation).
      const double part = variance / (variance + error.sd * error.sd);
      excess += part * part * deviation * deviation + part * error.sd * error.sd;
    }
    variance = (weight * usual * usual + excess) / (weight + static_cast<double>(contenders.size()));
  }
  for (std::size_t k = 0; k < contenders.size(); ++k) {
    LogError& error = contenders[k].error;
    const double part = variance / (variance + error.sd * error.sd);
    error.mean = part * error.mean + (1 - part) * (level + expected[k]);
    error.sd *= std::sqrt(part);
  }
}

std::vector<Chances> chances(std::span<const Contender> contenders, const CurveTrust& trust,
                             std::uint64_t seed) {
  const std::size_t count = contenders.size();
  std::vector<Chances> all(count);
  if (count == 0) return all;
  const Random random(seed, "profile.chances"), gains(seed, "profile.gain"), seeds(seed, "profile.seeds");
  std::vector<std::vector<double>> drawn(count, std::vector<double>(draws));
  std::vector<double> least(draws, std::numeric_limits<double>::infinity());
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t d = 0; d < draws; ++d) {
      const double gain = trust.gain + trust.gain_sd * gains.normal(d);
      drawn[k][d] = draw_error(contenders[k], gain, random.at(k), d);
      least[d] = std::min(least[d], drawn[k][d]);
    }
  std::vector<double> sharing(draws);  // contenders that share the best error of a draw
  for (std::size_t d = 0; d < draws; ++d)
    for (std::size_t k = 0; k < count; ++k) sharing[d] += drawn[k][d] <= least[d] ? 1 : 0;
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t d = 0; d < draws; ++d) {
      if (drawn[k][d] <= least[d]) all[k].probability_best += 1 / sharing[d];
      all[k].regret += std::exp(drawn[k][d] - least[d]) - 1;
    }
    all[k].probability_best /= static_cast<double>(draws);
    all[k].regret /= static_cast<double>(draws);
    std::sort(drawn[k].begin(), drawn[k].end());
    all[k].predicted = std::exp(quantile(drawn[k], 0.5));
    const Random others = seeds.at(k);
    for (std::size_t d = 0; d < draws; ++d) drawn[k][d] += contenders[k].seeds * others.normal(d);
    std::sort(drawn[k].begin(), drawn[k].end());
    all[k].low = std::exp(quantile(drawn[k], 0.05));
    all[k].high = std::exp(quantile(drawn[k], 0.95));
  }
  return all;
}

Index least_regret(std::span<const Chances> chances) {
  Index least = -1;
  for (std::size_t k = 0; k < chances.size(); ++k)
    if (least < 0 || chances[k].regret < chances[static_cast<std::size_t>(least)].regret)
      least = static_cast<Index>(k);
  return least;
}

}  // namespace rossby
