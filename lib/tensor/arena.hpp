#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Bump allocator for what lives one step: activations, their gradients, scratch, tape records. `reset` keeps
/// the memory and merges the blocks of the last step into one, so from the third step of a repeating shape on
/// nothing is allocated.
class Arena {
 public:
  /// In host memory, or on a device, which outlives it.
  explicit Arena(Device* device = nullptr) : device_(device) {}

  /// A moment of the arena: what was taken after it can be given back.
  struct Mark {
    std::size_t block = 0;
    std::size_t used = 0;
    std::size_t bytes = 0;
  };

  /// Uninitialised memory for `count` values, aligned to 64 bytes, valid until `reset` (or a rewind).
  template <class T>
  [[nodiscard]] std::span<T> take(Index count) {
    static_assert(std::is_trivially_destructible_v<T>);
    return {static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T))),
            static_cast<std::size_t>(count)};
  }

  /// The same, zeroed.
  template <class T>
  [[nodiscard]] std::span<T> take_zeroed(Index count) {
    auto values = take<T>(count);
    if (count > 0 && device_)
      device_->driver().zero(values.data(), values.size_bytes());
    else if (count > 0)
      std::memset(static_cast<void*>(values.data()), 0, values.size_bytes());
    return values;
  }

  [[nodiscard]] Mark mark() const { return {block_, used_, bytes_}; }

  /// Gives back what was taken since `mark`; pointers from after it are dead. Marks are rewound last first.
  void rewind(const Mark& mark) {
    peak_ = std::max(peak_, bytes_);
    block_ = mark.block;
    used_ = mark.used;
    bytes_ = mark.bytes;
  }

  /// Gives everything back at once; pointers from before are dead.
  void reset() {
    if (blocks_.size() > 1) {
      blocks_.clear();
      blocks_.emplace_back(static_cast<Index>(peak_bytes()), device_);
    }
    rewind({});
  }

  /// The most bytes that were in use at once.
  [[nodiscard]] std::size_t peak_bytes() const { return std::max(peak_, bytes_); }

 private:
  /// On the host a block is as large as all before it: few large ones go back to the system at the first
  /// reset, where thousands of small ones would stay in the allocator's heap beside the one that replaces
  /// them; pages that are not touched cost nothing. A device has no such pages.
  [[nodiscard]] std::size_t least_block() const {
    std::size_t least = std::size_t{1} << 16;
    if (device_) return least;
    std::size_t all = 0;
    for (const auto& block : blocks_) all += static_cast<std::size_t>(block.size());
    return std::max(least, all);
  }
  [[nodiscard]] bool fits(std::size_t bytes) const {
    return block_ < blocks_.size() && used_ + bytes <= static_cast<std::size_t>(blocks_[block_].size());
  }

  void* take_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    bytes_ += rounded;
    while (!fits(rounded)) {
      // Blocks behind the one in use are free: one that is too small would be of no use to this step.
      if (block_ < blocks_.size() && used_ == 0)
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(block_));
      else if (block_ < blocks_.size())
        ++block_;
      used_ = 0;
      if (block_ == blocks_.size())
        blocks_.emplace_back(static_cast<Index>(std::max(rounded, least_block())), device_);
    }
    void* pointer = blocks_[block_].data() + used_;
    used_ += rounded;
    return pointer;
  }

  Device* device_;
  std::vector<Buffer<std::byte>> blocks_;
  std::size_t block_ = 0;  // that memory is taken from
  std::size_t used_ = 0;   // of it
  std::size_t bytes_ = 0;  // of all blocks
  std::size_t peak_ = 0;
};

}  // namespace rossby
