#include "rossby/autograd/staged_ports.hpp"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/rows.hpp"

namespace rossby {
namespace {

enum class At { device, pinned, host };

/// Returns room for `size` values in a growing buffer, pinned if the device copies to and from it. While a
/// trace of the host runs there is no device buffer, because it would count as memory of the training.
template <class T>
T* room(Buffer<std::byte>& buffer, Index size, Device& device, At at) {
  if (at == At::device && device.driver().stands_for_host()) return nullptr;
  const Index bytes = size * static_cast<Index>(sizeof(T));
  if (buffer.size() < bytes) {
    const Device::For purpose(&device, "rows that ranks exchange");
    buffer = {};
    buffer = at == At::device   ? Buffer<std::byte>(bytes, device)
             : at == At::pinned ? Buffer<std::byte>::pinned(bytes, device)
                                : Buffer<std::byte>(bytes);
  }
  return reinterpret_cast<T*>(buffer.data());
}

template <class T>
NodeView<T> packed_like(T* data, Index rows, const NodeView<const T>& like) {
  return {data, rows, like.cols, like.channels};
}

}  // namespace

StagedExchange::StagedExchange(const Exec& exec, Exchange& inner,
                               std::optional<std::vector<LocalColumn>> wanted)
    : exec_(exec), inner_(&inner) {
  const Index sent = inner.gather_cost(1).bytes;
  some_ = wanted && sent < inner.owned();
  if (!some_) return;
  count_ = std::ssize(*wanted);
  require(count_ <= sent, "rows that are wanted are sent");
  // Buffers have the size that a trace assumes, because a trace has no list of rows.
  rows_ = std::move(*wanted);
  rows_.resize(static_cast<std::size_t>(sent));
  places_.resize(rows_.size() + 1);
  std::iota(places_.begin(), places_.end(), LocalEntry{0});
  kept_.push_back(exec.device->keep(rows_));
  kept_.push_back(exec.device->keep(places_));
}

bool StagedExchange::idle() const {
  const Traffic none;
  return inner_->ghosts() == 0 && inner_->gather_cost(8) == none && inner_->scatter_cost(8) == none;
}

template <class T>
NodeView<T> StagedExchange::fetch(NodeView<const T> owned) {
  Device& device = *exec_.device;
  const NodeView<T> all =
      packed_like(room<T>(owned_, owned.size(), device, some_ ? At::host : At::pinned), owned.rows, owned);
  const Index width = owned.width(), rows = some_ ? count_ : owned.rows;
  const Index most = some_ ? std::ssize(rows_) : owned.rows;
  T* const packed = room<T>(packed_, most * width, device, At::device);
  T* const home = some_ ? room<T>(message_, most * width, device, At::pinned) : all.data;
  if (some_)
    gather_rows<T>(exec_, packed, owned, wanted());
  else
    pack(exec_, packed_like(packed, owned.rows, owned), owned);
  device.download(std::span<T>(home, static_cast<std::size_t>(rows * width)), packed);
  device.wait();
  Index place = 0;
  for (const LocalColumn row : wanted()) std::copy_n(home + place++ * width, width, all.row(row));
  return all;
}

template <class T>
void StagedExchange::gather(NodeView<const T> owned, NodeView<T> ghost) {
  Device& device = *exec_.device;
  if (idle() || !(device.owns(owned.data) || device.owns(ghost.data)))
    return inner_->gather_begin(owned, ghost);
  widest_ = std::max(widest_, owned.width() * static_cast<Index>(sizeof(T)));
  const NodeView<T> to(room<T>(ghost_, ghost.size(), device, At::pinned), ghost.rows, ghost.cols,
                       ghost.channels);
  const NodeView<T> from = fetch(owned);
  if constexpr (std::is_same_v<T, float>)
    to_float_ = ghost;
  else
    to_double_ = ghost;
  inner_->gather_begin(NodeView<const T>(from), to);
}

void StagedExchange::gather_end() {
  inner_->gather_end();
  const auto send = [this](auto& to) {
    using T = std::remove_pointer_t<decltype(to.data)>;
    if (to.data)
      exec_.device->upload(to.data, std::span<const T>(reinterpret_cast<const T*>(ghost_.data()),
                                                       static_cast<std::size_t>(to.size())));
    to = {};
  };
  send(to_float_);
  send(to_double_);
}

template <class T>
void StagedExchange::scatter(NodeView<const T> ghost, NodeView<T> owned) {
  Device& device = *exec_.device;
  if (idle() || !(device.owns(owned.data) || device.owns(ghost.data)))
    return inner_->scatter_add_begin(ghost, owned);
  widest_ = std::max(widest_, ghost.width() * static_cast<Index>(sizeof(T)));
  const NodeView<T> from(room<T>(ghost_, ghost.size(), device, At::pinned), ghost.rows, ghost.cols,
                         ghost.channels);
  const NodeView<T> to(room<T>(owned_, owned.size(), device, some_ ? At::host : At::pinned), owned.rows,
                       owned.cols, owned.channels);
  device.download(std::span<T>(from.data, static_cast<std::size_t>(from.size())), ghost.data);
  device.wait();
  if (some_)
    for (const LocalColumn row : wanted()) std::fill_n(to.row(row), to.width(), T(0));
  else
    std::fill_n(to.data, to.size(), T(0));
  if constexpr (std::is_same_v<T, float>)
    to_float_ = owned;
  else
    to_double_ = owned;
  inner_->scatter_add_begin(NodeView<const T>(from), to);
}

template <class T>
void StagedExchange::add(NodeView<T> owned) {
  if (!owned.data) return;
  Device& device = *exec_.device;
  const Index width = owned.width(), rows = some_ ? count_ : owned.rows;
  const Index most = some_ ? std::ssize(rows_) : owned.rows;
  T* const packed = room<T>(packed_, most * width, device, At::device);
  const auto* const all = reinterpret_cast<const T*>(owned_.data());
  T* const home = some_ ? room<T>(message_, most * width, device, At::pinned) : nullptr;
  Index place = 0;
  for (const LocalColumn row : wanted()) std::copy_n(all + row * width, width, home + place++ * width);
  device.upload(packed, std::span<const T>(some_ ? home : all, static_cast<std::size_t>(rows * width)));
  if (some_)
    scatter_add_rows<T>(exec_, owned, packed, {wanted(), places(std::size_t{1}), places(std::size_t{0})});
  else
    accumulate<T>(exec_, owned, T(1), packed_like<T>(packed, owned.rows, owned));
}

void StagedExchange::scatter_add_end() {
  inner_->scatter_add_end();
  add(to_float_);
  add(to_double_);
  to_float_ = {};
  to_double_ = {};
}

template <class T>
std::span<T> StagedReducer::fetch(std::span<T> values) {
  if (begun_ == open_.size()) open_.emplace_back();
  Open& open = open_[begun_++];
  const std::span<T> host(room<T>(open.host, std::ssize(values), *device_, At::pinned), values.size());
  open.device = reinterpret_cast<std::byte*>(values.data());
  open.bytes = values.size_bytes();
  device_->download(host, values.data());
  device_->wait();
  return host;
}

template <class T>
void StagedReducer::sum_now(std::span<T> values) {
  if (inner_->alone() || !device_->owns(values.data())) return inner_->sum(values);
  require(begun_ == 0, "a sum of device data begins before others have ended");
  const std::span<T> host = fetch(values);
  begun_ = 0;
  inner_->sum(host);
  device_->upload(values.data(), std::span<const T>(host));
  device_->wait();  // the next sum reuses the host array
}

template <class T>
void StagedReducer::begin(std::span<T> values) {
  inner_->sum_begin(!inner_->alone() && device_->owns(values.data()) ? fetch(values) : values);
}

void StagedReducer::sum_end() {
  inner_->sum_end();
  for (std::size_t k = 0; k < begun_; ++k)
    device_->upload(open_[k].device, std::span<const std::byte>(open_[k].host.data(), open_[k].bytes));
  if (begun_ > 0) device_->wait();
  begun_ = 0;
}

}  // namespace rossby
