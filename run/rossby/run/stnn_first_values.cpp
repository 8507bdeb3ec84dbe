// An STNN's values before the first step.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/run/stnn_run.hpp"
#include "rossby/run/stnn_settings.hpp"

namespace rossby {
namespace {

bool starts_at_eofs(const Config& config) {
  return config.relation.low_rank_start == "eof" && config.relation.discover == "low_rank";
}

}  // namespace

template <class T>
void StnnRun<T>::start(Purpose purpose) {
  StnnStart start;
  start.seed = static_cast<std::uint64_t>(config_->train.seed);
  start.z_range = stnn_settings(*config_).z_range;
  if (stnn_settings(*config_).start == "data") {
    if (domain_.info.features != stnn_settings(*config_).latent)
      user_error(
          "model.start = \"data\" needs as many latents as features, but model.latent is {} and the series "
          "has {}. Set model.latent to this number of features",
          stnn_settings(*config_).latent, domain_.info.features);
    start.data = &series_;
    start.learned = learned_steps(domain_.split);  // training must not see a held-out fold
    if (grid_.groups() > 1) start.around = observed_around();
  }
  start.persistence = stnn_settings(*config_).dynamics_start == "persistence";
  if (purpose == Purpose::tracing) return;  // nobody reads the values
  model_->start(start);
  if (reads_series(purpose) && starts_at_eofs(*config_)) start_low_rank_at_eofs();
}

/// Bytes for EOFs: the Gram matrix of the training steps, its operands and, with several ranks, half of the
/// matrix for MPI's sum.
template <class T>
std::size_t StnnRun<T>::start_bytes() const {
  if (!starts_at_eofs(*config_)) return 0;
  const auto steps = static_cast<Index>(domain_.split.training_steps().size());
  const Index summing = grid_.space().size() > 1 ? steps / 2 : 0;
  return static_cast<std::size_t>(steps *
                                  (steps + std::max(summing, std::min(series_.rows, rows_at_a_time)))) *
         sizeof(double);
}

/// Exchanges the values that other groups observed last before, and first after, this group's steps.
template <class T>
ObservedAround StnnRun<T>::observed_around() {
  const Index width = series_.rows * series_.features;
  const auto place = [&](int group, int side, Index q) {
    return static_cast<std::size_t>((2 * group + side) * width + q);
  };
  // (groups, {last, first}, values): the value, and whether there is one.
  std::vector<double> value(place(grid_.groups(), 0, 0), 0.0), known(value.size(), 0.0);
  for (Index q = 0; q < width; ++q)
    for (Index t = held_.first; t < held_.last; ++t) {
      const float x = series_.at(t)[q];
      if (std::isnan(x) || !domain_.split.is_training(t)) continue;
      const std::size_t last = place(grid_.group(), 0, q), first = place(grid_.group(), 1, q);
      if (known[first] == 0) value[first] = static_cast<double>(x);
      value[last] = static_cast<double>(x);
      known[last] = known[first] = 1;
    }
  groups_reducer_.sum(value);
  groups_reducer_.sum(known);
  ObservedAround around;
  const auto nearest = [&](int side, int begin, int end, int step) {
    std::vector<float> found(static_cast<std::size_t>(width), std::numeric_limits<float>::quiet_NaN());
    for (int g = begin; g != end; g += step)
      for (Index q = 0; q < width; ++q)
        if (float& x = found[static_cast<std::size_t>(q)]; std::isnan(x) && known[place(g, side, q)] > 0)
          x = static_cast<float>(value[place(g, side, q)]);
    return found;
  };
  around.before = nearest(0, grid_.group() - 1, -1, -1);
  around.behind = nearest(1, grid_.group() + 1, grid_.groups(), 1);
  return around;
}

/// Returns all training steps, scaled, on every group.
template <class T>
Series StnnRun<T>::training_series() {
  Series all(domain_.split.train.last, series_.rows, series_.features);
  if (!anomalies_.on()) {
    std::vector<Index> every(static_cast<std::size_t>(all.steps));
    std::iota(every.begin(), every.end(), Index{0});
    read_steps(grid_.space(), *config_, domain_, every, all.values.span());
    scaler_.apply(all);
    return all;
  }
  // Every step belongs to one group, so the sum over groups adds zeros to its anomalies.
  Buffer<float> observed(all.values.size());
  const Index width = series_.rows * series_.features;
  for (Index t = 0; t < all.steps; ++t)
    for (Index c = 0; held_.contains(t) && c < width; ++c) {
      const float x = std::as_const(series_).at(t)[c];
      all.values[t * width + c] = std::isnan(x) ? 0 : x;
      observed[t * width + c] = std::isnan(x) ? 0 : 1;
    }
  groups_reducer_.sum(all.values.span());
  groups_reducer_.sum(observed.span());
  for (Index k = 0; k < observed.size(); ++k)
    if (observed[k] == 0) all.values[k] = std::numeric_limits<float>::quiet_NaN();
  return all;
}

/// Sets U = 0 and V = √n times the leading EOFs of the scaled training part, so that Vᵀz/n holds the
/// amplitudes over √n. Columns beyond the rank of the data keep their random start. EOFs need all training
/// steps at once: on a process grid, every group reads them for this only.
template <class T>
void StnnRun<T>::start_low_rank_at_eofs() {
  const auto steps = domain_.split.training_steps();
  Series all;
  if (grid_.groups() > 1) {
    all = training_series();
  }
  const Series& series = grid_.groups() > 1 ? all : series_;
  const auto mean = training_means(series, steps, space_reducer_);
  Parameter<T>& u = model_->parameter("low_rank_u");
  Parameter<T>& v = model_->parameter("low_rank_v");
  const Index rank = v.shape[2];
  const Eofs eofs = leading_eofs(series, mean, steps, 0, rank, space_reducer_);
  const double scale = std::sqrt(static_cast<double>(domain_.nodes()));
  std::fill(u.value.begin(), u.value.end(), T(0));
  for (Index i = 0; i < v.shape[1]; ++i)
    for (Index k = 0; k < eofs.modes; ++k)
      v.value[i * rank + k] =
          static_cast<T>(scale * eofs.pattern[static_cast<std::size_t>(i * eofs.modes + k)]);
}

template void StnnRun<float>::start(Purpose);
template void StnnRun<double>::start(Purpose);
template std::size_t StnnRun<float>::start_bytes() const;
template std::size_t StnnRun<double>::start_bytes() const;

}  // namespace rossby
