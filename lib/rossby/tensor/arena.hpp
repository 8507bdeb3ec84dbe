#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rossby/base/set_zero.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Bump allocator for memory that lives for one step: activations, their gradients, scratch, tape records.
/// `reset` keeps the memory and merges the last step's blocks into one. From the third step of a repeating
/// shape on, nothing is allocated.
class Arena {
 public:
  /// Allocates in host memory, or on a device, which must outlive the arena.
  explicit Arena(Device* device = nullptr) : device_(device) {}

  /// Also counts what is taken here in `other`. In a trace of the host both arenas are one, and the size of
  /// new blocks depends on everything that they hold.
  void count_in(Arena* other) { counted_in_ = other; }

  /// A moment of the arena, to give back what was taken after it.
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

  /// As take, but zeroed.
  template <class T>
  [[nodiscard]] std::span<T> take_zeroed(Index count) {
    auto values = take<T>(count);
    clear(values);
    return values;
  }

  /// Sets values of the arena's memory to 0.
  template <class T>
  void clear(std::span<T> values) {
    if (values.empty()) return;
    if (device_)
      device_->driver().zero(values.data(), values.size_bytes());
    else
      set_zero(values.data(), values.size_bytes());
  }

  [[nodiscard]] Mark mark() const { return {block_, used_, bytes_}; }

  /// Gives back what was taken since `mark`; later pointers become invalid. Rewind marks in reverse order.
  void rewind(const Mark& mark) {
    peak_ = std::max(peak_, bytes_);
    later_peak_ = std::max(later_peak_, bytes_);
    block_ = mark.block;
    used_ = mark.used;
    bytes_ = mark.bytes;
  }

  /// Gives everything back at once; all pointers become invalid.
  void reset() {
    if (blocks_.size() > 1) {
      blocks_.clear();
      resident_ = 0;
      const Device::For purpose(device_, what, remedy);
      blocks_.push_back({Buffer<std::byte>(static_cast<Index>(peak_bytes()), device_)});
    }
    rewind({});
  }

  /// The largest number of bytes in use at once.
  [[nodiscard]] std::size_t peak_bytes() const { return std::max(peak_, bytes_); }

  /// The same peak since the last call of `begin_later_peak`.
  void begin_later_peak() { later_peak_ = bytes_; }
  [[nodiscard]] std::size_t later_peak_bytes() const { return std::max(later_peak_, bytes_); }

  /// Size of all blocks.
  [[nodiscard]] std::size_t taken_bytes() const {
    std::size_t all = 0;
    for (const Block& block : blocks_) all += block.size();
    return all;
  }
  /// Resident host memory: of all blocks as a whole, and the peak so far, in fact or in a trace. A page
  /// counts from its first use on, even if later steps leave it untouched.
  [[nodiscard]] std::size_t resident_whole() const {
    std::size_t all = 0;
    for (const Block& block : blocks_) all += detail::resident_bytes(block.size(), block.size());
    return all;
  }
  [[nodiscard]] std::size_t resident_peak() const { return resident_peak_; }

 private:
  struct Block {
    Buffer<std::byte> memory;
    std::size_t touched = 0;   // leading bytes that were ever handed out
    std::size_t resident = 0;  // resident bytes of the block
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(memory.size()); }
  };

  /// On the host, a new block is as large as all earlier blocks. A few large blocks return to the system at
  /// the first reset. Thousands of small ones would stay in the allocator's heap next to their replacement.
  /// Untouched pages cost nothing on the host; a device has no such pages.
  [[nodiscard]] std::size_t least_block() const {
    std::size_t least = std::size_t{1} << 16;
    if (device_ && !device_->driver().stands_for_host()) return least;
    return std::max(least, taken_bytes());
  }
  [[nodiscard]] bool fits(std::size_t bytes) const {
    return block_ < blocks_.size() && used_ + bytes <= blocks_[block_].size();
  }

  void* take_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    while (!fits(rounded)) {
      // Blocks after the current one are free. A block that is too small would not help this step.
      if (block_ < blocks_.size() && used_ == 0) {
        resident_ -= blocks_[block_].resident;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(block_));
      } else if (block_ < blocks_.size())
        ++block_;
      used_ = 0;
      if (block_ == blocks_.size()) {
        const Device::For purpose(device_, what, remedy);
        blocks_.push_back({Buffer<std::byte>(static_cast<Index>(std::max(rounded, least_block())), device_)});
      }
    }
    void* pointer = blocks_[block_].memory.data() + used_;
    used_ += rounded;
    bytes_ += rounded;
    if (used_ > blocks_[block_].touched) touch(blocks_[block_]);
    if (counted_in_) (void)counted_in_->take_bytes(bytes);
    return pointer;
  }

  void touch(Block& block) {
    block.touched = used_;
    resident_ -= block.resident;
    block.resident = detail::resident_bytes(block.size(), block.touched);
    resident_ += block.resident;
    resident_peak_ = std::max(resident_peak_, resident_);
  }

  static constexpr const char* what = "the values that a step keeps for the backward pass";
  static constexpr std::string_view remedy =
      "fewer steps per slab (train.slab_steps), fewer windows per batch (window.batch), more "
      "window.micro_batches, train.recompute = \"cell\" or \"step\"";

  Device* device_;
  Arena* counted_in_ = nullptr;
  std::vector<Block> blocks_;
  std::size_t block_ = 0;  // current block
  std::size_t used_ = 0;   // bytes used in it
  std::size_t bytes_ = 0;  // in use, over all blocks
  std::size_t peak_ = 0;
  std::size_t later_peak_ = 0;  // since begin_later_peak
  std::size_t resident_ = 0;    // over all blocks, on the host
  std::size_t resident_peak_ = 0;
};

}  // namespace rossby
