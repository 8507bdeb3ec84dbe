#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/state_layout.hpp"
#include "rossby/mpi/watchdog.hpp"

// Rank 0 alone creates the file's structure with HDF5. All ranks write the values at the offsets that HDF5
// assigned. A failed write is then an ordinary error of one rank, on which all ranks can agree. In a
// collective HDF5 write, it would leave the others waiting.
namespace rossby {
namespace {

using namespace state;

/// The file being written.
struct Writer {
  const Communicator& comm;
  const RowRedistribution& layout;
  std::map<const GlobalEdges*, EntryRedistribution> entries;
  std::vector<PlannedDataset> datasets;
  std::vector<PlannedNumber> numbers;

  std::vector<std::uint64_t> offsets;    // by dataset
  std::vector<std::uint64_t> checksums;  // this rank's share, by dataset
  std::unique_ptr<RawFile> file;
  std::size_t next = 0;  // next dataset to write

  Outcome outcome;  // this rank's first failure; the rank continues with collective calls
  template <class Work>
  void attempt(Work&& work) {
    if (outcome.kind != Outcome::Kind::fine) return;
    try {
      std::forward<Work>(work)();
    } catch (...) {
      outcome = Outcome::of_current_exception();
    }
  }
};

template <class T>
void plan_dataset(Writer& writer, std::string path, const Extents& extents) {
  writer.numbers.push_back({path, "checksum", 0});
  writer.datasets.push_back({std::move(path), native_type<T>, extents, ""});
}

Extents extents_of(Index a, Index b, Index c) {
  return {static_cast<hsize_t>(a), static_cast<hsize_t>(b), static_cast<hsize_t>(c)};
}

/// Collective for the first entries array of a pattern.
template <class T>
void plan_array(Writer& writer, const StateArray<T>& array,
                std::map<const GlobalEdges*, std::string>& holders) {
  const std::string group = "/arrays/" + array.name;
  if (array.placement != Placement::entries) {
    const Index rows = array.placement == Placement::rows ? writer.layout.rows() : 1;
    const Extents extents = extents_of(array.outer, rows, array.inner);
    if (array.in_bf16)
      plan_dataset<Bf16>(writer, group + "/value", extents);
    else
      plan_dataset<T>(writer, group + "/value", extents);
  } else {
    const auto place = writer.entries.find(array.edges);
    const EntryRedistribution& entries =
        place != writer.entries.end()
            ? place->second
            : writer.entries.emplace(array.edges, EntryRedistribution(writer.layout, *array.edges))
                  .first->second;
    const Extents extents = extents_of(1, entries.total(), 1);
    plan_dataset<T>(writer, group + "/value", extents);
    const auto [holder, first] = holders.try_emplace(array.edges, group);
    if (first) {
      plan_dataset<std::int64_t>(writer, group + "/entry_node", extents);
      plan_dataset<std::int32_t>(writer, group + "/entry_relation", extents);
      plan_dataset<std::int64_t>(writer, group + "/entry_neighbour", extents);
    } else {
      for (const char* name : {"/entry_node", "/entry_relation", "/entry_neighbour"})
        writer.datasets.push_back({group + name, nullptr, {}, holder->second + name});
    }
  }
  writer.numbers.push_back({group, "placement", static_cast<std::uint64_t>(array.placement)});
}

/// Writes values [first, first + count) of the next dataset, then advances to the following one.
template <class V>
void write_linear(Writer& writer, const V* values, Index first, Index count) {
  writer.attempt([&] {
    writer.file->write(values, static_cast<std::size_t>(count) * sizeof(V),
                       writer.offsets[writer.next] + static_cast<std::uint64_t>(first) * sizeof(V));
  });
  writer.checksums[writer.next++] = checksum(values, count, first);
}

/// Reorders columns from position order to global order.
template <class T>
void order_columns(T* values, Index rows, const RowPartition& partition) {
  std::vector<T> line(static_cast<std::size_t>(partition.rows()));
  for (Index row = 0; row < rows; ++row, values += partition.rows()) {
    for (Index j = 0; j < partition.rows(); ++j)
      line[static_cast<std::size_t>(j)] = values[partition.position(GlobalRow{j}).value];
    std::copy(line.begin(), line.end(), values);
  }
}

/// Returns planes [o, o + count), in place or collected from all groups that hold them.
template <class D, class T>
const D* planes_of(Writer& writer, const StateArray<T>& array, Index o, Index count,
                   std::vector<D>& together) {
  const Index plane = writer.layout.owned() * array.inner;
  if constexpr (std::is_same_v<D, T>)
    if (array.held >= 0) {
      together.resize(static_cast<std::size_t>(count * plane));
      for (Index p = o; p < o + count;) {
        D* to = together.data() + (p - o) * plane;
        const bool own = p >= array.first && p < array.first + array.held;
        Index end = own ? array.first + array.held : p < array.first ? array.first : array.outer;
        end = std::min(end, o + count);
        if (own)
          std::copy_n(array.data + (p - array.first) * plane, (end - p) * plane, to);
        else
          array.elsewhere->fetch(array.number, p, end - p, to);
        p = end;
      }
      return together.data();
    }
  require(array.held < 0, "arrays in bf16 are not split");
  return values_of<D>(array) + o * plane;
}

template <class D, class T>
void write_rows(Writer& writer, const StateArray<T>& array) {
  const RowRedistribution& layout = writer.layout;
  const RowPartition& partition = layout.partition();
  const Index planes = planes_at_once(layout, array.inner, sizeof(D));
  const Index values = layout.block_rows() * array.inner;  // per plane on this rank
  std::vector<D> staged, together;
  for (Index o = 0; o < array.outer; o += planes) {
    const Index count = std::min(planes, array.outer - o);
    const D* block = planes_of<D>(writer, array, o, count, together);
    if (!partition.identity()) {
      staged.resize(static_cast<std::size_t>(count * values));
      layout.to_blocks(reinterpret_cast<const std::byte*>(block), count,
                       array.inner * static_cast<Index>(sizeof(D)),
                       reinterpret_cast<std::byte*>(staged.data()));
      if (array.inner_is_nodes) order_columns(staged.data(), count * layout.block_rows(), partition);
      block = staged.data();
    }
    for (Index k = 0; k < count; ++k) {
      const Index piece = array.file ? rows_at_once(layout, array.inner, sizeof(D)) * array.inner
                                     : std::max<Index>(values, 1);
      for (Index at = 0; at < values; at += piece) {
        const Index here = std::min(piece, values - at);
        const Index first = ((o + k) * layout.rows() + layout.begin()) * array.inner + at;
        writer.attempt([&] {
          writer.file->write(block + k * values + at, static_cast<std::size_t>(here) * sizeof(D),
                             writer.offsets[writer.next] + static_cast<std::uint64_t>(first) * sizeof(D));
        });
        writer.checksums[writer.next] += checksum(block + k * values + at, here, first);
        if (array.file) array.file->forget_pages();
      }
    }
  }
  ++writer.next;
}

void write_pattern(Writer& writer, const GlobalEdges& edges, const EntryRedistribution& entries) {
  if (!writer.datasets[writer.next].same_as.empty()) {
    writer.next += 3;
    return;
  }
  const EntryIndex index = entry_index(edges, writer.layout.partition(), writer.comm.rank());
  const auto write = [&](const auto& local) {
    const auto block = entries_to_blocks(entries, local.data());
    write_linear(writer, block.data(), entries.first(), entries.count());
  };
  write(index.node);
  write(index.relation);
  write(index.neighbour);
}

template <class T>
void write_array(Writer& writer, const StateArray<T>& array) {
  if (array.placement == Placement::rows) {
    array.in_bf16 ? write_rows<Bf16>(writer, array) : write_rows<T>(writer, array);
  } else if (array.placement == Placement::replicated) {
    write_linear(writer, array.data, 0, writer.comm.rank() == 0 ? array.outer * array.inner : 0);
  } else {
    const EntryRedistribution& entries = writer.entries.at(array.edges);
    const std::vector<T> block = entries_to_blocks(entries, array.data);
    write_linear(writer, block.data(), entries.first(), entries.count());
    write_pattern(writer, *array.edges, entries);
  }
  agree_on(writer.comm, writer.outcome);
}

/// Writes the whole file under a temporary name, durable on every rank.
template <class T>
void write_contents(const Communicator& comm, const std::string& path, const RowRedistribution& layout,
                    std::span<const StateArray<T>> arrays, const std::string& metadata) {
  const QuietHdf5 quiet;
  const bool first = comm.rank() == 0;
  Writer writer{comm, layout, {}, {}, {}, {}, {}, nullptr, 0, {}};
  plan_dataset<char>(writer, "/metadata", extents_of(1, static_cast<Index>(metadata.size()), 1));
  std::map<const GlobalEdges*, std::string> holders;
  for (const StateArray<T>& array : arrays) plan_array(writer, array, holders);
  writer.numbers.push_back({"/", "format_version", format_version});
  writer.numbers.push_back({"/", "rows", static_cast<std::uint64_t>(layout.rows())});

  writer.offsets.resize(writer.datasets.size());
  agree(comm, [&] {
    if (first) writer.offsets = create_skeleton(path, writer.datasets, writer.numbers);
  });
  {
    const Wait wait(comm, "places in a state file (broadcast)");
    MPI_Bcast(writer.offsets.data(), static_cast<int>(writer.offsets.size()), MPI_UINT64_T, 0, comm.handle());
  }
  writer.checksums.assign(writer.datasets.size(), 0);
  agree(comm, [&] { writer.file = std::make_unique<RawFile>(path); });
  write_linear(writer, metadata.data(), 0, first ? static_cast<Index>(metadata.size()) : 0);
  for (const StateArray<T>& array : arrays) write_array(writer, array);
  agree(comm, [&] { writer.file->sync(); });

  {
    const Wait wait(comm, "a sum of checksums (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, writer.checksums.data(), static_cast<int>(writer.checksums.size()),
                  MPI_UINT64_T, MPI_SUM, comm.handle());
  }
  agree(comm, [&] {
    if (!first) return;
    std::vector<PlannedNumber> sums;
    for (std::size_t i = 0; i < writer.datasets.size(); ++i)
      if (writer.datasets[i].same_as.empty())
        sums.push_back({writer.datasets[i].path, "checksum", writer.checksums[i]});
    overwrite_numbers(path, sums);
  });
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// On rank 0: checks that the file can be created and that there is room for it. The check comes before HDF5,
/// which does not survive a full disk (1.10 crashes at shutdown after a file that could not be closed).
template <class T>
void check_room(const Communicator& comm, const std::string& path, const RowRedistribution& layout,
                std::span<const StateArray<T>> arrays, Index text_bytes) {
  Index bytes = 0;
  for (const StateArray<T>& array : arrays) {
    const auto value = static_cast<Index>(array.in_bf16 ? sizeof(Bf16) : sizeof(T));
    if (array.placement == Placement::entries) bytes += array.edges->entries() * (value + 20);
    if (array.placement == Placement::rows) bytes += array.outer * layout.owned() * array.inner * value;
    if (array.placement == Placement::replicated && comm.rank() == 0)
      bytes += array.outer * array.inner * value;
  }
  {
    const Wait wait(comm, "the size of a state file (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_SUM, comm.handle());
  }
  const Index structure = (Index{1} << 20) + (Index{16} << 10) * static_cast<Index>(arrays.size());
  agree(comm, [&] {
    if (comm.rank() == 0) reserve(path, static_cast<std::uint64_t>(bytes + text_bytes + structure));
  });
}

/// On rank 0: makes the finished file durable and renames it.
void publish(const Communicator& comm, const std::string& temporary, const std::string& path) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const int descriptor = open(temporary.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) refuse("open it again");
    const bool synced = fsync(descriptor) == 0;
    close(descriptor);
    if (!synced) refuse("bring it to the disk");
    if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse("rename it");
    const int directory = open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    (void)fsync(directory);  // if the file system cannot sync directories, the file still exists
    close(directory);
  });
}

}  // namespace

template <class T>
void write_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                 std::span<const StateArray<T>> arrays, const std::string& metadata_json) {
  const Stage stage(comm, "writing a state file", patience_with_files);
  agree(comm, [&] { check_arrays(arrays, partition, comm.rank()); });
  const RowRedistribution layout(comm, partition);
  const std::string temporary = path + ".tmp";
  const auto withdraw = [&] {
    if (comm.rank() == 0) std::remove(temporary.c_str());
  };
  try {
    check_room(comm, temporary, layout, arrays, static_cast<Index>(metadata_json.size()));
    write_contents(comm, temporary, layout, arrays, metadata_json);
    publish(comm, temporary, path);
  } catch (const UserError& error) {  // agreed on, so all ranks are here
    withdraw();
    comm.barrier();
    user_error("state file '{}' is not written: {}. Check the free space and the permissions of the folder",
               path, error.what());
  } catch (...) {
    withdraw();
    throw;
  }
}

template <class T>
void check_state_room(const Communicator& comm, const std::string& path, const RowPartition& partition,
                      std::span<const StateArray<T>> arrays) {
  const std::string trial = path + ".tmp";
  std::string cause;
  try {
    check_room(comm, trial, RowRedistribution(comm, partition), arrays, 0);
  } catch (const UserError& error) {  // agreed on by all ranks
    cause = error.what();
  }
  if (comm.rank() == 0) std::remove(trial.c_str());
  comm.barrier();
  if (!cause.empty())
    user_error(
        "state file '{}' could not be written: {}. Check the free space and the permissions of the folder",
        path, cause);
}

template void check_state_room<float>(const Communicator&, const std::string&, const RowPartition&,
                                      std::span<const StateArray<float>>);
template void check_state_room<double>(const Communicator&, const std::string&, const RowPartition&,
                                       std::span<const StateArray<double>>);
template void write_state<float>(const Communicator&, const std::string&, const RowPartition&,
                                 std::span<const StateArray<float>>, const std::string&);
template void write_state<double>(const Communicator&, const std::string&, const RowPartition&,
                                  std::span<const StateArray<double>>, const std::string&);

}  // namespace rossby
