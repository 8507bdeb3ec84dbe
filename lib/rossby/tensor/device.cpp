#include "rossby/tensor/device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t most_sums = 1024;  // between two calls of settle

std::size_t rounded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

/// Formats a size with a fitting unit.
std::string amount(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 27) return fmt::format("{:.3f} GiB", gib(bytes));
  if (bytes >= std::size_t{1} << 17) return fmt::format("{:.3f} MiB", 1024 * gib(bytes));
  return fmt::format("{} bytes", bytes);
}

}  // namespace

Device::Device(std::unique_ptr<DeviceDriver> driver, const DeviceOptions& options)
    : driver_(std::move(driver)), options_(options) {
  for (int tray = 0; tray < 2; ++tray) add_tray(rounded(options_.staging_bytes / 2));
}

Device::~Device() {
  library_.reset();
  drop_trays();
  release(scratch_);
  release(sums_);
  if (sums_host_) driver_->release_pinned(sums_host_);
}

Device::For::For(Device* device, std::string what, std::string_view remedy)
    : device_(device), what_(std::move(what)), remedy_(remedy) {
  if (device_) outer_ = std::exchange(device_->purpose_, this);
}

Device::For::~For() {
  if (device_) device_->purpose_ = outer_;
}

void* Device::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t size = rounded(bytes);
  const bool within = size >= bytes && size <= free_bytes();
  void* pointer = within ? driver_->allocate(bytes) : nullptr;
  if (!pointer) {
    std::string remedy(purpose_ ? purpose_->remedy_ : std::string_view());
    if (!remedy.empty()) remedy += ", or ";
    // An estimate from what is allocated so far: more may follow.
    const double of_limit =
        static_cast<double>(used_ + size) / static_cast<double>(std::max<std::size_t>(limit(), 1));
    remedy += of_limit < 1000
                  ? fmt::format("{} times as many ranks or more", std::max(2.0, std::ceil(of_limit)))
                  : "a larger device, or a larger parallel.device_memory";
    user_error("out of device memory: cannot allocate {} for {}, because {} of {} are in use ({}). Use {}",
               amount(bytes), purpose_ ? purpose_->what_ : "an array", amount(used_), amount(limit()),
               driver_->name(), remedy);
  }
  sizes_[pointer] = size;
  used_ += size;
  peak_ = std::max(peak_, used_);
  return pointer;
}

void Device::release(void* pointer) noexcept {
  if (!pointer) return;
  const auto it = sizes_.find(pointer);
  used_ -= it->second;
  sizes_.erase(it);
  driver_->release(pointer);
}

bool Device::owns(const void* pointer) const {
  auto it = sizes_.upper_bound(const_cast<void*>(pointer));
  if (it == sizes_.begin()) return false;
  --it;
  return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) -
                                  static_cast<const std::byte*>(it->first)) < it->second;
}

std::size_t Device::resident_on_host() const {
  std::size_t all = 0;
  for (const auto& [pointer, bytes] : sizes_)
    if (pointer != scratch_ && pointer != sums_ &&
        std::none_of(trays_.begin(), trays_.end(),
                     [p = pointer](const Tray& tray) { return tray.device == p; }))
      all += detail::resident_bytes(bytes, bytes);
  return all;
}

std::size_t Device::own_bytes() const {
  std::size_t bytes = scratch_ ? options_.scratch_bytes : 0;
  for (const Tray& tray : trays_) bytes += tray.bytes;
  return bytes;
}

void Device::wait() {
  driver_->wait();
}

double* Device::later(double* host) {
  // All chunks of a relation add to one sum.
  if (const auto owed = std::find(owed_.rbegin(), owed_.rend(), host); owed != owed_.rend())
    return sums_ + (owed_.rend() - owed - 1);
  if (owed_.size() == most_sums) settle();
  if (!sums_) {
    sums_ = static_cast<double*>(allocate(most_sums * sizeof(double)));
    sums_host_ = static_cast<double*>(driver_->allocate_pinned(most_sums * sizeof(double)));
    if (!sums_host_)
      user_error(
          "cannot allocate {} bytes of pinned host memory for sums of a training step: this host has no more "
          "memory that can be pinned. Use fewer ranks per host",
          most_sums * sizeof(double));
  }
  if (owed_.empty()) driver_->zero(sums_, most_sums * sizeof(double));
  owed_.push_back(host);
  return sums_ + (owed_.size() - 1);
}

void Device::settle() {
  if (!owed_.empty()) driver_->copy_out(sums_host_, sums_, owed_.size() * sizeof(double));
  wait();
  for (std::size_t k = 0; k < owed_.size(); ++k) *owed_[k] += sums_host_[k];
  for (const auto& [to, from] : adds_) *to += *from;
  owed_.clear();
  adds_.clear();
}

void* Device::scratch_of(std::size_t bytes) {
  require(bytes <= options_.scratch_bytes, "partial sums fit into the device's scratch");
  if (!scratch_) scratch_ = allocate(options_.scratch_bytes);
  return scratch_;
}

void Device::add_tray(std::size_t bytes) {
  Tray tray;
  tray.device = static_cast<std::byte*>(allocate(bytes));
  tray.host = static_cast<std::byte*>(driver_->allocate_pinned(bytes));
  tray.bytes = bytes;
  trays_.push_back(tray);
  if (!tray.host)
    user_error(
        "cannot allocate {:.3f} GiB of pinned host memory for lists that are copied to the device. Use more "
        "ranks",
        gib(bytes));
}

void Device::drop_trays() noexcept {
  for (const Tray& tray : trays_) {
    if (tray.host) driver_->release_pinned(tray.host);
    release(tray.device);
  }
  trays_.clear();
}

const void* Device::stage(const void* host, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (trays_.back().filled + size > trays_.back().bytes) {
    // Find a tray whose lists belong to earlier launches. Their readers are enqueued, and the tray is free
    // once they finish. The other trays may hold lists of the current launch.
    const auto free = std::find_if(trays_.begin(), trays_.end(), [&](const Tray& tray) {
      const bool before = lists_ - tray.last >= lists_of_a_launch && tray.launches < launches_;
      return size <= tray.bytes && (tray.filled == 0 || before);
    });
    if (free == trays_.end()) {
      add_tray(std::max(rounded(options_.staging_bytes / 2), 2 * size));
    } else {
      if (free->filled > 0) wait();
      free->filled = 0;
      std::rotate(free, std::next(free), trays_.end());
    }
  }
  Tray& tray = trays_.back();
  std::byte* from = tray.host + tray.filled;
  std::byte* to = tray.device + tray.filled;
  tray.filled += size;
  tray.last = ++lists_;
  tray.launches = launches_;
  std::memcpy(from, host, bytes);
  driver_->copy_in(to, from, bytes);
  return to;
}

const void* Device::on_device_bytes(const void* host, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // The kept array that begins at or before `host`.
  auto it = kept_.upper_bound(host);
  if (it != kept_.begin()) {
    --it;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(host) -
                                                 static_cast<const std::byte*>(it->first));
    if (offset + bytes <= it->second.bytes) return static_cast<const std::byte*>(it->second.device) + offset;
  }
  return stage(host, bytes);
}

void Device::drop(const void* host) noexcept {
  const auto it = kept_.find(host);
  if (it == kept_.end() || --it->second.holders > 0) return;
  release(it->second.device);
  kept_.erase(it);
}

Device::Copy::Copy(Device& device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  Kept& kept = device.kept_[host];
  require(kept.holders == 0 || kept.bytes == bytes, "an array is kept whole");
  if (kept.holders == 0) {
    try {
      const For purpose(&device, "a copy of constant data (series, relations, lists of nodes)");
      kept = {bytes, device.allocate(bytes), 0};
    } catch (...) {
      device.kept_.erase(host);
      throw;
    }
    device.driver_->copy_in(kept.device, host, bytes);
    device.wait();
  }
  ++kept.holders;
  device_ = &device;
  host_ = host;
}

Device::Copy::Copy(Copy&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), host_(std::exchange(other.host_, nullptr)) {}

Device::Copy& Device::Copy::operator=(Copy&& other) noexcept {
  if (this != &other) {
    if (device_) device_->drop(host_);
    device_ = std::exchange(other.device_, nullptr);
    host_ = std::exchange(other.host_, nullptr);
  }
  return *this;
}

Device::Copy::~Copy() {
  if (device_) device_->drop(host_);
}

}  // namespace rossby
