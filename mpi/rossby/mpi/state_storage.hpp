#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "rossby/base/bf16.hpp"
#include "rossby/base/error.hpp"
#include "rossby/base/index.hpp"
#include "rossby/mpi/hdf5_handle.hpp"

// HDF5 calls of the state file as small functions that throw UserError on this rank. Callers let all ranks
// agree.
namespace rossby::state {

/// Maximum number of bytes that a rank stages or passes to HDF5 at once.
constexpr Index slab_bytes = Index{64} << 20;

/// Mixes 64 bits (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// This share's part of a dataset's checksum: Σ mix(mix(index + 1) + bits) mod 2^64 over `count` values that
/// start at index `first` of the dataset. Parts add up in any order.
template <class V>
std::uint64_t checksum(const V* values, Index count, Index first) {
  using Bits =
      std::conditional_t<sizeof(V) == 8, std::uint64_t,
                         std::conditional_t<sizeof(V) == 4, std::uint32_t,
                                            std::conditional_t<sizeof(V) == 2, std::uint16_t, std::uint8_t>>>;
  std::uint64_t sum = 0;
  for (Index i = 0; i < count; ++i)
    sum += mix(mix(static_cast<std::uint64_t>(first + i) + 1) + std::bit_cast<Bits>(values[i]));
  return sum;
}

/// Bfloat16, described to HDF5 as a custom floating-point type: readers that do not know bfloat16 convert it.
Hdf5Type bf16_type();

/// HDF5's type of a scalar in memory.
template <class V>
Hdf5Type native_type() {
  if constexpr (std::is_same_v<V, float>) return Hdf5Type(H5Tcopy(H5T_NATIVE_FLOAT));
  if constexpr (std::is_same_v<V, double>) return Hdf5Type(H5Tcopy(H5T_NATIVE_DOUBLE));
  if constexpr (std::is_same_v<V, std::int64_t>) return Hdf5Type(H5Tcopy(H5T_NATIVE_INT64));
  if constexpr (std::is_same_v<V, std::int32_t>) return Hdf5Type(H5Tcopy(H5T_NATIVE_INT32));
  if constexpr (std::is_same_v<V, std::uint64_t>) return Hdf5Type(H5Tcopy(H5T_NATIVE_UINT64));
  if constexpr (std::is_same_v<V, char>) return Hdf5Type(H5Tcopy(H5T_NATIVE_UINT8));
  if constexpr (std::is_same_v<V, Bf16>) return bf16_type();
}

static_assert(std::endian::native == std::endian::little, "state files hold values as they lie in memory");

/// (outer, rows, inner): every dataset of a state file has these three extents; some may be 1.
using Extents = std::array<hsize_t, 3>;

/// A part of a dataset (start, count) and of the caller's memory (count rows of `memory` from row memory_row
/// on).
struct Slab {
  Extents start{};
  Extents count{};
  Extents memory{};
  hsize_t memory_row = 0;
};

/// A dataset to create: its place and type.
struct PlannedDataset {
  std::string path;    // "/arrays/<name>/value"; its group is created with it
  Hdf5Type (*type)();  // a function, because HDF5's type identifiers exist only at run time
  Extents extents{};
  std::string same_as;  // not empty: only a second name of that dataset
};

/// A number to store as an attribute of a group or dataset.
struct PlannedNumber {
  std::string path;
  std::string name;
  std::uint64_t value = 0;
};

/// Creates the file if needed and allocates its first `size` bytes, so that no later write finds the disk
/// full. Some file systems cannot guarantee this.
void reserve(const std::string& path, std::uint64_t size);

/// Creates an HDF5 file with these datasets and numbers in this process alone, and reserves disk space for
/// every dataset. Returns the byte offset of each dataset's values in the file.
std::vector<std::uint64_t> create_skeleton(const std::string& path,
                                           const std::vector<PlannedDataset>& datasets,
                                           const std::vector<PlannedNumber>& numbers);

/// Overwrites numbers in an existing file, in place.
void overwrite_numbers(const std::string& path, const std::vector<PlannedNumber>& numbers);

/// A file that several processes write in pieces at byte offsets.
class RawFile {
 public:
  explicit RawFile(const std::string& path);
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile();
  /// Starts writing to disk in the background. Otherwise the operating system may leave gigabytes for `sync`.
  void write(const void* data, std::size_t bytes, std::uint64_t offset);
  /// Flushes everything written to disk.
  void sync();

 private:
  void begin_writeback(std::uint64_t offset, std::uint64_t bytes);

  int descriptor_;
  std::uint64_t cached_ = 0;  // bytes not yet passed to the disk, between these offsets
  std::uint64_t cached_begin_ = 0;
  std::uint64_t cached_end_ = 0;
};

/// Throws UserError: "cannot <what>: <text of errno>".
[[noreturn]] void refuse(const char* what);

/// Opens for reading, by all ranks of `comm`, or by this process alone if comm is MPI_COMM_NULL.
Hdf5File open_file(const std::string& path, MPI_Comm comm);

/// Opens for reading and writing, by this process alone.
Hdf5File open_file_to_write(const std::string& path);

Hdf5Dataset create_dataset(hid_t parent, const std::string& name, hid_t type, const Extents& extents);
/// Opens a dataset and checks its extents. `what` names it in messages.
Hdf5Dataset open_dataset(hid_t parent, const std::string& name, const Extents& extents,
                         const std::string& what);

/// Reads a slab. Collective over the file's ranks, even with an empty slab, unless one process alone opened
/// the file.
void read_slab(hid_t dataset, hid_t memory_type, const Slab& slab, void* data, bool collective = true);

/// Returns a number attribute. Throws UserError if it is missing.
std::uint64_t read_number(hid_t object, const std::string& name);

}  // namespace rossby::state
