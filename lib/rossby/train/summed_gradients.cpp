#include "rossby/train/summed_gradients.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/train/step.hpp"

namespace rossby {

template <class T>
SummedGradients<T>::SummedGradients(MasterParameters<T>& masters) : masters_(&masters) {
  for (const Parameter<T>* parameter : masters.trained()) {
    Place place{0, static_cast<std::size_t>(parameter->size()),
                parameter->placement == Placement::replicated};
    std::vector<double>& values = of(place);
    place.at = values.size();
    values.resize(values.size() + place.size);
    places_.push_back(place);
  }
}

template <class T>
void SummedGradients<T>::clear() {
  std::fill(replicated_.begin(), replicated_.end(), 0.0);
  std::fill(owned_.begin(), owned_.end(), 0.0);
}

template <class T>
void SummedGradients<T>::add(const FinishedBatch<T>& batch, double factor) {
  const T* next = batch.gradient.data();
  for (const Place& place : places_) {
    double* sum = of(place).data() + place.at;
    for (std::size_t i = 0; i < place.size; ++i) sum[i] += factor * static_cast<double>(next[i]);
    next += place.size;
  }
}

template <class T>
void SummedGradients<T>::hand_over(Optimiser<T>& optimiser, double lr, double loss, double targets,
                                   std::span<const double> in_step) {
  optimiser.begin_step(lr, 1);
  for (std::size_t p = 0; p < places_.size(); ++p) {
    if (in_step[p] == 0) continue;
    T* gradient = masters_->trained()[p]->gradient_target();
    const double* sum = of(places_[p]).data() + places_[p].at;
    for (std::size_t i = 0; i < places_[p].size; ++i) gradient[i] = static_cast<T>(sum[i] / targets);
  }
  Losses losses;
  *losses.add("loss", 1 / targets) = loss;
  check_finite(losses);
  for (std::size_t p = 0; p < places_.size(); ++p) {
    if (!places_[p].replicated) continue;
    const Parameter<T>& parameter = *masters_->trained()[p];
    for (const T gradient : parameter.gradient.span())
      if (!std::isfinite(gradient))
        throw NotFinite(fmt::format("the gradient of {} is not finite", parameter.name));
  }
}

template <class T>
double SummedGradients<T>::squares(const Exec& exec, bool replicated) const {
  double sum = 0;
  for (std::size_t p = 0; p < places_.size(); ++p)
    if (places_[p].replicated == replicated)
      sum_of_squares<T>(exec, masters_->trained()[p]->gradient.span(), &sum);
  return sum;
}

double clipping_scale(double squares, double clip) {
  if (clip <= 0) return 1;
  if (!std::isfinite(squares)) throw NotFinite("the norm of the gradient is not finite");
  return clipping_factor(std::sqrt(squares), clip);
}

template class SummedGradients<float>;
template class SummedGradients<double>;

}  // namespace rossby
