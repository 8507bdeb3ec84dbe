#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "rossby/io/zarr_metadata.hpp"

namespace rossby::detail {

/// Converts an element to T. A number outside the range of Index becomes its smallest value.
template <class T, class Stored>
T convert_element(Stored value) {
  if constexpr (std::is_same_v<T, Index> && std::is_floating_point_v<Stored>)
    return std::abs(static_cast<double>(value)) < 9.2e18 ? static_cast<Index>(value)
                                                         : std::numeric_limits<Index>::min();
  else
    return static_cast<T>(value);
}

template <class T, class Stored>
void convert_row(const char* from, Index count, Index step, T* out) {
  if constexpr (std::is_same_v<T, Stored>) {
    if (step == 1) {
      std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(T));
      return;
    }
  }
  for (Index i = 0; i < count; ++i, from += step * static_cast<Index>(sizeof(Stored))) {
    Stored value;
    std::memcpy(&value, from, sizeof value);
    out[i] = convert_element<T>(value);
  }
}

template <class T>
void convert_times(const char* from, Index count, Index step, double milliseconds, T* out) {
  for (Index i = 0; i < count; ++i, from += step * 8) {
    std::int64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    const bool is_missing = value == std::numeric_limits<std::int64_t>::min();  // NaT
    const double time = is_missing          ? std::numeric_limits<double>::quiet_NaN()
                        : milliseconds >= 1 ? static_cast<double>(value) * milliseconds
                                            : static_cast<double>(value) / std::round(1 / milliseconds);
    out[i] = convert_element<T>(time);
  }
}

/// Converts `count` elements that lie `step` elements apart.
template <class T>
void convert_elements(const ZarrType& type, const char* from, Index count, Index step, T* out) {
  if (type.kind == ZarrType::Kind::time) return convert_times(from, count, step, type.milliseconds, out);
  if (type.kind == ZarrType::Kind::real)
    return type.bytes == 4 ? convert_row<T, float>(from, count, step, out)
                           : convert_row<T, double>(from, count, step, out);
  const bool sign = type.kind == ZarrType::Kind::integer;
  switch (type.bytes) {
    case 1:
      return sign ? convert_row<T, std::int8_t>(from, count, step, out)
                  : convert_row<T, std::uint8_t>(from, count, step, out);
    case 2:
      return sign ? convert_row<T, std::int16_t>(from, count, step, out)
                  : convert_row<T, std::uint16_t>(from, count, step, out);
    case 4:
      return sign ? convert_row<T, std::int32_t>(from, count, step, out)
                  : convert_row<T, std::uint32_t>(from, count, step, out);
    default:
      return sign ? convert_row<T, std::int64_t>(from, count, step, out)
                  : convert_row<T, std::uint64_t>(from, count, step, out);
  }
}

}  // namespace rossby::detail
