#include "rossby/train/handover.hpp"

#include <algorithm>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

template <class T>
MasterParameters<T>::MasterParameters(std::span<Parameter<T>* const> model, Device* device)
    : device_(device), model_(model.begin(), model.end()) {
  for (Parameter<T>* of : model) {
    require(!of->in_bf16 && !of->stream && of->placement != Placement::entries,
            "asynchronous updates are of parameters without a stream, in the model's precision");
    if (device_) of->move_to(*device_);
    Parameter<T>& copy = copies_.emplace_back(of->name, of->placement, of->shape);
    static_cast<ParameterShape&>(copy) = *of;
    static_cast<UpdateRule&>(copy) = *of;
    copy.fusable = false;
    all_.push_back(&copy);
    if (!of->trained) continue;
    trained_.push_back(&copy);
    trained_of_model_.push_back(of);
    trained_size_ += of->size();
  }
}

template <class T>
void MasterParameters<T>::take() {
  for (std::size_t i = 0; i < all_.size(); ++i)
    std::copy_n(model_[i]->value.data(), model_[i]->size(), all_[i]->value.data());
  for (Parameter<T>* parameter : trained_) {
    const std::span<T> gradient = parameter->gradient.span();
    std::fill(gradient.begin(), gradient.end(), T(0));
    parameter->in_step = false;
  }
  zero_gradients_of_model();
  send();
}

template <class T>
void MasterParameters<T>::zero_gradients_of_model() {
  for (Parameter<T>* parameter : trained_of_model_) {
    const auto bytes = static_cast<std::size_t>(parameter->gradient.size()) * sizeof(T);
    if (device_)
      device_->driver().zero(parameter->gradient.data(), bytes);
    else
      std::fill_n(parameter->gradient.data(), parameter->gradient.size(), T(0));
    parameter->in_step = false;
  }
}

template <class T>
void MasterParameters<T>::send() {
  if (!device_) return;
  for (Parameter<T>* parameter : model_) parameter->send();
  device_->wait();
}

template <class T>
void MasterParameters<T>::give() {
  for (std::size_t i = 0; i < all_.size(); ++i)
    std::copy_n(all_[i]->value.data(), all_[i]->size(), model_[i]->value.data());
  send();
}

template <class T>
void MasterParameters<T>::give_with_gradients() {
  give();
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const std::span<const T> gradient = trained_[i]->gradient.span();
    if (device_)
      device_->upload(trained_of_model_[i]->gradient.data(), gradient);
    else
      std::copy(gradient.begin(), gradient.end(), trained_of_model_[i]->gradient.data());
  }
  if (device_) device_->wait();
}

template <class T>
void MasterParameters<T>::take_gradients(Buffer<T>& to) {
  if (to.size() != trained_size_)
    to = device_ ? Buffer<T>::pinned(trained_size_, *device_) : Buffer<T>(trained_size_);
  std::span<T> rest = to.span();
  for (const Parameter<T>* parameter : trained_of_model_) {
    const std::span<const T> gradient = parameter->gradient.span();
    if (device_)
      device_->download(rest.first(gradient.size()), gradient.data());
    else
      std::copy(gradient.begin(), gradient.end(), rest.begin());
    rest = rest.subspan(static_cast<std::size_t>(parameter->size()));
  }
  zero_gradients_of_model();
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
    parameter->send();
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
