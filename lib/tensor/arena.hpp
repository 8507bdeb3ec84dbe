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
  /// Uninitialised memory for `count` values, aligned to 64 bytes, valid until `reset`.
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
    if (count > 0) std::memset(static_cast<void*>(values.data()), 0, values.size_bytes());
    return values;
  }

  /// Gives everything back at once; pointers from before are dead.
  void reset() {
    if (blocks_.size() > 1) {
      std::size_t total = 0;
      for (const auto& block : blocks_) total += static_cast<std::size_t>(block.size());
      blocks_.clear();
      blocks_.emplace_back(static_cast<Index>(total));
    }
    used_ = 0;
    peak_ = std::max(peak_, bytes_);
    bytes_ = 0;
  }

  /// The most bytes that were in use at once.
  [[nodiscard]] std::size_t peak_bytes() const { return std::max(peak_, bytes_); }

 private:
  void* take_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    bytes_ += rounded;
    if (blocks_.empty() || used_ + rounded > static_cast<std::size_t>(blocks_.back().size())) {
      blocks_.emplace_back(static_cast<Index>(std::max<std::size_t>(rounded, std::size_t{1} << 16)));
      used_ = 0;
    }
    void* pointer = blocks_.back().data() + used_;
    used_ += rounded;
    return pointer;
  }

  std::vector<Buffer<std::byte>> blocks_;
  std::size_t used_ = 0;   // of the last block
  std::size_t bytes_ = 0;  // of all blocks
  std::size_t peak_ = 0;
};

}  // namespace rossby
