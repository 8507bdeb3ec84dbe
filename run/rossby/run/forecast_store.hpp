#pragma once

#include <memory>
#include <string>

#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {

/// Forecasts of this rank's rows, (slots, horizons, origins, rows, m), initially zero. Many forecasts lie in
/// an unnamed file of a folder, whose pages the system can take away if memory is short.
class ForecastStore {
 public:
  /// `width` is rows · m. Up to `most` values are held in memory. Throws UserError if the folder's file
  /// system does not give the space.
  ForecastStore(const std::string& folder, Index slots, Index horizons, Index origins, Index width,
                Index most = Index{1} << 26);

  [[nodiscard]] bool in_file() const { return file_ != nullptr; }

  /// Returns the values (rows, m) of one forecast at a horizon 1, 2, ….
  [[nodiscard]] float* at(Index slot, Index horizon, Index origin) {
    return data_ + ((slot * horizons_ + horizon - 1) * origins_ + origin) * width_;
  }
  /// Call between members: written values need not stay in memory.
  void forget_pages() {
    if (file_) file_->forget_pages();
  }

 private:
  Index horizons_, origins_, width_;
  Buffer<float> memory_;
  std::unique_ptr<FileMemory> file_;
  float* data_ = nullptr;
};

}  // namespace rossby
