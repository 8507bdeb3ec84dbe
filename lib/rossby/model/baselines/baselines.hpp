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

/// Receives the forecasts of one horizon (1, 2, …) from all origins: (rows, origins, features), strided. They
/// are valid during the call.
using HorizonSink = std::function<void(Index horizon, NodeView<const float> forecast)>;

/// A classical forecaster that a model should beat. It works on the rank's rows of the series. Sums over all
/// nodes go through the Reducer, so fit and forecast are collective. Each feature is forecast separately
/// because units differ. Everything is fitted on training steps alone. Units are those of the given series.
class Baseline {
 public:
  virtual ~Baseline() = default;

  /// Returns its key in evaluation.json.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Fits to the training steps of the split. Means and AR coefficients ignore missing values; elsewhere a
  /// missing value is replaced by its node's mean.
  virtual void fit(const Series& series, const Split& split, Reducer& reducer) = 0;

  /// Returns a remark on the fit if there was a choice; empty: none. The same on every rank.
  [[nodiscard]] virtual std::string remark() const { return ""; }

  /// Returns the settings that the last fit selected, as a text for fit_as; empty: it selects none.
  [[nodiscard]] virtual std::string chosen() const { return ""; }

  /// Fits to the training steps of the split with the settings `chosen` by an earlier fit. Selects nothing,
  /// so that no other step is read. Throws UserError if the text is not valid in this version.
  virtual void fit_as(const std::string& chosen, const Series& series, const Split& split, Reducer& reducer) {
    require(chosen.empty(), "a baseline that selects settings");
    fit(series, split, reducer);
  }

  /// Forecasts steps origin + 1, …, origin + horizons of all origins (ascending, inside the series), with one
  /// call of the sink per horizon. `series` is the series of the fit. Only values up to an origin enter its
  /// forecasts, which are never NaN.
  virtual void forecast(const Series& series, std::span<const Index> origins, Index horizons,
                        Reducer& reducer, const HorizonSink& sink) const = 0;
};

struct BaselineSettings {
  Index horizons = 0;          // number of regressions of direct_ar and direct_ridge; 0: without these
  AnomalySpec anomalies = {};  // transform of anomalies; shrinkage and smoothing of cycles
  bool median = false;         // the median of transformed values: data.point
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

/// Time of week ("historical average"): the mean of the training steps at the same time of the same weekday.
/// If there was none, the mean at the same time of any day, then of all steps. For daily series, the mean of
/// the weekday. Returns null if the axis has no dates or its step does not divide a day.
[[nodiscard]] std::unique_ptr<Baseline> make_time_of_week(const TimeAxis& axis);

/// Annual cycle: the mean of the training steps of the same month; if there was none, of all steps. Returns
/// null if the axis has no dates, spans less than two years, or has steps longer than a month that do not
/// divide a year.
[[nodiscard]] std::unique_ptr<Baseline> make_annual_cycle(const TimeAxis& axis);

/// AR(1) about the node's training mean, a = Σ x'(t+1)·x'(t) / Σ x'(t)², from the last observed value.
[[nodiscard]] std::unique_ptr<Baseline> make_ar1();

/// Linear inverse model (Penland and Sardeshmukh, J. Climate 8, 1995): a one-step least-squares propagator
/// between the amplitudes of the leading EOFs of the training anomalies, and one AR(1) per node for the
/// residuals. Memory O(T² + rows·(modes + origins)).
[[nodiscard]] std::unique_ptr<Baseline> make_linear_inverse_model(const BaselineSettings& settings);

/// Vector autoregression with two lags by ridge regression: y = x'(t+1) − a∘x'(t) (a: AR(1)) on φ = [x'(t),
/// x'(t−1)], with ridge λ = settings.ridge × mean eigenvalue of the Gram matrix Φ·Φᵀ (T×T). Further horizons
/// are iterated. `settings.var_solver` or the sizes select the solver at the fit:
///
/// * few steps: in its dual form y(φ) = φΦᵀ·(ΦΦᵀ + λI)⁻¹·Y, by Cholesky; memory O(T² + rows·origins);
/// * few nodes: in its primal form (ridge_regression.hpp), by Cholesky; memory O(n²);
/// * many of both: the primal form by `settings.solver`; memory O(rows·n);
/// * too many: the dual form of the last `gram_steps` training steps, as remark() reports.
///
/// Throws UserError if evaluate.ridge = 0 leaves a singular system, or if the requested solver cannot be
/// used.
[[nodiscard]] std::unique_ptr<Baseline> make_ridge_var(const BaselineSettings& settings);

/// The dual form of the last `gram_steps` training steps, whatever the sizes.
[[nodiscard]] std::unique_ptr<Baseline> make_dual_ridge_var(const BaselineSettings& settings);

/// The cycle of data.cycle with the smallest error on the validation part, or each node's mean. Cycles come
/// from the training part, shrunk and smoothed (AnomalyMap). Without a validation part, five blocked folds of
/// the training part decide. `axis` must outlive the baseline.
[[nodiscard]] std::unique_ptr<Baseline> make_cycle(const BaselineSettings& settings, const TimeAxis& axis);

/// Direct regressions of anomalies, one for each horizon up to `settings.horizons`, of each node on its own
/// past (OwnRegression). The errors on the validation part or on folds select the cycle of the anomalies, a
/// linear trend, and for each horizon lags, further regressors and shrinkage. Missing values are filled
/// (FactorModel). Memory: two copies of the series, four if values are missing. `axis` must outlive the
/// baseline.
[[nodiscard]] std::unique_ptr<Baseline> make_direct_ar(const BaselineSettings& settings,
                                                       const TimeAxis& axis);

/// The same with a ridge regression of the residuals on the anomalies of all nodes at 1, 2, 3 or 6 lags. Lags
/// and λ of each horizon are selected in the same way. Uses the primal form for up to 1024 regressors, else
/// the dual form of the last 1024 training steps.
[[nodiscard]] std::unique_ptr<Baseline> make_direct_ridge(const BaselineSettings& settings,
                                                          const TimeAxis& axis);

/// Returns cycle, direct_ar and direct_ridge. The two regressions search for cycles, lags and shrinkage once
/// if both are fitted to the same series and split.
[[nodiscard]] std::vector<std::unique_ptr<Baseline>> make_direct_baselines(const BaselineSettings& settings,
                                                                           const TimeAxis& axis);

/// Returns all baselines in the order of tables and files: persistence, climatology, ar1, lim, ridge_var.
/// With an axis, annual_cycle and time_of_week follow climatology if the axis has them. With
/// settings.horizons of 1 to 60, cycle, direct_ar and direct_ridge come last.
[[nodiscard]] std::vector<std::unique_ptr<Baseline>> classical_baselines(const BaselineSettings& settings,
                                                                         const TimeAxis* axis = nullptr);

}  // namespace rossby
