#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rossby/base/set_zero.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Bump allocator for what lives one step: activations, their gradients, scratch, tape records. `reset` keeps
/// the memory and merges the blocks of the last step into one, so from the third step of a repeating shape on
/// nothing is allocated.
class Arena {
 public:
  /// In host memory, or on a device, which outlives it.
  explicit Arena(Device* device = nullptr) : device_(device) {}

  /// What is taken here is taken from `other`, too, for its count alone: in a trace of the host both are one,
  /// and how large its blocks grow depends on all that they hold.
  void count_in(Arena* other) { counted_in_ = other; }

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
    clear(values);
    return values;
  }

  /// Sets values of its memory to 0.
  template <class T>
  void clear(std::span<T> values) {
    if (values.empty()) return;
    if (device_)
      device_->driver().zero(values.data(), values.size_bytes());
    else
      set_zero(values.data(), values.size_bytes());
  }

  [[nodiscard]] Mark mark() const { return {block_, used_, bytes_}; }

  /// Gives back what was taken since `mark`; pointers from after it are dead. Marks are rewound last first.
  void rewind(const Mark& mark) {
    peak_ = std::max(peak_, bytes_);
    later_peak_ = std::max(later_peak_, bytes_);
    block_ = mark.block;
    used_ = mark.used;
    bytes_ = mark.bytes;
  }

  /// Gives everything back at once; pointers from before are dead.
  void reset() {
    if (blocks_.size() > 1) {
      blocks_.clear();
      resident_ = 0;
      const Device::For purpose(device_, what, remedy);
      blocks_.push_back({Buffer<std::byte>(static_cast<Index>(peak_bytes()), device_)});
    }
    rewind({});
  }

  /// The most bytes that were in use at once.
  [[nodiscard]] std::size_t peak_bytes() const { return std::max(peak_, bytes_); }

  /// The same since `begin_later_peak` was called last.
  void begin_later_peak() { later_peak_ = bytes_; }
  [[nodiscard]] std::size_t later_peak_bytes() const { return std::max(later_peak_, bytes_); }

  /// Of all its blocks.
  [[nodiscard]] std::size_t taken_bytes() const {
    std::size_t all = 0;
    for (const Block& block : blocks_) all += block.size();
    return all;
  }
  /// What its blocks take as arrays, and the most resident memory of the host that they ever took, or would
  /// have taken: memory that steps of one size leave untouched beside that which they use counts.
  [[nodiscard]] std::size_t resident_whole() const {
    std::size_t all = 0;
    for (const Block& block : blocks_) all += detail::resident_bytes(block.size(), block.size());
    return all;
  }
  [[nodiscard]] std::size_t resident_peak() const { return resident_peak_; }

 private:
  struct Block {
    Buffer<std::byte> memory;
    std::size_t touched = 0;   // bytes from its begin that were ever handed out
    std::size_t resident = 0;  // that they take
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(memory.size()); }
  };

  /// On the host a block is as large as all before it: few large ones go back to the system at the first
  /// reset, where thousands of small ones would stay in the allocator's heap beside the one that replaces
  /// them; pages that are not touched cost nothing. A device has no such pages.
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
      // Blocks behind the one in use are free: one that is too small would be of no use to this step.
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

  static constexpr const char* what = "what a step keeps for backward";
  static constexpr std::string_view remedy =
      "fewer steps a slab (train.slab_steps) or windows a batch (window.batch), window.micro_batches, "
      "train.recompute = \"cell\" or \"step\"";

  Device* device_;
  Arena* counted_in_ = nullptr;
  std::vector<Block> blocks_;
  std::size_t block_ = 0;  // that memory is taken from
  std::size_t used_ = 0;   // of it
  std::size_t bytes_ = 0;  // of all blocks
  std::size_t peak_ = 0;
  std::size_t later_peak_ = 0;  // since begin_later_peak
  std::size_t resident_ = 0;    // of all blocks, on the host
  std::size_t resident_peak_ = 0;
};

}  // namespace rossby
