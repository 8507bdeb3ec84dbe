#pragma once

#include <compare>
#include <cstdint>

namespace rossby {

/// Counts, sizes and offsets. 64 bits: n·T·d passes 2^31 at sizes users have.
using Index = std::int64_t;

/// A column of a relation block in local numbering: owned rows first, then ghosts. 32 bits halve the index
/// traffic.
using LocalColumn = std::int32_t;

/// A place among the entries of one rank's sparse relations, and the number of a relation. Narrow for the
/// same reason; localise() refuses what does not fit.
using LocalEntry = std::int32_t;
using RelationNumber = std::uint16_t;

namespace detail {
/// An index that does not convert into another kind of index by accident.
template <class Tag>
struct StrongIndex {
  Index value = 0;
  constexpr StrongIndex() = default;
  constexpr explicit StrongIndex(Index v) : value(v) {}
  friend constexpr auto operator<=>(StrongIndex, StrongIndex) = default;
};
}  // namespace detail

/// A node in file order, 0…n−1: the same node at every rank count. Random numbers, initial values, batch
/// order and file layout are functions of it.
using GlobalRow = detail::StrongIndex<struct GlobalRowTag>;

/// A node in the order of a RowPartition: rank by rank, inside a rank by ascending GlobalRow or as it was
/// reordered.
using Position = detail::StrongIndex<struct PositionTag>;

/// A node among those that one rank owns, 0…owned−1.
using LocalRow = detail::StrongIndex<struct LocalRowTag>;

}  // namespace rossby
