#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/spd_solver.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Takes the forecasts of one horizon (1, 2, …) from all origins, (rows, origins, features), strided, valid
/// during the call.
using HorizonSink = std::function<void(Index horizon, NodeView<const float> forecast)>;

/// A classical forecaster that a model has to beat. Works on the rank's rows of the series; where it needs
/// sums over all nodes they go through the Reducer, so fit and forecast are collective. Features are forecast
/// one by one: their units differ. Everything is fitted on training steps alone. Units: those of the series
/// it was given.
class Baseline {
 public:
  virtual ~Baseline() = default;

  /// Its key in evaluation.json.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// From the training steps of the split; missing values are left out of means and of AR coefficients, and
  /// stand at their node's mean elsewhere.
  virtual void fit(const Series& series, const Split& split, Reducer& reducer) = 0;

  /// How it was fitted, where there was a choice; empty: nothing to say. The same on every rank.
  [[nodiscard]] virtual std::string remark() const { return ""; }

  /// Forecasts for steps origin + 1, …, origin + horizons of all origins (ascending, inside the series), one
  /// call of the sink a horizon. `series` is the one it was fitted on; only values up to an origin enter its
  /// forecasts, which are never NaN.
  virtual void forecast(const Series& series, std::span<const Index> origins, Index horizons,
                        Reducer& reducer, const HorizonSink& sink) const = 0;
};

struct BaselineSettings {
  Index horizons = 0;          // that direct_ar and direct_ridge have a regression for; 0: without these
  AnomalySpec anomalies = {};  // their transform, and how cycles are shrunk and smoothed
  bool median = false;         // of transformed values: data.point
  int threads = 1;
  std::vector<double> centers = {};  // was subtracted from the series, (rows, features); empty: nothing
  Index lim_modes = 20;              // evaluate.lim_modes
  double ridge = 3;                  // evaluate.ridge
  Index gram_steps = 4096;  // linear inverse model and dual ridge VAR use the last so many training steps:
                            // T×T memory, T³ time
  std::string var_solver = "auto";    // evaluate.var_solver
  const SpdSolver* solver = nullptr;  // null: dense solutions alone
};

/// Persistence: the last observed value; before any, the node's training mean.
[[nodiscard]] std::unique_ptr<Baseline> make_persistence();

/// Climatology: the mean of the node's training steps, the same at every horizon.
[[nodiscard]] std::unique_ptr<Baseline> make_climatology();

/// Time of week ("historical average"): the mean of the training steps at the same time of the same weekday;
/// where there was none, at the same time of any day, then of all steps; of daily series the mean of the
/// weekday. Null where the axis has no dates or its step does not divide a day.
[[nodiscard]] std::unique_ptr<Baseline> make_time_of_week(const TimeAxis& axis);

/// Annual cycle: the mean of the training steps of the same month; where there was none, of all steps. Null
/// where the axis has no dates, spans less than two years or has steps of more than a month that are not a
/// part of a year.
[[nodiscard]] std::unique_ptr<Baseline> make_annual_cycle(const TimeAxis& axis);

/// AR(1) about the node's training mean, a = Σ x'(t+1)·x'(t) / Σ x'(t)², from the last observed value.
[[nodiscard]] std::unique_ptr<Baseline> make_ar1();

/// Linear inverse model (Penland and Sardeshmukh, J. Climate 8, 1995): one-step least-squares propagator
/// between the amplitudes of the leading EOFs of the training anomalies, and an AR(1) a node on what the EOFs
/// leave. Memory O(T² + rows·(modes + origins)).
[[nodiscard]] std::unique_ptr<Baseline> make_linear_inverse_model(const BaselineSettings& settings);

/// Vector autoregression with two lags by ridge regression: y = x'(t+1) − a∘x'(t) (a: AR(1)) on φ = [x'(t),
/// x'(t−1)] with ridge λ = settings.ridge × mean eigenvalue of the Gram matrix Φ·Φᵀ (T×T); further horizons
/// by iteration. How it is solved, `settings.var_solver` or the sizes say when it is fitted:
///
/// * few steps: in its dual form y(φ) = φΦᵀ·(ΦΦᵀ + λI)⁻¹·Y, by Cholesky; memory O(T² + rows·origins);
/// * few nodes: in its primal form (ridge_regression.hpp), by Cholesky; memory O(n²);
/// * many of both: the primal form by `settings.solver`; memory O(rows·n);
/// * too many: the dual form of the last `gram_steps` training steps, which remark() says.
///
/// Throws UserError where evaluate.ridge = 0 leaves a singular system, or the solver that is asked for is out
/// of the question.
[[nodiscard]] std::unique_ptr<Baseline> make_ridge_var(const BaselineSettings& settings);

/// Its dual form, whatever the sizes, of the last `gram_steps` training steps.
[[nodiscard]] std::unique_ptr<Baseline> make_dual_ridge_var(const BaselineSettings& settings);

/// The cycle of data.cycle that has the smallest error of the validation part, or each node's mean: of the
/// training part, shrunk and smoothed (AnomalyMap). Without a validation part five blocked folds
/// of the training part decide. `axis` outlives it.
[[nodiscard]] std::unique_ptr<Baseline> make_cycle(const BaselineSettings& settings, const TimeAxis& axis);

/// Direct regressions of anomalies, one for each horizon up to `settings.horizons`: of each node on its own
/// past (OwnRegression). The cycle that anomalies are about, a linear trend, lags, further regressors and the
/// pull of each horizon are those with the smallest error of the part that decides. Missing values are filled
/// (FactorModel). Memory: two copies of the series, four if values are missing. `axis` outlives it.
[[nodiscard]] std::unique_ptr<Baseline> make_direct_ar(const BaselineSettings& settings,
                                                       const TimeAxis& axis);

/// The same, and what that leaves by ridge regression on the anomalies of all nodes at 1, 2, 3 or 6 lags;
/// these and λ of each horizon are chosen alike. In primal form for up to 1024 regressors, else in dual form
/// of the last 1024 training steps.
[[nodiscard]] std::unique_ptr<Baseline> make_direct_ridge(const BaselineSettings& settings,
                                                          const TimeAxis& axis);

/// All, in the order of tables and files: persistence, climatology, ar1, lim, ridge_var; with an axis also
/// annual_cycle and time_of_week, if it has them, after climatology, and with settings.horizons of 1 to 60 at
/// the end cycle, direct_ar and direct_ridge.
[[nodiscard]] std::vector<std::unique_ptr<Baseline>> classical_baselines(const BaselineSettings& settings,
                                                                         const TimeAxis* axis = nullptr);

}  // namespace rossby
