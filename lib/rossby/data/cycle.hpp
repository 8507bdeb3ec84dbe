#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/data/settings.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {

/// Steps that are alike: the values of data.cycle but for "auto".
enum class CycleKind : std::uint8_t { none, time_of_day, day_type, time_of_week, month, day_of_year };

inline constexpr CycleKind all_cycle_kinds[] = {CycleKind::none,     CycleKind::time_of_day,
                                                CycleKind::day_type, CycleKind::time_of_week,
                                                CycleKind::month,    CycleKind::day_of_year};

[[nodiscard]] std::string_view name_of(CycleKind kind);
/// `name` is a value of data.cycle other than "auto".
[[nodiscard]] CycleKind cycle_kind(std::string_view name);

/// The values of data.cycle and data.cycle_*.
struct CycleSpec {
  CycleKind kind = CycleKind::none;
  Index harmonics = 3;
  double shrink = 1;
  double smooth_minutes = 10;
};
/// With data.cycle = "auto" of the kind `decided`.
[[nodiscard]] CycleSpec cycle_spec(const DataSettings& data, CycleKind decided);

/// The phase of every step of a series in a cycle, at levels from coarse to fine, and its period. Time of
/// day; then type of day, weekday or weekend; then day of the week. Or month; or day of the year, whose
/// phases have harmonics. Without a cycle all steps are of one phase and one period.
struct CyclePhases {
  struct Level {
    Index count = 1;                    // phases
    std::vector<std::int32_t> of_step;  // (T)
  };
  CycleKind kind = CycleKind::none;
  std::vector<Level> levels;
  std::vector<std::int32_t> period;                  // (T), ascending: number of the day or year
  std::vector<std::vector<std::int32_t>> ancestors;  // (levels, phases of the finest): phases they belong to
  Index ring = 1;     // phases of the finest level that follow each other in time, the last and the first too
  double smooth = 0;  // standard deviation of their smoothing, in phases
  double a_phase = 1;         // values of a node in a phase of the coarsest level and a period
  Index harmonics = 0;        // of the year; 0: means of phases
  std::vector<double> basis;  // (phases, 2·harmonics): cos and sin of 2πk·(day + ½)/366, k = 1, 2, …

  [[nodiscard]] const Level& finest() const { return levels.back(); }
  /// Throws UserError naming data.cycle and the file's step where the axis has no such cycle.
  static CyclePhases of(const TimeAxis& axis, const CycleSpec& spec);
};

/// What one node's cycle is shrunk towards and how strongly, from all nodes.
struct PooledCycle {
  double mean = 0;            // of all nodes, for those without values
  double deviation = 0;       // likewise
  std::vector<double> shape;  // of phases of the coarsest level, or of the basis: in units of deviations
  std::vector<std::vector<double>> shape_without;  // (periods): the same without the values of that period
  std::vector<double> strength;  // of levels, or of harmonics: how many values the coarser one counts as
};

/// Fits a cycle to one node's values at the training steps, and to all of them but those of each period in
/// turn. Keeps what does not depend on the node. Means of phases: each phase of a level has
/// (Σx + k·coarser) / (N + k), the coarsest one's coarser value is mean + deviation·shape; then a Gaussian
/// smooths the finest level over phases in which the node has values. Harmonics: ridge regression towards
/// deviation·shape.
class CycleFitter {
 public:
  /// `steps` are the training steps, ascending. Both outlive the fitter.
  CycleFitter(const CyclePhases& phases, std::span<const Index> steps);

  [[nodiscard]] Index periods() const { return static_cast<Index>(ranges_.size()); }
  /// Places [first, last) in the training steps of a period.
  struct Range {
    std::size_t first, last;
  };
  [[nodiscard]] std::span<const Range> ranges() const { return ranges_; }
  [[nodiscard]] const CyclePhases& phases() const { return *phases_; }

  /// Scratch of a thread.
  struct Work {
    std::vector<std::vector<double>> sum, count;  // of levels; of harmonics one: products
    std::vector<double> table, saved;
  };

  /// full[φ] of the finest phases; without[j] at the training steps, from all periods but the step's own. `x`
  /// (training steps) is NaN where missing.
  void fit(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled, Work& work,
           std::span<float> full, std::span<double> without) const;

  /// Adds to the sums, moments() of them, from which strengths follow.
  void add_moments(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled,
                   Work& work, std::span<double> moments) const;
  [[nodiscard]] std::size_t moments() const;
  /// Ratios of variances within and between nodes: how many values the coarser cycle counts as (empirical
  /// Bayes: Efron and Morris, JASA 70, 1975), times `shrink`.
  [[nodiscard]] std::vector<double> strengths_of(std::span<const double> moments, double shrink) const;

  /// The pooled shape, and those without each period, from sums over nodes of standardised values and of
  /// their numbers at the training steps.
  void pool(std::span<const double> sums, std::span<const double> counts, PooledCycle& pooled) const;

 private:
  [[nodiscard]] std::size_t strengths() const;
  void take(std::span<const double> x, Work& work) const;
  [[nodiscard]] double mean_of(std::int32_t phase, double coarsest, const PooledCycle& pooled,
                               const Work& work) const;
  void fit_means(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled,
                 Work& work, std::span<float> full, std::span<double> without) const;
  void fit_harmonics(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled,
                     Work& work, std::span<float> full, std::span<double> without) const;
  void add_harmonic_moments(std::span<const double> x, double mean, double deviation,
                            const PooledCycle& pooled, std::span<double> moments) const;
  void add_products(std::span<const double> x, const Range& range, double sign,
                    std::vector<double>& products) const;
  [[nodiscard]] std::vector<double> solve(const std::vector<double>& products, double mean,
                                          std::span<const double> towards,
                                          std::span<const double> strength) const;

  const CyclePhases* phases_;
  std::span<const Index> steps_;
  std::vector<Range> ranges_;
  Index reach_ = 0;             // phases that smoothing looks at on each side
  std::vector<double> weight_;  // of them, from the phase itself on
  /// Finest phases that a period's steps are smoothed from, once each.
  std::vector<std::vector<std::int32_t>> needed_;
  [[nodiscard]] std::int32_t neighbour(std::int32_t phase, Index by) const;
};

}  // namespace rossby
