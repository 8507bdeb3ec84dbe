#include "rossby/run/forecast_store.hpp"

namespace rossby {

ForecastStore::ForecastStore(const std::string& folder, Index slots, Index horizons, Index origins,
                             Index width, Index most)
    : horizons_(horizons), origins_(origins), width_(width) {
  const Index values = slots * horizons * origins * width;
  if (values <= most) {
    memory_ = Buffer<float>(values);
    data_ = memory_.data();
  } else {
    file_ = std::make_unique<FileMemory>(folder, static_cast<std::size_t>(values) * sizeof(float));
    data_ = reinterpret_cast<float*>(file_->data());
  }
}

}  // namespace rossby
