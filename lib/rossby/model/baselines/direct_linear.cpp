// Direct linear forecasts of anomalies, with a regression for each lead time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include <cblas.h>
#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/cross_regression.hpp"
#include "rossby/model/baselines/cycle_search.hpp"
#include "rossby/model/baselines/deciding_splits.hpp"
#include "rossby/model/baselines/direct_choices.hpp"
#include "rossby/model/baselines/own_regression.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr Index block_of_rows = 64;  // solved for at once
constexpr Index folds = 5;           // used if there is no validation part

enum class Kind { cycle, ar, ridge };

/// The cycle alone, with regressions of each node on its own past, or with regressions on all nodes as well.
class DirectLinear final : public Baseline {
 public:
  DirectLinear(Kind kind, const BaselineSettings& settings, const TimeAxis& axis,
               std::shared_ptr<CycleSearch> search = std::make_shared<CycleSearch>())
      : kind_(kind), settings_(settings), axis_(&axis), search_(std::move(search)) {}

  [[nodiscard]] std::string_view name() const override {
    return kind_ == Kind::cycle ? "cycle" : kind_ == Kind::ar ? "direct_ar" : "direct_ridge";
  }
  [[nodiscard]] std::string remark() const override { return remark_; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    require(axis_->size() == series.steps, "the time axis is that of the series");
    const std::vector<Split> deciding = deciding_splits(split, folds);
    const bool lent = split.validation.empty();
    cross_choices_.clear();
    search_->run(settings_.anomalies, kind_ != Kind::cycle, series, split, deciding, reducer,
                 [&](const AnomalySpec& spec, std::span<const Split> by, std::vector<OwnChoice>& choices) {
                   return error_about(spec, series, by, choices, reducer);
                 });
    about_ = search_->about;
    own_choices_ = search_->choices;
    if (kind_ == Kind::ridge) choose_cross(series, deciding, reducer);
    if (kind_ != Kind::ridge || lent) fit_about(about_, series, split, reducer);
    const bool bare = about_.cycle.kind == CycleKind::none;
    remark_ = fmt::format("{}: anomalies from {}; RMSE of {} with each cycle: {}", name(),
                          !bare          ? "the cycle " + CycleSearch::text_of(about_)
                          : about_.trend ? "a linear trend"
                                         : "the mean",
                          lent ? "folds of the training part" : "the validation part", search_->tried);
  }

  [[nodiscard]] std::string chosen() const override {
    return DirectChoices{about_, own_choices_, cross_choices_}.text();
  }

  void fit_as(const std::string& chosen, const Series& series, const Split& split,
              Reducer& reducer) override {
    require(axis_->size() == series.steps, "the time axis is that of the series");
    DirectChoices choices = DirectChoices::parse(chosen, leads(), settings_.anomalies);
    about_ = choices.about;
    own_choices_ = std::move(choices.own);
    cross_choices_ = std::move(choices.cross);
    fit_about(about_, series, split, reducer);
    remark_ = fmt::format("{}: choices of the training: {}", name(), chosen);
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    require(horizons <= leads(), "direct forecasts have a regression for each horizon");
    constexpr Index held = Index{1} << 24;  // number of forecasts in memory
    const Index width = series.rows * series.features, count = std::ssize(origins);
    const Index at_once = std::clamp<Index>(held / std::max<Index>(count * width, 1), 1, horizons);
    std::map<Key, std::vector<double>> regressors;
    std::map<std::pair<Key, int>, std::vector<double>> weights;  // only those that a horizon uses
    for (const auto& [key, cross] : crosses_) {
      const std::vector<double> products = cross->products(origins, reducer);
      regressors[key] = cross->training_regressors(reducer);
      for (const CrossChoice& choice : cross_choices_)
        if (choice.form == key.second && !weights.contains({key, choice.ridge}))
          weights[{key, choice.ridge}] = cross->weights(cross_ridges[choice.ridge], products);
    }
    Buffer<float> values(at_once * count * width);
    std::vector<double> variance(as_size(at_once * width));
    for (Index first = 1; first <= horizons; first += at_once) {
      const Index some = std::min(at_once, horizons + 1 - first);
      std::fill(values.begin(), values.end(), 0.0F);
      if (kind_ != Kind::cycle) add_own(origins, first, some, values, variance);
      for (Index h = first; h < first + some; ++h) {
        float* of_horizon = values.data() + (h - first) * count * width;
        if (kind_ == Kind::ridge) add_cross(h, count, weights, regressors, of_horizon);
        for (Index o = 0; o < count; ++o)
          for (Index c = 0; c < width; ++c) {
            float& x = of_horizon[o * width + c];
            x = static_cast<float>(anomalies_->map.to_value(
                static_cast<double>(x) + anomalies_->mean[as_size(c)], origins[as_size(o)] + h, c,
                variance[as_size((h - first) * width + c)]));
          }
        sink(h, {of_horizon, series.rows, count, series.features, series.features, width});
      }
    }
  }

 private:
  using Key = std::pair<Index, int>;  // feature, and index into cross_forms

  [[nodiscard]] Index leads() const { return settings_.horizons; }
  [[nodiscard]] Index rows() const { return anomalies_->full.rows; }
  [[nodiscard]] Index features() const { return anomalies_->full.features; }

  /// Returns the number of different forms: without a cycle, there is no own period.
  static int forms_about(const AnomalySpec& spec) {
    return static_cast<int>(std::size(cross_forms)) / (spec.cycle.kind == CycleKind::none ? 2 : 1);
  }

  void fit_about(const AnomalySpec& spec, const Series& series, const Split& split, Reducer& reducer) {
    auto anomalies = std::make_unique<AnomalySeries>(
        AnomalySeries::of(series, settings_.centers, split, *axis_, spec, reducer, kind_ != Kind::cycle));
    crosses_.clear();
    own_.reset();
    anomalies_ = std::move(anomalies);
    if (kind_ == Kind::cycle) return;
    own_ = std::make_unique<OwnRegression>(*anomalies_, split, *axis_, spec.cycle.kind, leads(),
                                           settings_.threads, reducer);
    training_.clear();
    for (const Index t : own_->training_origins(leads())) {
      bool all = true;
      for (Index h = 1; h < leads(); ++h) all = all && split.is_training(t + h);
      if (all) training_.push_back(t);
    }
    const int forms = kind_ == Kind::ridge ? forms_about(spec) : 0;
    const auto is_used = [this](int form) {  // all forms, until there is a choice
      return cross_choices_.empty() || std::any_of(cross_choices_.begin(), cross_choices_.end(),
                                                   [&](const CrossChoice& one) { return one.form == form; });
    };
    for (int l = 0; l < forms; ++l)
      for (Index f = 0; f < series.features && is_used(l); ++f)
        crosses_[{f, l}] =
            std::make_unique<CrossRegression>(*anomalies_, training_, f, cross_forms[l].lags,
                                              cross_forms[l].own_period, settings_.solver, reducer);
  }

  /// Returns the mean over leads of the RMSE of the best own regressions, or of the cycle alone.
  double error_about(const AnomalySpec& spec, const Series& series, std::span<const Split> deciding,
                     std::vector<OwnChoice>& choices, Reducer& reducer) {
    const Kind asked = std::exchange(kind_, kind_ == Kind::ridge ? Kind::ar : kind_);
    const struct Back {
      Kind& kind;
      Kind asked;
      ~Back() { kind = asked; }
    } back{kind_, asked};
    const auto kinds = kind_ == Kind::cycle ? 1 : std::ssize(OwnRegression::choices());
    std::vector<double> errors(as_size(leads() * kinds)), targets(as_size(leads()));
    for (const Split& split : deciding) {
      fit_about(spec, series, split, reducer);
      const std::vector<Index> origins = split.origins(Role::validation, leads());
      std::vector<double> number;
      const std::vector<double> squares = kind_ == Kind::cycle ? anomaly_errors(origins, number, reducer)
                                                               : own_->errors(origins, number, reducer);
      for (std::size_t k = 0; k < squares.size(); ++k) errors[k] += squares[k];
      for (std::size_t k = 0; k < number.size(); ++k) targets[k] += number[k];
    }
    choices.assign(as_size(leads()), OwnChoice{});
    double sum = 0;
    for (Index h = 0; h < leads(); ++h) {
      if (targets[as_size(h)] == 0) continue;
      const auto first = errors.begin() + h * kinds, least = std::min_element(first, first + kinds);
      choices[as_size(h)] = OwnRegression::choices()[static_cast<std::size_t>(least - first)];
      sum += std::sqrt(*least / targets[as_size(h)]);
    }
    return sum / static_cast<double>(leads());
  }

  /// Returns Σ squares and the number of the anomalies of all targets, (leads).
  [[nodiscard]] std::vector<double> anomaly_errors(std::span<const Index> origins,
                                                   std::vector<double>& targets, Reducer& reducer) const {
    std::vector<double> squares(as_size(leads()));
    targets.assign(as_size(leads()), 0.0);
    for (const Index origin : origins)
      for (Index c = 0; c < rows() * features(); ++c)
        if (const double x = anomalies_->full.at(origin + 1)[c]; !std::isnan(x))
          squares[0] += x * x, targets[0] += 1;
    reducer.sum(std::span<double>(squares));
    reducer.sum(std::span<double>(targets));
    std::fill(squares.begin() + 1, squares.end(), squares[0]);  // a cycle has the same error at every lead
    std::fill(targets.begin() + 1, targets.end(), targets[0]);
    return squares;
  }

  /// Calls body(feature, first row, rows) for blocks of columns of one feature.
  template <class Body>
  void for_blocks(const Body& body) const {
    for (Index f = 0; f < features(); ++f)
      for (Index first = 0; first < rows(); first += block_of_rows)
        body(f, first, std::min(block_of_rows, rows() - first));
  }

  /// Selects lags and ridge of each lead, or no cross regression if the own regressions have the smaller
  /// error.
  void choose_cross(const Series& series, std::span<const Split> deciding, Reducer& reducer) {
    const auto kinds = forms_about(about_) * static_cast<Index>(std::size(cross_ridges)) + 1;
    std::vector<double> errors(as_size(leads() * kinds));
    for (const Split& split : deciding) {
      fit_about(about_, series, split, reducer);
      add_cross_errors(split.origins(Role::validation, leads()), errors, reducer);
    }
    reducer.sum(std::span<double>(errors));
    cross_choices_.assign(as_size(leads()), CrossChoice{});
    for (Index h = 0; h < leads(); ++h) {
      const auto first = errors.begin() + h * kinds;
      const auto least = static_cast<int>(std::min_element(first, first + kinds) - first);
      constexpr int of_ridges = static_cast<int>(std::size(cross_ridges));
      if (least > 0) cross_choices_[as_size(h)] = {(least - 1) / of_ridges, (least - 1) % of_ridges};
    }
  }

  /// Adds Σ squared errors of this rank's rows: (leads, 1 + forms · ridges), first without cross regression.
  void add_cross_errors(std::span<const Index> origins, std::span<double> errors, Reducer& reducer) const {
    const Index count = std::ssize(origins), width = rows() * features();
    const int forms = forms_about(about_);
    const auto kinds = forms * static_cast<Index>(std::size(cross_ridges)) + 1;
    std::map<Key, std::vector<double>> regressors;
    std::map<Key, std::vector<std::vector<double>>> weights;  // of each ridge
    for (const auto& [key, cross] : crosses_) {
      const std::vector<double> products = cross->products(origins, reducer);
      regressors[key] = cross->training_regressors(reducer);
      for (const double ridge : cross_ridges) weights[key].push_back(cross->weights(ridge, products));
    }
    for_blocks([&](Index f, Index first, Index some) {
      std::vector<float> left(as_size(leads() * count * some)), forecast(as_size(leads() * count));
      for (Index j = 0; j < some; ++j) {
        const Index c = (first + j) * features() + f;
        own_->forecasts(c, 1, own_choices_, origins, forecast, {});
        for (Index h = 0; h < leads(); ++h)
          for (Index o = 0; o < count; ++o)
            left[as_size((h * count + o) * some + j)] =
                anomalies_->full.values[(origins[as_size(o)] + h + 1) * width + c] -
                forecast[as_size(h * count + o)];
      }
      std::vector<double> correction;
      std::map<std::pair<bool, std::size_t>, std::vector<float>> known;  // residuals
      for (int l = 0; l < forms; ++l) {
        const CrossRegression& cross = *crosses_.at({f, l});
        std::vector<float>& residuals = known[{cross_forms[l].own_period, cross.steps().size()}];
        if (residuals.empty())
          residuals = training_residuals(cross, cross_forms[l], f, first, some, 1, leads());
        for (Index h = 0; h < leads(); ++h) {
          const auto add = [&](Index kind) {
            for (Index k = 0; k < count * some; ++k) {
              const double error = static_cast<double>(left[as_size(h * count * some + k)]) -
                                   (kind > 0 ? correction[as_size(k)] : 0);
              if (!std::isnan(error)) errors[as_size(h * kinds + kind)] += error * error;
            }
          };
          if (l == 0) add(0);
          const std::vector<double> right =
              right_hand_sides(cross, regressors.at({f, l}), residuals, h, some);
          for (std::size_t r = 0; r < std::size(cross_ridges); ++r) {
            correction.assign(as_size(count * some), 0.0);
            add_product(weights.at({f, l})[r], right, cross.size(), some, correction);
            add(1 + l * static_cast<Index>(std::size(cross_ridges)) + static_cast<Index>(r));
          }
        }
      }
    });
  }

  /// Returns the residuals of the own regressions at training targets of some rows, for leads from `lead` on:
  /// (leads, steps, rows). 0 if the target is missing.
  [[nodiscard]] std::vector<float> training_residuals(const CrossRegression& cross, const CrossForm& form,
                                                      Index f, Index first, Index some, Index lead,
                                                      Index count) const {
    const Index steps = std::ssize(cross.steps());
    const std::span<const OwnChoice> choices =
        std::span<const OwnChoice>(own_choices_).subspan(as_size(lead - 1), as_size(count));
    std::vector<float> residuals(as_size(count * steps * some)), one(as_size(count * steps));
    for (Index j = 0; j < some; ++j) {
      own_->training_residuals((first + j) * features() + f, lead, choices, form.own_period, cross.steps(),
                               one);
      for (Index k = 0; k < count * steps; ++k)
        residuals[as_size(k * some + j)] = std::isnan(one[as_size(k)]) ? 0 : one[as_size(k)];
    }
    return residuals;
  }

  /// Returns right-hand sides of the residuals of lead index h, (rows, size()).
  [[nodiscard]] static std::vector<double> right_hand_sides(const CrossRegression& cross,
                                                            std::span<const double> all,
                                                            std::span<const float> residuals, Index h,
                                                            Index some) {
    const Index size = std::ssize(cross.steps()) * some;
    const auto begin = residuals.begin() + h * size;
    return cross.right_hand_sides(std::vector<double>(begin, begin + size), some, all);
  }

  /// out (origins, rows) += weights (origins, size) · right (rows, size)ᵀ.
  static void add_product(std::span<const double> weights, std::span<const double> right, Index size,
                          Index some, std::span<double> out) {
    if (weights.empty() || some == 0) return;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(std::ssize(weights) / size),
                static_cast<int>(some), static_cast<int>(size), 1.0, weights.data(), static_cast<int>(size),
                right.data(), static_cast<int>(size), 1.0, out.data(), static_cast<int>(some));
  }

  /// Adds the own regressions' forecasts for `some` horizons, (horizons, origins, columns), and returns the
  /// variance of their residuals (horizons, columns), which the mean of a transformed value needs.
  void add_own(std::span<const Index> origins, Index first, Index some, Buffer<float>& values,
               std::vector<double>& variance) const {
    const Index width = rows() * features(), count = std::ssize(origins);
    const bool varies = anomalies_->map.transform().on() && !settings_.median;
    const std::span<const OwnChoice> choices =
        std::span<const OwnChoice>(own_choices_).subspan(as_size(first - 1), as_size(some));
#ifdef _OPENMP
#pragma omp parallel for num_threads(settings_.threads) schedule(dynamic, 8)
#endif
    for (Index c = 0; c < width; ++c) {
      std::vector<float> one(as_size(some * count));
      std::vector<double> of_leads(varies ? as_size(some) : 0);
      own_->forecasts(c, first, choices, origins, one, of_leads);
      for (Index k = 0; k < some * count; ++k) values[k * width + c] = one[as_size(k)];
      for (std::size_t k = 0; k < of_leads.size(); ++k)
        variance[k * as_size(width) + as_size(c)] = of_leads[k];
    }
  }

  /// Adds the corrections of one horizon. `weights` and `regressors` are keyed by feature and form.
  void add_cross(Index h, Index count, const std::map<std::pair<Key, int>, std::vector<double>>& weights,
                 const std::map<Key, std::vector<double>>& regressors, float* out) const {
    const CrossChoice choice = cross_choices_[as_size(h - 1)];
    if (choice.form < 0) return;
    std::vector<double> correction;
    for_blocks([&](Index f, Index first, Index some) {
      const Key key{f, choice.form};
      const CrossRegression& cross = *crosses_.at(key);
      const std::vector<double> right = right_hand_sides(
          cross, regressors.at(key),
          training_residuals(cross, cross_forms[choice.form], f, first, some, h, 1), 0, some);
      correction.assign(as_size(count * some), 0.0);
      add_product(weights.at({key, choice.ridge}), right, cross.size(), some, correction);
      for (Index o = 0; o < count; ++o)
        for (Index j = 0; j < some; ++j)
          out[o * rows() * features() + (first + j) * features() + f] +=
              static_cast<float>(correction[as_size(o * some + j)]);
    });
  }

  Kind kind_;
  BaselineSettings settings_;
  const TimeAxis* axis_;
  AnomalySpec about_;
  std::shared_ptr<CycleSearch> search_;
  std::vector<OwnChoice> own_choices_;      // of each lead
  std::vector<CrossChoice> cross_choices_;  // of each lead
  std::unique_ptr<AnomalySeries> anomalies_;
  std::unique_ptr<OwnRegression> own_;
  std::vector<Index> training_;  // steps whose targets at all leads are training steps
  std::map<Key, std::unique_ptr<CrossRegression>> crosses_;
  std::string remark_;
};

}  // namespace

std::vector<std::unique_ptr<Baseline>> make_direct_baselines(const BaselineSettings& settings,
                                                             const TimeAxis& axis) {
  const auto search = std::make_shared<CycleSearch>();
  std::vector<std::unique_ptr<Baseline>> all;
  all.push_back(make_cycle(settings, axis));
  all.push_back(std::make_unique<DirectLinear>(Kind::ar, settings, axis, search));
  all.push_back(std::make_unique<DirectLinear>(Kind::ridge, settings, axis, search));
  return all;
}

std::unique_ptr<Baseline> make_cycle(const BaselineSettings& settings, const TimeAxis& axis) {
  return std::make_unique<DirectLinear>(Kind::cycle, settings, axis);
}

std::unique_ptr<Baseline> make_direct_ar(const BaselineSettings& settings, const TimeAxis& axis) {
  return std::make_unique<DirectLinear>(Kind::ar, settings, axis);
}

std::unique_ptr<Baseline> make_direct_ridge(const BaselineSettings& settings, const TimeAxis& axis) {
  return std::make_unique<DirectLinear>(Kind::ridge, settings, axis);
}

}  // namespace rossby
