#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/state_layout.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

using namespace state;

constexpr const char* collective_read = "the collective reading of a state file (MPI-IO)";

/// The open file and the state shared by its arrays.
struct Reader {
  const Communicator& comm;
  const RowRedistribution& layout;
  hid_t arrays;
  std::set<std::pair<const GlobalEdges*, haddr_t>> checked_patterns;
};

void check_damage(std::uint64_t found, hid_t dataset, const std::string& what) {
  if (found != read_number(dataset, "checksum"))
    user_error("{} is damaged: its checksum does not match", what);
}

void compare_checksum(const Reader& reader, hid_t dataset, std::uint64_t share, const std::string& what) {
  const std::uint64_t sum = sum_over_ranks(reader.comm, share);
  agree(reader.comm, [&] { check_damage(sum, dataset, what); });
}

/// Names of the arrays in the file, for messages.
std::string names_in(hid_t arrays) {
  std::string names;
  H5G_info_t info{};
  if (H5Gget_info(arrays, &info) < 0) return names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[256] = "";
    if (H5Lget_name_by_idx(arrays, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0)
      break;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

/// Bytes of a stored value: 8, 4, or 2 in bf16.
std::size_t stored_bytes(hid_t dataset, const std::string& what) {
  const Hdf5Type type(H5Dget_type(dataset));
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_class(type) != H5T_FLOAT || (size != 4 && size != 8 && H5Tequal(type, bf16_type()) <= 0))
    user_error("{} is not of floating-point values", what);
  return size;
}

/// Reads values stored as S into an array of D in a file, in pieces of rows.
template <class D, class S, class T>
void read_into_file(const Reader& reader, hid_t dataset, const StateArray<T>& array,
                    const std::string& what) {
  const RowRedistribution& layout = reader.layout;
  require(layout.partition().identity() && array.held < 0, "arrays in files go with contiguous blocks");
  const Index step = rows_at_once(layout, array.inner, sizeof(S));
  std::vector<S> stored;
  std::uint64_t sum = 0;
  for (Index o = 0; o < array.outer; ++o)
    for (Index r = 0; r < layout.largest(); r += step) {
      Slab slab = row_slab(layout, o, 1, array.inner, r, step);
      const auto rows = static_cast<Index>(slab.count[1]);
      const Index first = layout.begin() + std::min(r, layout.block_rows());
      slab.memory[1] = slab.count[1];
      slab.memory_row = 0;
      stored.resize(static_cast<std::size_t>(rows * array.inner));
      agree(reader.comm, [&] {
        const Wait wait(reader.comm, collective_read);
        read_slab(dataset, native_type<S>(), slab, stored.data());
      });
      sum += checksum(stored.data(), rows * array.inner, (o * layout.rows() + first) * array.inner);
      D* to = values_of<D>(array) + (o * layout.block_rows() + first - layout.begin()) * array.inner;
      std::transform(stored.begin(), stored.end(), to, converted<D, S>);
      array.file->forget_pages();
    }
  compare_checksum(reader, dataset, sum, what);
}

/// Reads values stored as S into an array of D.
template <class D, class S, class T>
void read_rows(const Reader& reader, hid_t dataset, const StateArray<T>& array, const std::string& what) {
  if (array.file) return read_into_file<D, S>(reader, dataset, array, what);
  const RowRedistribution& layout = reader.layout;
  const RowPartition& partition = layout.partition();
  const Index planes = planes_at_once(layout, array.inner, std::max(sizeof(D), sizeof(S)));
  const Index rows = rows_at_once(layout, array.inner, sizeof(S));
  std::vector<S> stored;
  std::vector<D> block, local;
  std::uint64_t sum = 0;
  for (Index o = 0; o < array.outer; o += planes) {
    const Index count = std::min(planes, array.outer - o);
    stored.resize(static_cast<std::size_t>(count * layout.block_rows() * array.inner));
    for (Index r = 0; r < layout.largest(); r += rows)
      agree(reader.comm, [&] {
        const Wait wait(reader.comm, collective_read);
        read_slab(dataset, native_type<S>(), row_slab(layout, o, count, array.inner, r, rows), stored.data());
      });
    sum += row_checksum(layout, stored.data(), o, count, array.inner);
    block.resize(stored.size());
    std::transform(stored.begin(), stored.end(), block.begin(), converted<D, S>);
    if (array.inner_is_nodes && !partition.identity()) {
      std::vector<D> line(static_cast<std::size_t>(array.inner));
      for (Index row = 0; row < count * layout.block_rows(); ++row) {
        D* values = block.data() + row * array.inner;
        for (Index j = 0; j < array.inner; ++j)
          line[static_cast<std::size_t>(partition.position(GlobalRow{j}).value)] = values[j];
        std::copy(line.begin(), line.end(), values);
      }
    }
    const Index plane = layout.owned() * array.inner;
    D* to = values_of<D>(array) + o * plane;
    if (array.held >= 0) {
      local.resize(static_cast<std::size_t>(count * plane));
      to = local.data();
    }
    layout.from_blocks(reinterpret_cast<const std::byte*>(block.data()), count,
                       array.inner * static_cast<Index>(sizeof(D)), reinterpret_cast<std::byte*>(to));
    if (array.held < 0) continue;
    const Index begin = std::max(o, array.first), end = std::min(o + count, array.first + array.held);
    if (begin < end)
      std::copy_n(to + (begin - o) * plane, (end - begin) * plane,
                  values_of<D>(array) + (begin - array.first) * plane);
  }
  compare_checksum(reader, dataset, sum, what);
}

template <class T, class S>
void read_replicated(const Reader& reader, hid_t dataset, const StateArray<T>& array,
                     const std::string& what) {
  const Extents extents{static_cast<hsize_t>(array.outer), 1, static_cast<hsize_t>(array.inner)};
  std::vector<S> stored(static_cast<std::size_t>(array.outer * array.inner));
  agree(reader.comm, [&] {
    const Wait wait(reader.comm, collective_read);
    read_slab(dataset, native_type<S>(), {{}, extents, extents, 0}, stored.data());
  });
  agree(reader.comm,
        [&] { check_damage(checksum(stored.data(), array.outer * array.inner, 0), dataset, what); });
  std::transform(stored.begin(), stored.end(), array.data, converted<T, S>);
}

/// This rank's block of a dataset over entries.
template <class V>
std::vector<V> read_entries(const Reader& reader, hid_t dataset, const EntryRedistribution& entries,
                            const std::string& what) {
  std::vector<V> block(static_cast<std::size_t>(entries.count()));
  linear_steps(entries.first(), entries.count(), entries.largest(), sizeof(V),
               [&](Index at, const Slab& slab) {
                 agree(reader.comm, [&] {
                   const Wait wait(reader.comm, collective_read);
                   read_slab(dataset, native_type<V>(), slab, block.data() + at);
                 });
               });
  compare_checksum(reader, dataset, checksum(block.data(), entries.count(), entries.first()), what);
  return block;
}

/// Compares the stored pattern with this one, entry by entry.
void check_pattern(Reader& reader, hid_t group, const GlobalEdges& edges, const EntryRedistribution& entries,
                   const std::string& what) {
  const Extents extents{1, static_cast<hsize_t>(entries.total()), 1};
  const auto open = [&](const char* name) {
    return agree(reader.comm, [&] { return open_dataset(group, name, extents, what); });
  };
  const Hdf5Dataset node = open("entry_node");
  const Hdf5Dataset relation = open("entry_relation");
  const Hdf5Dataset neighbour = open("entry_neighbour");
  H5O_info_t info{};
  if (H5Oget_info2(node, &info, H5O_INFO_BASIC) >= 0 &&
      !reader.checked_patterns.insert({&edges, info.addr}).second)
    return;

  const EntryIndex local = entry_index(edges, reader.layout.partition(), reader.comm.rank());
  const EntryIndex here{entries_to_blocks(entries, local.node.data()),
                        entries_to_blocks(entries, local.relation.data()),
                        entries_to_blocks(entries, local.neighbour.data())};
  const EntryIndex file{
      read_entries<std::int64_t>(reader, node, entries, what + ", dataset 'entry_node'"),
      read_entries<std::int32_t>(reader, relation, entries, what + ", dataset 'entry_relation'"),
      read_entries<std::int64_t>(reader, neighbour, entries, what + ", dataset 'entry_neighbour'")};
  agree(reader.comm, [&] {
    for (std::size_t e = 0; e < here.node.size(); ++e)
      if (here.node[e] != file.node[e] || here.relation[e] != file.relation[e] ||
          here.neighbour[e] != file.neighbour[e])
        user_error("{} has other entries: entry {} is W_{}[{}, {}] in the file, but W_{}[{}, {}] in this run",
                   what, entries.first() + static_cast<Index>(e), file.relation[e], file.node[e],
                   file.neighbour[e], here.relation[e], here.node[e], here.neighbour[e]);
  });
}

template <class T, class S>
void read_values(Reader& reader, hid_t group, hid_t dataset, const StateArray<T>& array,
                 const std::string& what) {
  if (array.in_bf16) return read_rows<Bf16, S>(reader, dataset, array, what);
  if (array.placement == Placement::rows) return read_rows<T, S>(reader, dataset, array, what);
  if (array.placement == Placement::replicated) return read_replicated<T, S>(reader, dataset, array, what);
  const EntryRedistribution entries(reader.layout, *array.edges);
  check_pattern(reader, group, *array.edges, entries, what);
  const std::vector<S> stored = read_entries<S>(reader, dataset, entries, what);
  std::vector<T> block(stored.size());
  std::transform(stored.begin(), stored.end(), block.begin(), converted<T, S>);
  entries.from_blocks(reinterpret_cast<const std::byte*>(block.data()), sizeof(T),
                      reinterpret_cast<std::byte*>(array.data));
}

template <class T>
void read_array(Reader& reader, const StateArray<T>& array) {
  const std::string what = "array '" + array.name + "'";
  Extents extents{static_cast<hsize_t>(array.outer), 1, static_cast<hsize_t>(array.inner)};
  if (array.placement == Placement::rows) extents[1] = static_cast<hsize_t>(reader.layout.rows());
  if (array.placement == Placement::entries) {
    Index total = array.edges->entries();
    const Wait wait(reader.comm, "a count of entries (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, reader.comm.handle());
    extents[1] = static_cast<hsize_t>(total);
  }
  const Hdf5Group group = agree(reader.comm, [&] {
    Hdf5Group opened(H5Gopen2(reader.arrays, array.name.c_str(), H5P_DEFAULT));
    if (!opened.valid()) user_error("it has no {}; it has {}", what, names_in(reader.arrays));
    const std::uint64_t placement = read_number(opened, "placement");
    if (placement != static_cast<std::uint64_t>(array.placement))
      user_error("{} has placement {} in the file, but {} in this program", what,
                 placement <= 2 ? placement_name(static_cast<Placement>(placement)) : "unknown",
                 placement_name(array.placement));
    return opened;
  });
  const Hdf5Dataset dataset = agree(reader.comm, [&] { return open_dataset(group, "value", extents, what); });
  const std::size_t bytes = agree(reader.comm, [&] { return stored_bytes(dataset, what); });
  if (bytes == 8) return read_values<T, double>(reader, group, dataset, array, what);
  if (bytes == 4) return read_values<T, float>(reader, group, dataset, array, what);
  read_values<T, Bf16>(reader, group, dataset, array, what);
}

/// Throws UserError with the operating system's reason if a file cannot be read.
void check_readable(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0)
    user_error("state file '{}' cannot be read: {}. Check the path and the permissions", path,
               std::strerror(errno));
}

/// Puts the version of the file's format into `version`. Throws UserError for another version. The message
/// is complete: other checkpoints of a run mostly have the same version.
void check_version(hid_t file, const std::string& path, std::uint64_t& version) {
  version = read_number(file, "format_version");
  if (version != format_version)
    user_error(
        "state file '{}' has format version {}, but this version of Rossby reads version {}. Use the version "
        "of Rossby that wrote the file, or repeat the training",
        path, version, format_version);
}

template <class T>
void read_arrays(const Communicator& comm, const RowRedistribution& layout, const Hdf5File& file,
                 std::span<const StateArray<T>> arrays, const std::string& path, std::uint64_t& version) {
  agree(comm, [&] {
    check_version(file, path, version);
    const std::uint64_t rows = read_number(file, "rows");
    const bool by_node = std::any_of(arrays.begin(), arrays.end(), [](const StateArray<T>& array) {
      return array.placement != Placement::replicated;
    });
    if (by_node && rows != static_cast<std::uint64_t>(layout.rows()))
      user_error("it has {} nodes, but this run has {}", rows, layout.rows());
  });
  const Hdf5Group group = agree(comm, [&] {
    Hdf5Group opened(H5Gopen2(file, "arrays", H5P_DEFAULT));
    if (!opened.valid()) user_error("it has no arrays");
    return opened;
  });
  Reader reader{comm, layout, group, {}};
  for (const StateArray<T>& array : arrays) read_array(reader, array);
}

/// Number of bytes of the text, which the file stores unencoded. At most the size of the file.
Index metadata_size(hid_t dataset, const std::string& path) {
  const Hdf5Space space(H5Dget_space(dataset));
  const Hdf5Type type(H5Dget_type(dataset));
  Extents found{};
  if (H5Tget_class(type) != H5T_INTEGER || H5Tget_size(type) != 1 || H5Sget_simple_extent_ndims(space) != 3 ||
      H5Sget_simple_extent_dims(space, found.data(), nullptr) != 3 || found[0] != 1 || found[2] != 1)
    user_error("its metadata is not text of shape (1, bytes, 1)");
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code || found[1] > bytes) user_error("its metadata claims {} bytes, more than the file has", found[1]);
  return static_cast<Index>(found[1]);
}

}  // namespace

template <class T>
void read_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                std::span<const StateArray<T>> arrays) {
  const Stage stage(comm, "reading a state file", patience_with_files);
  agree(comm, [&] { check_arrays(arrays, partition, comm.rank()); });
  const RowRedistribution layout(comm, partition);
  const QuietHdf5 quiet;
  agree(comm, [&] { check_readable(path); });
  std::uint64_t version = format_version;
  try {
    Hdf5File file = agree(comm, [&] {
      const Wait wait(comm, "the collective opening of a state file (MPI-IO)");
      return open_file(path, comm.handle());
    });
    read_arrays(comm, layout, file, arrays, path, version);
    const Wait wait(comm, "the collective closing of a state file (MPI-IO)");
    (void)file.close();
  } catch (const UserError& error) {
    if (version != format_version) throw;
    user_error(
        "state file '{}' cannot be used: {}. A complete file of the same run is needed, for example from "
        "another checkpoint",
        path, error.what());
  }
}

std::string read_state_metadata(const std::string& path) {
  const QuietHdf5 quiet;
  check_readable(path);
  std::uint64_t version = format_version;
  try {
    const Hdf5File file = open_file(path, MPI_COMM_NULL);
    check_version(file, path, version);
    const Hdf5Dataset dataset(H5Dopen2(file, "metadata", H5P_DEFAULT));
    if (!dataset.valid()) user_error("it has no metadata");
    const Index size = metadata_size(dataset, path);
    std::string text(static_cast<std::size_t>(size), '\0');
    const Extents extents{1, static_cast<hsize_t>(size), 1};
    read_slab(dataset, native_type<char>(), {{}, extents, extents, 0}, text.data(), false);
    check_damage(checksum(text.data(), size, 0), dataset, "its metadata");
    return text;
  } catch (const UserError& error) {
    if (version != format_version) throw;
    user_error(
        "state file '{}' cannot be used: {}. A complete file of the same run is needed, for example from "
        "another checkpoint",
        path, error.what());
  }
}

template void read_state<float>(const Communicator&, const std::string&, const RowPartition&,
                                std::span<const StateArray<float>>);
template void read_state<double>(const Communicator&, const std::string&, const RowPartition&,
                                 std::span<const StateArray<double>>);

}  // namespace rossby
