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

/// The kind of memory that holds a buffer.
enum class Memory {
  host,
  pinned,  // host memory that a Device copies directly
  file,    // a mapped file
  device,  // memory of a Device: only its queue may access it
  nowhere  // addresses without memory, for traced trainings: no access
};

/// Number of values after which a pass over an array that may be in a file forgets its pages, to keep few in
/// memory.
inline constexpr Index values_at_a_time = Index{1} << 18;

namespace detail {
/// Zeroed host memory, aligned to a cache line (64 bytes). Throws UserError with the size if memory runs out.
/// Pass `release` the same number of bytes.
void* allocate(std::size_t bytes);
void release(void* pointer, std::size_t bytes) noexcept;
/// Addresses without memory. Throws UserError if the address space runs out.
void* reserve(std::size_t bytes);
void give_back(void* pointer, std::size_t bytes) noexcept;
/// Resident memory of a buffer of `bytes` whose first `touched` bytes were accessed. Counts whole pages, and
/// huge ones if `allocate` asks for them.
std::size_t resident_bytes(std::size_t bytes, std::size_t touched);
/// Throws UserError.
[[noreturn]] void out_of_pinned_memory(std::size_t bytes);
/// Buffers allocated by this process so far, for the test that no step after the first allocates.
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
  /// Allocates on a device, which must outlive the buffer; zeroed in its queue.
  Buffer(Index size, Device& device) : size_(size), memory_(Memory::device), device_(&device) {
    require(size >= 0, "a buffer needs a size of zero or more");
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    data_ = static_cast<T*>(device.allocate(bytes));
    if (size > 0) device.driver().zero(data_, bytes);
  }
  /// Allocates on `device`, or in host memory if it is null.
  Buffer(Index size, Device* device) : Buffer(device ? Buffer(size, *device) : Buffer(size)) {}
  /// Allocates pinned memory for `device`, which must outlive the buffer. Throws UserError if there is not
  /// enough.
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
  /// Wraps the content of a file.
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
  /// The device that holds it; null if the host may access it.
  [[nodiscard]] Device* device() const { return memory_ == Memory::device ? device_ : nullptr; }
  /// The file that holds it; null if it is in memory.
  [[nodiscard]] FileMemory* file() { return file_.get(); }
  [[nodiscard]] const std::shared_ptr<FileMemory>& shared_file() const { return file_; }
  /// Drops a file's pages from resident memory. Does nothing for other buffers.
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
