#include "rossby/data/anomaly_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// A sum in rank order, in pieces, to bound the memory of each rank.
void ordered_sum(Reducer& reducer, std::span<double> values) {
  constexpr std::size_t chunk = 4096;
  for (std::size_t first = 0; first < values.size(); first += chunk)
    reducer.ordered_sum(values.subspan(first, std::min(chunk, values.size() - first)));
}

}  // namespace

AnomalySpec anomaly_spec(const DataSettings& data, CycleKind decided) {
  return {Transform::of(data.transform, data.transform_offset), data.trend == "linear",
          cycle_spec(data, decided)};
}

std::string text_of(const AnomalySpec& spec) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  constexpr const char* functions[] = {"", "square root", "logarithm", "inverse hyperbolic sine"};
  if (spec.transform.on()) {
    std::string of = functions[static_cast<int>(spec.transform.kind)];
    if (spec.transform.offset != 0) of += fmt::format(" of values + {:g}", spec.transform.offset);
    add(of);
  }
  if (spec.trend) add("less a linear trend");
  if (spec.cycle.kind != CycleKind::none) add(fmt::format("less the cycle {}", name_of(spec.cycle.kind)));
  return text;
}

/// One fit: passes over the columns of the training part, in blocks.
class AnomalyMap::Fit {
 public:
  Fit(AnomalyMap& map, const Training& data, const TimeAxis& axis, const AnomalySpec& spec, Reducer& reducer)
      : map_(map),
        data_(data),
        spec_(spec),
        reducer_(reducer),
        phases_(CyclePhases::of(axis, spec.cycle)),
        fitter_(phases_, data.steps),
        width_(as_size(data.rows * data.features)),
        features_(as_size(data.features)),
        time_(data.steps.size()) {
    for (std::size_t k = 0, j = 0; k < data.own.size(); ++k) {
      while (data.steps[j] != data.own[k]) ++j;
      own_place_.push_back(j);
    }
    if (cycles() && fitter_.periods() < 2)
      user_error(
          "data.cycle = \"{0}\": the training part has values of only one {1}, but the cycle needs at least "
          "two {1}s. Lengthen the training part with split.train, or set data.cycle = \"none\"",
          name_of(spec.cycle.kind), spec.cycle.kind < CycleKind::month ? "day" : "year");
    if (spec.trend) set_time(axis);
  }

  [[nodiscard]] bool cycles() const { return spec_.cycle.kind != CycleKind::none; }

  void run(std::span<const View> views) {
    if (spec_.trend) fit_trend();
    if (!cycles()) return;
    fit_pooled();
    fit_cycle(views);
  }

 private:
  void set_time(const TimeAxis& axis) {
    map_.set_training_time(axis, data_.steps);
    for (std::size_t j = 0; j < time_.size(); ++j) time_[j] = map_.time_[as_size(data_.steps[j])];
  }

  [[nodiscard]] std::size_t coarse_phase(std::size_t j) const {
    const auto phase = phases_.levels.front().of_step[as_size(data_.steps[j])];
    return as_size(phases_.harmonics > 0 ? phase * 12 / 366 : phase);
  }

  /// Calls body(column, its place in the block, x) for all columns; x holds the transformed values less the
  /// trend at the training steps, NaN if missing. Then calls done(first column, columns, x of all of them).
  template <class Body, class Done>
  void for_columns(Body body, Done done) {
    constexpr std::size_t most = std::size_t{1} << 21;
    const std::size_t length = data_.steps.size();
    const std::size_t columns = std::clamp<std::size_t>(most / std::max<std::size_t>(length, 1), 1, 512);
    std::vector<float> values, observed;
    std::vector<double> x;
    // Ranks with these rows have equally many blocks, and sum block by block.
    for (std::size_t first = 0; first < width_; first += columns) {
      const std::size_t count = std::min(columns, width_ - first);
      values.assign(count * length, 0);
      observed.assign(count * length, 0);
      for (std::size_t k = 0; k < own_place_.size(); ++k) {
        const float* from = data_.at(data_.own[k]) + first;
        for (std::size_t c = 0; c < count; ++c)
          if (!std::isnan(from[c])) {
            values[c * length + own_place_[k]] = from[c];
            observed[c * length + own_place_[k]] = 1;
          }
      }
      if (data_.groups) {
        data_.groups->sum(std::span<float>(values));
        data_.groups->sum(std::span<float>(observed));
      }
      x.resize(count * length);
#pragma omp parallel for num_threads(data_.threads) schedule(static) if (data_.threads > 1)
      for (std::size_t c = 0; c < count; ++c) {
        const double center = map_.center(static_cast<Index>(first + c));
        const double slope = map_.slope_.empty() ? 0 : map_.slope_[first + c];
        double* to = x.data() + c * length;
        for (std::size_t j = 0; j < length; ++j)
          to[j] = observed[c * length + j] > 0
                      ? map_.transform_.forward(static_cast<double>(values[c * length + j]) + center) -
                            slope * time_[j]
                      : missing;
        body(first + c, std::span<const double>(to, length));
      }
      done(first, count, std::span<const double>(x));
    }
  }

  /// Mean and standard deviation of a column; NaN without values.
  struct Statistics {
    double number = 0, mean = missing, deviation = missing;
  };
  static Statistics statistics(std::span<const double> x) {
    Statistics s;
    double sum = 0, squares = 0;
    for (const double value : x)
      if (!std::isnan(value)) sum += value, s.number += 1;
    if (s.number == 0) return s;
    s.mean = sum / s.number;
    for (const double value : x)
      if (!std::isnan(value)) squares += (value - s.mean) * (value - s.mean);
    s.deviation = std::sqrt(squares / s.number);
    // Rounding of float data is no variation.
    if (s.deviation <= 1e-6 * std::abs(s.mean)) s.deviation = 0;
    return s;
  }

  void fit_trend() {
    const std::size_t slots = phases_.harmonics > 0 ? 12 : as_size(phases_.levels.front().count);
    std::vector<double> products(width_), squares(width_), numbers(width_), deviations(width_);
    for_columns(
        [&](std::size_t c, std::span<const double> x) {
          const Statistics s = statistics(x);
          numbers[c] = s.number;
          deviations[c] = s.number > 0 ? s.deviation : 0;
          std::vector<double> count(slots), mean_x(slots), mean_t(slots);
          for (std::size_t j = 0; j < x.size(); ++j)
            if (!std::isnan(x[j])) {
              const std::size_t p = coarse_phase(j);
              count[p] += 1, mean_x[p] += x[j], mean_t[p] += time_[j];
            }
          for (std::size_t p = 0; p < slots; ++p)
            if (count[p] > 0) mean_x[p] /= count[p], mean_t[p] /= count[p];
          for (std::size_t j = 0; j < x.size(); ++j)
            if (!std::isnan(x[j])) {
              const std::size_t p = coarse_phase(j);
              products[c] += (x[j] - mean_x[p]) * (time_[j] - mean_t[p]);
              squares[c] += (time_[j] - mean_t[p]) * (time_[j] - mean_t[p]);
            }
        },
        [](std::size_t, std::size_t, std::span<const double>) {});
    std::vector<double> sums(2 * features_);
    for (std::size_t c = 0; c < width_; ++c)
      if (deviations[c] > 0) {
        sums[c % features_] += products[c] / deviations[c];
        sums[features_ + c % features_] += squares[c];
      }
    ordered_sum(reducer_, sums);
    // The trend of all nodes counts as much as the values of one period, or of a year of months.
    const double a_period = cycles() ? phases_.a_phase * static_cast<double>(slots) : 12;
    map_.slope_.assign(width_, 0);
    for (std::size_t c = 0; c < width_; ++c) {
      const double all = sums[features_ + c % features_];
      const double pooled = all > 0 ? sums[c % features_] / all * deviations[c] : 0;
      const double pull = numbers[c] > 0 ? squares[c] * spec_.cycle.shrink * a_period / numbers[c] : 0;
      map_.slope_[c] = squares[c] > 0 ? (products[c] + pull * pooled) / (squares[c] + pull) : pooled;
    }
  }

  /// Computes means and deviations of columns, the pooled shape, and the strength of shrinking nodes towards
  /// it.
  void fit_pooled() {
    const std::size_t length = data_.steps.size();
    mean_.assign(width_, missing);
    deviation_.assign(width_, missing);
    std::vector<double> number(width_);
    std::vector<double> sums(2 * features_ * length);  // of standardised values, then their counts
    for_columns(
        [&](std::size_t c, std::span<const double> x) {
          const Statistics s = statistics(x);
          number[c] = s.number;
          mean_[c] = s.mean;
          deviation_[c] = s.deviation;
        },
        [&](std::size_t first, std::size_t count, std::span<const double> x) {
#pragma omp parallel for num_threads(data_.threads) schedule(static) if (data_.threads > 1)
          for (std::size_t j = 0; j < length; ++j)
            for (std::size_t c = 0; c < count; ++c) {
              const double value = x[c * length + j];
              if (std::isnan(value) || deviation_[first + c] <= 0) continue;
              const std::size_t f = (first + c) % features_;
              sums[f * length + j] += (value - mean_[first + c]) / deviation_[first + c];
              sums[(features_ + f) * length + j] += 1;
            }
        });
    ordered_sum(reducer_, sums);
    std::vector<double> totals(3 * features_);  // counts, sums, squared deviations
    for (std::size_t c = 0; c < width_; ++c)
      if (number[c] > 0) {
        totals[c % features_] += number[c];
        totals[features_ + c % features_] += number[c] * mean_[c];
        totals[2 * features_ + c % features_] += number[c] * deviation_[c] * deviation_[c];
      }
    ordered_sum(reducer_, totals);
    pooled_.resize(features_);
    for (std::size_t f = 0; f < features_; ++f) {
      PooledCycle& pooled = pooled_[f];
      pooled.mean = totals[f] > 0 ? totals[features_ + f] / totals[f] : 0;
      pooled.deviation = totals[f] > 0 ? std::sqrt(totals[2 * features_ + f] / totals[f]) : 0;
      fitter_.pool(std::span(sums).subspan(f * length, length),
                   std::span(sums).subspan((features_ + f) * length, length), pooled);
    }
    for (std::size_t c = 0; c < width_; ++c)
      if (std::isnan(mean_[c])) {
        mean_[c] = pooled_[c % features_].mean;
        deviation_[c] = pooled_[c % features_].deviation;
      }
    fit_strengths();
  }

  void fit_strengths() {
    const std::size_t each = fitter_.moments();
    std::vector<double> of_columns(width_ * each), moments(features_ * each);
    for_columns(
        [&](std::size_t c, std::span<const double> x) {
          CycleFitter::Work work;
          fitter_.add_moments(x, mean_[c], deviation_[c], pooled_[c % features_], work,
                              std::span(of_columns).subspan(c * each, each));
        },
        [](std::size_t, std::size_t, std::span<const double>) {});
    for (std::size_t c = 0; c < width_; ++c)
      for (std::size_t k = 0; k < each; ++k) moments[c % features_ * each + k] += of_columns[c * each + k];
    ordered_sum(reducer_, moments);
    for (std::size_t f = 0; f < features_; ++f)
      pooled_[f].strength =
          fitter_.strengths_of(std::span(moments).subspan(f * each, each), spec_.cycle.shrink);
  }

  void fit_cycle(std::span<const View> views) {
    const std::size_t length = data_.steps.size(), count = as_size(phases_.finest().count);
    map_.phase_ = phases_.finest().of_step;
    map_.cycle_.assign(count * width_, 0);
    std::vector<std::size_t> view_place;  // index in the training steps
    for (const View& view : views) {
      const auto found = std::lower_bound(data_.steps.begin(), data_.steps.end(), view.step);
      require(found != data_.steps.end() && *found == view.step, "training views are of training steps");
      view_place.push_back(static_cast<std::size_t>(found - data_.steps.begin()));
    }
    for_columns(
        [&](std::size_t c, std::span<const double> x) {
          CycleFitter::Work work;
          std::vector<float> full(count);
          std::vector<double> without(length);
          fitter_.fit(x, mean_[c], deviation_[c], pooled_[c % features_], work, full, without);
          for (std::size_t p = 0; p < count; ++p) map_.cycle_[p * width_ + c] = full[p];
          for (std::size_t k = 0; k < views.size(); ++k) {
            const std::size_t j = view_place[k];
            views[k].values[c] = static_cast<float>(x[j] - without[j]);
          }
        },
        [](std::size_t, std::size_t, std::span<const double>) {});
  }

  AnomalyMap& map_;
  const Training& data_;
  const AnomalySpec& spec_;
  Reducer& reducer_;
  CyclePhases phases_;
  CycleFitter fitter_;
  std::size_t width_, features_;
  std::vector<double> time_;  // of the training steps
  std::vector<std::size_t> own_place_;
  std::vector<double> mean_, deviation_;  // by column
  std::vector<PooledCycle> pooled_;       // by feature
};

AnomalyMap AnomalyMap::unfitted(const Training& data, const AnomalySpec& spec) {
  AnomalyMap map;
  map.transform_ = spec.transform;
  map.cycle_spec_ = spec.cycle;
  map.width_ = as_size(data.rows * data.features);
  // float32 differences lose digits if the base contains the center.
  if (spec.transform.on()) map.centers_.assign(data.centers.begin(), data.centers.end());
  return map;
}

/// Throws UserError if the transform is not defined for a value.
void AnomalyMap::expect_values(const Training& data, std::initializer_list<std::span<const View>> views,
                               Reducer& reducer) const {
  double refused = 0;
  for (const std::span<const View> some : views)
    for (const View& view : some)
      for (Index c = 0; c < static_cast<Index>(width_); ++c)
        if (const float x = view.values[c];
            !std::isnan(x) && !transform_.takes(static_cast<double>(x) + center(c)))
          refused += 1;
  reducer.ordered_sum(std::span<double>(&refused, 1));
  if (data.groups) data.groups->ordered_sum(std::span<double>(&refused, 1));
  if (refused > 0)
    user_error(
        "data.transform is not defined for {} values: with data.transform_offset = {:g} they are {} 0. Raise "
        "data.transform_offset, or set data.transform = \"none\" or \"asinh\"",
        refused, transform_.offset, transform_.kind == Transform::Kind::log ? "not above" : "below");
}

void AnomalyMap::apply(std::span<const View> views) const {
  for (const View& view : views)
    for (Index c = 0; c < static_cast<Index>(width_); ++c)
      view.values[c] = to_anomaly(view.values[c], view.step, c);
}

AnomalyMap AnomalyMap::fit(const Training& data, const TimeAxis& axis, const AnomalySpec& spec,
                           std::span<const View> training, std::span<const View> others, Reducer& reducer) {
  if (!spec.on()) return {};
  AnomalyMap map = unfitted(data, spec);
  map.expect_values(data, {training, others}, reducer);
  Fit fit(map, data, axis, spec, reducer);
  // Without a cycle, training steps have the same base as other steps.
  fit.run(training);
  if (!fit.cycles()) map.apply(training);
  map.apply(others);
  return map;
}

AnomalyMap AnomalyMap::restore(Fitted fitted, const Training& data, const TimeAxis& axis,
                               const AnomalySpec& spec, std::span<const View> views, Reducer& reducer) {
  if (!spec.on()) return {};
  AnomalyMap map = unfitted(data, spec);
  map.expect_values(data, {views}, reducer);
  if (spec.cycle.kind != CycleKind::none) map.phase_ = CyclePhases::of(axis, spec.cycle).finest().of_step;
  map.cycle_ = std::move(fitted.cycle);
  map.slope_ = std::move(fitted.slope);
  if (spec.trend) map.set_training_time(axis, data.steps);
  map.apply(views);
  return map;
}

/// Sets time in units of slopes: −½ … ½ over the training part.
void AnomalyMap::set_training_time(const TimeAxis& axis, std::span<const Index> steps) {
  const std::vector<double>& values = axis.values();
  const double first = values[as_size(steps.front())], last = values[as_size(steps.back())];
  range_ = last > first ? last - first : 1;
  middle_ = 0.5 * (first + last);
  place_in_time(axis);
}

void AnomalyMap::place_in_time(const TimeAxis& axis) {
  time_.clear();
  for (const double value : axis.values()) time_.push_back((value - middle_) / range_);
}

void AnomalyMap::extend(const TimeAxis& axis, Index beyond) {
  if (beyond <= 0 || (phase_.empty() && slope_.empty())) return;
  std::vector<double> values = axis.values();
  const std::vector<double> more = axis.after(axis.size() - 1, beyond).values();
  values.insert(values.end(), more.begin(), more.end());
  if (!axis.dated() && !slope_.empty()) {
    for (std::size_t t = time_.size(); t < values.size(); ++t)
      time_.push_back((values[t] - middle_) / range_);
    return;
  }
  const TimeAxis longer = TimeAxis::parse(std::move(values), axis.units(), axis.calendar(), "time axis");
  if (!slope_.empty()) place_in_time(longer);
  if (!phase_.empty()) phase_ = CyclePhases::of(longer, cycle_spec_).finest().of_step;
}

double AnomalyMap::to_observation(double anomaly, Index step, Index column) const {
  const double from = base(step, column), zero = transform_.forward(center(column));
  if (std::isfinite(zero) &&
      std::abs(anomaly + from - zero) <= 0x1p-23 * std::max(std::abs(from), std::abs(zero)))
    return 0;
  return to_value(anomaly, step, column);
}

std::size_t AnomalyMap::bytes_of(const TimeAxis& axis, const AnomalySpec& spec, Index columns) {
  const std::size_t width = as_size(columns), steps = as_size(axis.size());
  std::size_t bytes = 0;
  if (spec.cycle.kind != CycleKind::none)
    bytes += as_size(CyclePhases::of(axis, spec.cycle).finest().count) * width * sizeof(float) +
             steps * sizeof(std::int32_t);
  if (spec.trend) bytes += (width + steps) * sizeof(double);
  return bytes;
}

}  // namespace rossby
