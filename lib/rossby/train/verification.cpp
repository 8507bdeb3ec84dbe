#include "rossby/train/verification.hpp"

#include <cmath>
#include <limits>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr double no_score = std::numeric_limits<double>::quiet_NaN();

/// Calls visit(row, column, feature, forecast, observed) for pairs with an observation.
template <class Visit>
void of_pairs(const ScoredValues& values, const Visit& visit) {
  const Index columns = std::ssize(values.steps);
  for (Index i = 0; i < values.rows; ++i)
    for (Index b = 0; b < columns; ++b)
      for (Index f = 0; f < values.features; ++f) {
        const Index at = (i * columns + b) * values.features + f;
        if (!std::isnan(values.observed[at]))
          visit(values.first_row + i, b, f, values.forecast[at], values.observed[at]);
      }
}

std::vector<const float*> climatology_at(const Climatology& climatology, std::span<const Index> steps) {
  std::vector<const float*> all;
  for (const Index step : steps) all.push_back(climatology(step));
  return all;
}

}  // namespace

void ScoreMoments::add(double w, double forecast, double observed, double climatology) {
  const double e = forecast - observed, x = forecast - climatology, y = observed - climatology;
  weight += w;
  number += 1;
  error += w * e;
  square += w * e * e;
  absolute += w * std::abs(e);
  f += w * x;
  o += w * y;
  ff += w * x * x;
  oo += w * y * y;
  fo += w * x * y;
}

ScoreMoments& ScoreMoments::operator+=(const ScoreMoments& other) {
  weight += other.weight;
  number += other.number;
  error += other.error;
  square += other.square;
  absolute += other.absolute;
  f += other.f;
  o += other.o;
  ff += other.ff;
  oo += other.oo;
  fo += other.fo;
  return *this;
}

double ScoreMoments::rmse() const {
  return weight > 0 ? std::sqrt(square / weight) : no_score;
}
double ScoreMoments::mae() const {
  return weight > 0 ? absolute / weight : no_score;
}
double ScoreMoments::bias() const {
  return weight > 0 ? error / weight : no_score;
}
double ScoreMoments::acc() const {
  if (!(weight > 0)) return no_score;
  // Treat a variance that is only rounding as zero.
  constexpr double rounding = 1e-12;
  const double vf = ff - f * f / weight, vo = oo - o * o / weight;
  if (!(vf > rounding * ff) || !(vo > rounding * oo)) return no_score;
  return (fo - f * o / weight) / std::sqrt(vf * vo);
}

std::vector<Slice> Slices::all() const {
  std::vector<Slice> all{{"all", "all"}};
  for (const std::string& name : times) all.push_back({time_kind, name});
  for (const std::string& name : regions) all.push_back({"region", name});
  return all;
}

Verification::Verification(Index forecasters, Index horizons, std::vector<Index> part_features,
                           const Slices& slices, Climatology climatology)
    : forecasters_(forecasters),
      horizons_(horizons),
      parts_(std::max<Index>(1, std::ssize(part_features))),
      slices_(&slices),
      climatology_(std::move(climatology)),
      times_(std::max<Index>(1, std::ssize(slices.times))),
      slice_count_(1 + std::ssize(slices.times) + std::ssize(slices.regions)),
      sums_(static_cast<std::size_t>(slice_count_ * parts_ * forecasters_ * horizons_)),
      of_row_(static_cast<std::size_t>(times_ * parts_)) {
  for (Index part = 0; part < std::ssize(part_features); ++part)
    part_of_.insert(part_of_.end(), static_cast<std::size_t>(part_features[static_cast<std::size_t>(part)]),
                    part);
}

void Verification::add(const ScoredValues& values) {
  const auto climatology = climatology_at(climatology_, values.steps);
  const bool timed = !slices_->times.empty();
  std::vector<std::size_t> time(values.steps.size(), 0);
  for (std::size_t b = 0; b < time.size() && timed; ++b)
    time[b] =
        static_cast<std::size_t>(slices_->time_of_step[static_cast<std::size_t>(values.steps[b])] * parts_);
  Index row = values.first_row;
  const auto end_row = [&] {
    for (Index t = 0; t < times_; ++t)
      for (Index part = 0; part < parts_; ++part) {
        ScoreMoments& sum = of_row_[static_cast<std::size_t>(t * parts_ + part)];
        const auto to = [&](Index slice) -> ScoreMoments& {
          return sums_[place(slice, part, values.forecaster, values.horizon)];
        };
        to(0) += sum;
        if (timed) to(1 + t) += sum;
        for (std::size_t r = 0; r < slices_->inside.size(); ++r)
          if (slices_->inside[r][static_cast<std::size_t>(row)])
            to(1 + std::ssize(slices_->times) + static_cast<Index>(r)) += sum;
        sum = {};
      }
  };
  of_pairs(values, [&](Index i, Index b, Index f, double forecast, double observed) {
    if (i != row) end_row(), row = i;
    const double w = slices_->weights.empty() ? 1 : slices_->weights[static_cast<std::size_t>(i)];
    const std::size_t part =
        part_of_.empty() ? 0 : static_cast<std::size_t>(part_of_[static_cast<std::size_t>(f)]);
    of_row_[time[static_cast<std::size_t>(b)] + part].add(
        w, forecast, observed,
        static_cast<double>(climatology[static_cast<std::size_t>(b)][i * values.features + f]));
  });
  if (values.rows > 0) end_row();
}

void Verification::reduce(Reducer& reducer) {
  std::vector<double> sums;
  for (const ScoreMoments& m : sums_)
    sums.insert(sums.end(), {m.weight, m.number, m.error, m.square, m.absolute, m.f, m.o, m.ff, m.oo, m.fo});
  reducer.sum(std::span<double>(sums));
  const double* at = sums.data();
  for (ScoreMoments& m : sums_) {
    m = {at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8], at[9]};
    at += ScoreMoments::size;
  }
}

NodeMoments::NodeMoments(Index rows, Index horizons, Index features, Climatology climatology)
    : rows_(rows),
      features_(features),
      climatology_(std::move(climatology)),
      sums_(static_cast<std::size_t>(rows * horizons * features)) {}

void NodeMoments::add(const ScoredValues& values) {
  const auto climatology = climatology_at(climatology_, values.steps);
  of_pairs(values, [&](Index i, Index b, Index f, double forecast, double observed) {
    sums_[static_cast<std::size_t>(((values.horizon - 1) * rows_ + i) * features_ + f)].add(
        1, forecast, observed,
        static_cast<double>(climatology[static_cast<std::size_t>(b)][i * values.features + f]));
  });
}

double skill_against(double rmse, double reference) {
  return 1 - rmse / reference;
}

}  // namespace rossby
