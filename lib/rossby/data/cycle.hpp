#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/data/settings.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby {

/// Kinds of similar steps: the values of data.cycle except "auto".
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
/// Settings with data.cycle; "auto" becomes the kind `decided`.
[[nodiscard]] CycleSpec cycle_spec(const DataSettings& data, CycleKind decided);

/// The phase of every step of a series in a cycle, at levels from coarse to fine, and its period. Either time
/// of day, then type of day (weekday or weekend), then day of the week; or month; or day of the year, whose
/// phases have harmonics. Without a cycle all steps have one phase and one period.
struct CyclePhases {
  struct Level {
    Index count = 1;                    // phases
    std::vector<std::int32_t> of_step;  // (T)
  };
  CycleKind kind = CycleKind::none;
  std::vector<Level> levels;
  std::vector<std::int32_t> period;                  // (T), ascending: number of the day or year
  std::vector<std::vector<std::int32_t>> ancestors;  // (levels, finest phases): coarser phase
  Index ring = 1;                                    // length of the rings of consecutive finest phases
  double smooth = 0;                                 // standard deviation of the smoothing, in phases
  double a_phase = 1;         // values per node, period and phase of the coarsest level
  Index harmonics = 0;        // of the year; 0: means of phases
  std::vector<double> basis;  // (phases, 2·harmonics): cos and sin of 2πk·(day + ½)/366, k = 1, 2, …

  [[nodiscard]] const Level& finest() const { return levels.back(); }
  /// Throws UserError with data.cycle and the file's step if the axis has no such cycle.
  static CyclePhases of(const TimeAxis& axis, const CycleSpec& spec);
};

/// The shape that one node's cycle is shrunk towards, and the strength, from all nodes.
struct PooledCycle {
  double mean = 0;            // over all nodes, for nodes without values
  double deviation = 0;       // as mean
  std::vector<double> shape;  // of the coarsest phases, or of the basis: in units of deviations
  std::vector<std::vector<double>> shape_without;  // (periods): shape without the values of that period
  std::vector<double> strength;  // by level or harmonic: number of values that the coarser one counts as
};

/// Fits a cycle to one node's values at the training steps, and to all of them except each period in turn.
/// Keeps what does not depend on the node.
///
/// Means of phases: each phase of a level has (Σx + k·coarser) / (N + k). For the coarsest level, the coarser
/// value is mean + deviation·shape. A Gaussian then smooths the finest level over phases with values of the
/// node. Harmonics: ridge regression towards deviation·shape.
class CycleFitter {
 public:
  /// `steps` are the training steps, ascending. Both arguments must outlive the fitter.
  CycleFitter(const CyclePhases& phases, std::span<const Index> steps);

  [[nodiscard]] Index periods() const { return static_cast<Index>(ranges_.size()); }
  /// A period's training steps, as indices [first, last).
  struct Range {
    std::size_t first, last;
  };
  [[nodiscard]] std::span<const Range> ranges() const { return ranges_; }
  [[nodiscard]] const CyclePhases& phases() const { return *phases_; }

  /// Scratch for one thread.
  struct Work {
    std::vector<std::vector<double>> sum, count;  // by level; for harmonics: products
    std::vector<double> table, saved;
  };

  /// Fills in full[φ] for the finest phases, and without[j] at the training steps, fitted without the step's
  /// own period. `x` (training steps) is NaN if missing.
  void fit(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled, Work& work,
           std::span<float> full, std::span<double> without) const;

  /// Adds to `moments`, the sums that strengths_of needs. Their number is moments().
  void add_moments(std::span<const double> x, double mean, double deviation, const PooledCycle& pooled,
                   Work& work, std::span<double> moments) const;
  [[nodiscard]] std::size_t moments() const;
  /// Ratios of variances within and between nodes, times `shrink`: the number of values that the coarser
  /// cycle counts as (empirical Bayes: Efron and Morris, JASA 70, 1975).
  [[nodiscard]] std::vector<double> strengths_of(std::span<const double> moments, double shrink) const;

  /// Computes the pooled shape, and the shapes without each period. `sums` and `counts`: over nodes, of
  /// standardised values at the training steps.
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
  Index reach_ = 0;             // phases on each side within the smoothing
  std::vector<double> weight_;  // by distance in phases, from 0
  /// Finest phases that the smoothing of a period's steps needs, once each.
  std::vector<std::vector<std::int32_t>> needed_;
  [[nodiscard]] std::int32_t neighbour(std::int32_t phase, Index by) const;
};

}  // namespace rossby
