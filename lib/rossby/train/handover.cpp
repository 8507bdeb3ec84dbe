#include "rossby/train/handover.hpp"

#include <algorithm>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

template <class T>
MasterParameters<T>::MasterParameters(std::span<Parameter<T>* const> model)
    : model_(model.begin(), model.end()) {
  for (Parameter<T>* of : model) {
    require(!of->in_bf16 && !of->stream && !of->device && of->placement != Placement::entries,
            "asynchronous updates are of parameters in memory of the host");
    Parameter<T>& copy = copies_.emplace_back(of->name, of->placement, of->shape);
    static_cast<ParameterShape&>(copy) = *of;
    static_cast<UpdateRule&>(copy) = *of;
    copy.fusable = false;
    all_.push_back(&copy);
    if (!of->trained) continue;
    trained_.push_back(&copy);
    trained_of_model_.push_back(of);
  }
}

template <class T>
void MasterParameters<T>::take() {
  for (std::size_t i = 0; i < all_.size(); ++i)
    std::copy_n(model_[i]->value.data(), model_[i]->size(), all_[i]->value.data());
  for (const auto* parameters : {&trained_, &trained_of_model_})
    for (Parameter<T>* parameter : *parameters) {
      const std::span<T> gradient = parameter->gradient.span();
      std::fill(gradient.begin(), gradient.end(), T(0));
      parameter->in_step = false;
    }
}

template <class T>
void MasterParameters<T>::give() {
  for (std::size_t i = 0; i < all_.size(); ++i)
    std::copy_n(all_[i]->value.data(), all_[i]->size(), model_[i]->value.data());
}

template <class T>
void MasterParameters<T>::give_with_gradients() {
  give();
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const std::span<const T> gradient = trained_[i]->gradient.span();
    std::copy(gradient.begin(), gradient.end(), trained_of_model_[i]->gradient.data());
  }
}

template <class T>
void PublishedWeights<T>::publish(Index version, std::span<Parameter<T>* const> from) {
  const std::lock_guard lock(mutex_);
  std::vector<T>& values = values_[version % 2];
  values.clear();
  for (const Parameter<T>* parameter : from)
    values.insert(values.end(), parameter->value.data(), parameter->value.data() + parameter->size());
  newest_ = version;
}

template <class T>
void PublishedWeights<T>::read(Index version, std::span<Parameter<T>* const> to) const {
  require(version == newest_ || version == newest_ - 1, "two versions of the weights are kept");
  const T* next = values_[version % 2].data();
  for (Parameter<T>* parameter : to) {
    std::copy_n(next, parameter->size(), parameter->value.data());
    next += parameter->size();
  }
}

template <class T>
FinishedBatch<T> Handover<T>::blank() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return {};
  FinishedBatch<T> batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

template <class T>
void Handover<T>::begin(Index version) {
  const std::lock_guard lock(mutex_);
  report_.in_flight = version;
}

template <class T>
void Handover<T>::finish(FinishedBatch<T> batch) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(batch));
  report_.in_flight = -1;
  ++report_.finished;
  ++report_.progress;
  for_updates_.notify_one();
}

template <class T>
void Handover<T>::skip() {
  const std::lock_guard lock(mutex_);
  ++report_.progress;
}

template <class T>
void Handover<T>::vote(unsigned votes) {
  const std::lock_guard lock(mutex_);
  report_.votes |= votes;
  if (votes != 0) for_updates_.notify_one();
}

template <class T>
void Handover<T>::end(bool failed) {
  const std::lock_guard lock(mutex_);
  report_.in_flight = -1;
  report_.done = true;
  report_.failed = failed;
  for_updates_.notify_one();
}

template <class T>
bool Handover<T>::may_begin() const {
  const std::lock_guard lock(mutex_);
  return stops_ || waiting_.empty() || (!blocked_ && waiting_.size() < most_waiting);
}

template <class T>
typename Handover<T>::Report Handover<T>::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

template <class T>
std::vector<const FinishedBatch<T>*> Handover<T>::first(Index count) const {
  const std::lock_guard lock(mutex_);
  require(count <= std::ssize(waiting_), "an update takes sub-batches that are finished");
  std::vector<const FinishedBatch<T>*> batches;
  for (Index k = 0; k < count; ++k) batches.push_back(&waiting_[static_cast<std::size_t>(k)]);
  return batches;
}

template <class T>
void Handover<T>::drop(Index count) {
  const std::lock_guard lock(mutex_);
  for (Index k = 0; k < count; ++k) {
    spare_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  for_worker_.notify_one();
}

template <class T>
void Handover<T>::block(bool blocked) {
  const std::lock_guard lock(mutex_);
  blocked_ = blocked;
  if (!blocked) for_worker_.notify_one();
}

template <class T>
void Handover<T>::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  for_worker_.notify_one();
}

template <class T>
bool Handover<T>::stops() const {
  const std::lock_guard lock(mutex_);
  return stops_;
}

template <class T>
void Handover<T>::wait_for_worker(const Report& known, double seconds) const {
  std::unique_lock lock(mutex_);
  for_updates_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return report_.finished != known.finished || report_.done != known.done || report_.votes != known.votes;
  });
}

template <class T>
void Handover<T>::wait_for_updates(double seconds) const {
  std::unique_lock lock(mutex_);
  for_worker_.wait_for(lock, std::chrono::duration<double>(seconds));
}

template class MasterParameters<float>;
template class MasterParameters<double>;
template class PublishedWeights<float>;
template class PublishedWeights<double>;
template class Handover<float>;
template class Handover<double>;

}  // namespace rossby
