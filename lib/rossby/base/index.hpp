#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace rossby {

/// Counts, sizes and offsets. 64 bits, because n·T·d exceeds 2^31 at common sizes.
using Index = std::int64_t;

/// A count or an offset that is not negative, as standard containers take it.
constexpr std::size_t as_size(Index i) {
  return static_cast<std::size_t>(i);
}

/// A column of a relation block in local numbering: owned rows first, then ghosts. 32 bits halve the index
/// traffic.
using LocalColumn = std::int32_t;

/// An entry's place in one rank's sparse relations, and the number of a relation. Narrow to save traffic;
/// localise() refuses values that do not fit.
using LocalEntry = std::int32_t;
using RelationNumber = std::uint16_t;

namespace detail {
/// An index that does not convert implicitly to another kind of index.
template <class Tag>
struct StrongIndex {
  Index value = 0;
  constexpr StrongIndex() = default;
  constexpr explicit StrongIndex(Index v) : value(v) {}
  friend constexpr auto operator<=>(StrongIndex, StrongIndex) = default;
};
}  // namespace detail

/// A node in file order, 0…n−1: the same node at every rank count. Random numbers, initial values, batch
/// order and file layout depend on it.
using GlobalRow = detail::StrongIndex<struct GlobalRowTag>;

/// A node in the order of a RowPartition: rank by rank, and within a rank by ascending GlobalRow or as
/// reordered.
using Position = detail::StrongIndex<struct PositionTag>;

/// A node owned by one rank, 0…owned−1.
using LocalRow = detail::StrongIndex<struct LocalRowTag>;

}  // namespace rossby
