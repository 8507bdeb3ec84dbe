#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/base/index.hpp"
#include "rossby/tensor/device.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {

/// Where a buffer's memory lies.
enum class Memory {
  host,
  pinned,  // of the host, which a Device copies to and from without a detour
  file,    // a mapped file
  device,  // of a Device: only its queue may read and write it
  nowhere  // addresses alone, which nobody may read or write: of trainings that are traced
};

/// Values after which who goes through an array that may lie in a file forgets its pages: few are in memory.
inline constexpr Index values_at_a_time = Index{1} << 18;

namespace detail {
/// Zeroed memory of the host, aligned to a cache line (64 bytes). Throws UserError naming the size where
/// there is not enough. `bytes` of release: as allocated.
void* allocate(std::size_t bytes);
void release(void* pointer, std::size_t bytes) noexcept;
/// Addresses without memory behind them. Throws UserError where there are not so many.
void* reserve(std::size_t bytes);
void give_back(void* pointer, std::size_t bytes) noexcept;
/// Resident memory of a buffer of `bytes` whose first `touched` were read or written: whole pages, huge ones
/// where `allocate` asks for them.
std::size_t resident_bytes(std::size_t bytes, std::size_t touched);
/// Throws UserError.
[[noreturn]] void out_of_pinned_memory(std::size_t bytes);
/// Buffers allocated by this process so far: what the "no allocation after the first step" test counts.
Index allocation_count();
}  // namespace detail

/// Owned, contiguous, zero-initialised, move-only storage of trivially copyable scalars.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(Index size, Memory memory = Memory::host) : size_(size), memory_(memory) {
    require(size >= 0, "a buffer needs a size of zero or more");
    require(memory == Memory::host || memory == Memory::nowhere, "other memory has makers of its own");
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    if (size > 0)
      data_ = static_cast<T*>(memory == Memory::nowhere ? detail::reserve(bytes) : detail::allocate(bytes));
  }
  /// On a device, which outlives it; zeroed in its queue.
  Buffer(Index size, Device& device) : size_(size), memory_(Memory::device), device_(&device) {
    require(size >= 0, "a buffer needs a size of zero or more");
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    data_ = static_cast<T*>(device.allocate(bytes));
    if (size > 0) device.driver().zero(data_, bytes);
  }
  /// There, or in host memory where `device` is null.
  Buffer(Index size, Device* device) : Buffer(device ? Buffer(size, *device) : Buffer(size)) {}
  /// In pinned memory for `device`, which outlives it. Throws UserError where there is not enough.
  [[nodiscard]] static Buffer pinned(Index size, Device& device) {
    Buffer buffer;
    buffer.size_ = size;
    buffer.memory_ = Memory::pinned;
    buffer.device_ = &device;
    if (size == 0) return buffer;
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    buffer.data_ = static_cast<T*>(device.driver().allocate_pinned(bytes));
    if (!buffer.data_) detail::out_of_pinned_memory(bytes);
    std::fill_n(buffer.data_, size, T{});
    return buffer;
  }
  /// What a file holds.
  explicit Buffer(std::shared_ptr<FileMemory> file)
      : data_(reinterpret_cast<T*>(file->data())),
        size_(static_cast<Index>(file->bytes() / sizeof(T))),
        memory_(Memory::file),
        file_(std::move(file)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (!data_ || file_) return;
    if (memory_ == Memory::pinned)
      device_->driver().release_pinned(data_);
    else if (memory_ == Memory::nowhere)
      detail::give_back(data_, static_cast<std::size_t>(size_) * sizeof(T));
    else if (device_)
      device_->release(data_);
    else
      detail::release(data_, static_cast<std::size_t>(size_) * sizeof(T));
  }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] Index size() const { return size_; }
  [[nodiscard]] Memory memory() const { return memory_; }
  /// The device that it lies on; null where the host may touch it.
  [[nodiscard]] Device* device() const { return memory_ == Memory::device ? device_ : nullptr; }
  /// The file that it lies in; null where it is in memory.
  [[nodiscard]] FileMemory* file() { return file_.get(); }
  [[nodiscard]] const std::shared_ptr<FileMemory>& shared_file() const { return file_; }
  /// Takes a file's pages out of resident memory; nothing else happens to any buffer.
  void forget_pages() {
    if (file_) file_->forget_pages();
  }
  [[nodiscard]] std::span<T> span() { return {data_, static_cast<std::size_t>(size_)}; }
  [[nodiscard]] std::span<const T> span() const { return {data_, static_cast<std::size_t>(size_)}; }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
    std::swap(file_, other.file_);
    std::swap(device_, other.device_);
  }

  T* data_ = nullptr;
  Index size_ = 0;
  Memory memory_ = Memory::host;
  std::shared_ptr<FileMemory> file_;
  Device* device_ = nullptr;
};

}  // namespace rossby
