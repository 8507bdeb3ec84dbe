#include "rossby/mpi/field_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/field_progress.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/redistribution.hpp"
#include "rossby/mpi/state_storage.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

constexpr float missing_value = std::numeric_limits<float>::quiet_NaN();

}  // namespace

class FieldFile::Impl {
 public:
  Impl(const Communicator& comm, std::string path, const Domain& domain, FieldLayout layout,
       std::vector<Index> centered, KeptFields keeps)
      : comm_(comm),
        path_(std::move(path)),
        domain_(domain),
        layout_(std::move(layout)),
        centered_(std::move(centered)),
        keeps_(std::move(keeps)),
        rows_(comm, domain.partition, blocks()),
        first_node_(first_node_of(comm.rank())),
        nodes_(first_node_of(comm.rank() + 1) - first_node_) {
    for (Index b = 0; b < rows_.block_rows(); ++b)
      place_.push_back(domain.file_node[static_cast<std::size_t>(rows_.begin() + b)] - first_node_);
    pending_.resize(layout_.space.variables.size() * static_cast<std::size_t>(layout_.inner()));
    batch_ = batch();
    if (layout_.deflate > 0 || keeps_.identity.empty()) keeps_ = {};
    try {
      create();
      for (const Index field : keeps_.fields)
        for (Index inner = 0; inner < layout_.inner(); ++inner) pending(field, inner).first = progress_.steps;
    } catch (...) {
      withdraw();
      throw;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { withdraw(); }

  template <class T>
  void put(Index field, Index inner, Index outer, NodeView<const T> values);
  void finish(const std::vector<std::pair<std::string, std::string>>& attributes);
  [[nodiscard]] Index kept() const { return kept_; }
  [[nodiscard]] std::vector<float> read(Index field, Index inner, Index outer) const;

 private:
  /// Steps of the outer axis, from `first` on, that wait until there are `batch_` of them.
  struct Pending {
    Index first = 0, count = 0;
    std::vector<float> values;  // (batch, nodes of this rank's units, features)
  };

  /// True if each rank writes its own rows, which must be contiguous in the file. Otherwise each writes a
  /// share of the chunks of units.
  [[nodiscard]] bool writes_own_rows() const { return layout_.deflate == 0 && domain_.partition.identity(); }
  [[nodiscard]] Index first_node_of(int rank) const {
    const Index nodes = layout_.units() * layout_.unit_nodes();
    if (writes_own_rows()) {
      const Index row = domain_.partition.begin(rank);
      return rank == 0 ? 0 : row < domain_.nodes() ? domain_.file_node[static_cast<std::size_t>(row)] : nodes;
    }
    const Index units = layout_.units(), a_chunk = layout_.chunk_units(),
                chunks = (units + a_chunk - 1) / a_chunk;
    return std::min(units, chunks * rank / comm_.size() * a_chunk) * layout_.unit_nodes();
  }
  /// Chunks of the outer axis to write at once, because ranks wait for each other at each write. The same on
  /// all ranks.
  [[nodiscard]] Index batch() const {
    constexpr Index values_that_wait = Index{1} << 22;  // per rank and field
    Index nodes = 1, most = 1;
    for (int rank = 0; rank < comm_.size(); ++rank)
      nodes = std::max(nodes, first_node_of(rank + 1) - first_node_of(rank));
    for (const SeriesVariable& field : layout_.space.variables) most = std::max(most, field.features);
    const Index chunk = layout_.chunk_outer();
    return chunk * std::max<Index>(1, values_that_wait / (chunk * nodes * most * layout_.inner()));
  }
  [[nodiscard]] RowPartition blocks() const {
    if (writes_own_rows()) return domain_.partition;
    std::vector<int> owners;
    int owner = 0;
    for (const Index node : domain_.file_node) {  // ascending
      while (node >= first_node_of(owner + 1)) ++owner;
      owners.push_back(owner);
    }
    return RowPartition::from_owners(owners, comm_.size());
  }
  void create();
  void note_progress();
  void withdraw() {
    datasets_.clear();
    (void)file_.close();
    if (!named_ || comm_.rank() != 0) return;
    ::unlink(temporary_.c_str());
    if (!keeps_.identity.empty()) ::unlink(progress_file_of(path_).c_str());
  }
  void flush(Index field, Index inner);
  template <class V>
  void write(Index field, Index inner, const Pending& pending);
  template <class V>
  void write_chunks(Index field, Index inner, const Pending& pending, std::span<const V> values);
  void write_chunk(Index field, Index inner, Index outer, Index unit, std::span<const std::byte> packed);
  template <class V>
  [[nodiscard]] std::vector<V> in_original_units(Index field, const Pending& pending) const;

  [[nodiscard]] Index features(Index field) const {
    return layout_.space.variables[static_cast<std::size_t>(field)].features;
  }
  [[nodiscard]] Pending& pending(Index field, Index inner) {
    return pending_[static_cast<std::size_t>(field * layout_.inner() + inner)];
  }

  Communicator comm_;
  std::string path_, temporary_;
  const Domain& domain_;
  FieldLayout layout_;
  std::vector<Index> centered_;
  KeptFields keeps_;
  FieldProgress progress_;
  Index kept_ = 0;
  RowRedistribution rows_;
  Index first_node_, nodes_;      // written by this rank
  std::vector<Index> place_;      // of each block row among these
  std::vector<Pending> pending_;  // (fields, inner)
  Index batch_ = 1;               // steps of the outer axis written at once
  bool named_ = false;            // whether the temporary file has its name
  std::unique_ptr<state::RawFile> raw_;
  Hdf5File file_;                      // compressed: only on rank 0
  std::vector<Hdf5Dataset> datasets_;  // likewise
};

/// Call after kept fields have progressed. Data before the new mark reach the disk before the mark does.
void FieldFile::Impl::note_progress() {
  Index steps = layout_.outer();
  for (const Index field : keeps_.fields)
    for (Index inner = 0; inner < layout_.inner(); ++inner)
      steps = std::min(steps, pending(field, inner).first);
  if (steps <= progress_.steps) return;
  progress_.steps = steps;
  agree(comm_, [&] { raw_->sync(); });
  agree(comm_, [&] {
    if (comm_.rank() == 0) progress_.write(path_);
  });
}

std::vector<float> FieldFile::Impl::read(Index field, Index inner, Index outer) const {
  require(outer < kept_ && inner < layout_.inner(), "values that an earlier process has put");
  const Index m = features(field), whole = layout_.space.nodes * m, plane = nodes_ * m;
  const std::size_t width = layout_.space.wide ? sizeof(double) : sizeof(float);
  std::vector<char> bytes(static_cast<std::size_t>(plane) * width);
  agree(comm_, [&] {
    std::ifstream file(temporary_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(
        progress_.offsets[static_cast<std::size_t>(field)] +
        static_cast<std::uint64_t>((outer * layout_.inner() + inner) * whole + first_node_ * m) * width));
    if (!bytes.empty() && !file.read(bytes.data(), std::ssize(bytes)))
      user_error("{}: cannot read the part that an earlier process has written. Remove {}, then start again",
                 path_, temporary_);
  });
  const Index first = centered_[static_cast<std::size_t>(field)];
  std::vector<float> block, local(static_cast<std::size_t>(rows_.owned() * m));
  for (std::size_t b = 0; b < place_.size(); ++b)
    for (Index f = 0; f < m; ++f) {
      const std::size_t at = static_cast<std::size_t>(place_[b] * m + f) * width;
      if (width == sizeof(float)) {
        std::memcpy(&block.emplace_back(), bytes.data() + at, width);
        continue;
      }
      double value = 0;
      std::memcpy(&value, bytes.data() + at, width);
      if (first >= 0 && !domain_.centers.empty())
        value -= domain_.centers[static_cast<std::size_t>(
            (rows_.begin() + static_cast<Index>(b)) * domain_.info.features + first + f)];
      block.push_back(static_cast<float>(value));
    }
  rows_.from_blocks(reinterpret_cast<const std::byte*>(block.data()), 1,
                    m * static_cast<Index>(sizeof(float)), reinterpret_cast<std::byte*>(local.data()));
  return local;
}

void FieldFile::Impl::create() {
  const QuietHdf5 quiet;
  const bool first = comm_.rank() == 0;
  temporary_ = broadcast(comm_, first ? temporary_name(path_) : "");
  named_ = true;
  progress_.offsets.resize(layout_.space.variables.size());
  agree(comm_, [&] {
    if (!first) return;
    std::optional<FieldProgress> left =
        take_up(path_, temporary_, keeps_.identity, std::ssize(layout_.space.variables), layout_.outer());
    remove_leftovers(path_);
    if (left) {
      progress_ = std::move(*left);
      return;
    }
    progress_.identity = keeps_.identity;
    progress_.file = std::filesystem::path(temporary_).filename().string();
    layout_ = create_field_file(temporary_, path_, layout_);
    file_ = state::open_file_to_write(temporary_);
    for (const SeriesVariable& field : layout_.space.variables)
      datasets_.emplace_back(H5Dopen2(file_, ("/" + field.name).c_str(), H5P_DEFAULT));
    for (const Hdf5Dataset& dataset : datasets_)
      if (!dataset.valid())
        user_error(
            "{}: HDF5 cannot open the datasets that it has just created. Check the disk, then start again",
            path_);
    if (layout_.deflate > 0) return;
    for (std::size_t k = 0; k < datasets_.size(); ++k) {
      progress_.offsets[k] = H5Dget_offset(datasets_[k]);
      if (progress_.offsets[k] == HADDR_UNDEF) bug("HDF5 has given each field its place");
    }
    datasets_.clear();
    if (!file_.close())
      user_error("{}: HDF5 cannot close this file. Check the disk and its free space, then start again",
                 path_);
    try {
      progress_.bytes = std::filesystem::file_size(temporary_);
      state::reserve(temporary_, progress_.bytes);
    } catch (const UserError& error) {
      user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder",
                 path_, error.what());
    }
  });
  if (layout_.deflate > 0) return;
  {
    const Wait wait(comm_, "places in a file of fields (broadcast)");
    MPI_Bcast(progress_.offsets.data(), static_cast<int>(progress_.offsets.size()), MPI_UINT64_T, 0,
              comm_.handle());
    MPI_Bcast(&progress_.steps, 1, MPI_INT64_T, 0, comm_.handle());
  }
  kept_ = progress_.steps;
  agree(comm_, [&] { raw_ = std::make_unique<state::RawFile>(temporary_); });
}

template <class T>
void FieldFile::Impl::put(Index field, Index inner, Index outer, NodeView<const T> values) {
  const Index m = features(field);
  require(values.rows == rows_.owned() && values.channels == m, "values of the rows and features of a field");
  require(outer >= 0 && outer + values.cols <= layout_.outer() && inner >= 0 && inner < layout_.inner(),
          "values inside the axes of a field");
  std::vector<float> local, block;
  for (Index b = 0; b < values.cols;) {
    Pending& waiting = pending(field, inner);
    const Index step = outer + b, count = std::min(batch_ - step % batch_, values.cols - b);
    if (waiting.count == 0) {
      waiting.first = step;
      waiting.values.assign(static_cast<std::size_t>(std::min(batch_, layout_.outer() - step) * nodes_ * m),
                            missing_value);
    }
    require(waiting.first + waiting.count == step, "fields are put in ascending order");
    local.resize(static_cast<std::size_t>(values.rows * count * m));
    float* to = local.data();
    for (Index i = 0; i < values.rows; ++i)
      for (Index k = 0; k < count; ++k)
        for (Index f = 0; f < m; ++f) *to++ = static_cast<float>(values.at(i, b + k)[f]);
    block.resize(static_cast<std::size_t>(rows_.block_rows() * count * m));
    rows_.to_blocks(reinterpret_cast<const std::byte*>(local.data()), 1,
                    count * m * static_cast<Index>(sizeof(float)),
                    reinterpret_cast<std::byte*>(block.data()));
    const float* from = block.data();
    for (const Index place : place_)
      for (Index k = 0; k < count; ++k, from += m)
        std::copy_n(from, m, waiting.values.data() + ((waiting.count + k) * nodes_ + place) * m);
    waiting.count += count;
    b += count;
    if (step + count == layout_.outer() || (step + count) % batch_ == 0) flush(field, inner);
  }
}

template <class V>
std::vector<V> FieldFile::Impl::in_original_units(Index field, const Pending& pending) const {
  const Index m = features(field), first = centered_[static_cast<std::size_t>(field)];
  std::vector<V> values(pending.values.begin(), pending.values.end());
  if (first < 0 || domain_.centers.empty()) return values;
  for (Index o = 0; o < pending.count; ++o)
    for (std::size_t b = 0; b < place_.size(); ++b)
      for (Index f = 0; f < m; ++f)
        values[static_cast<std::size_t>((o * nodes_ + place_[b]) * m + f)] +=
            static_cast<V>(domain_.centers[static_cast<std::size_t>(
                (rows_.begin() + static_cast<Index>(b)) * domain_.info.features + first + f)]);
  return values;
}

void FieldFile::Impl::flush(Index field, Index inner) {
  Pending& waiting = pending(field, inner);
  layout_.space.wide ? write<double>(field, inner, waiting) : write<float>(field, inner, waiting);
  const bool last = waiting.first + waiting.count == layout_.outer();
  waiting.first += waiting.count;
  waiting.count = 0;
  if (last) waiting.values = {};
  if (std::find(keeps_.fields.begin(), keeps_.fields.end(), field) != keeps_.fields.end()) note_progress();
}

template <class V>
void FieldFile::Impl::write(Index field, Index inner, const Pending& pending) {
  const std::vector<V> converted =
      layout_.space.wide ? in_original_units<V>(field, pending) : std::vector<V>();
  const V* values = converted.data();
  if constexpr (std::is_same_v<V, float>) values = pending.values.data();
  const Index plane = nodes_ * features(field);
  if (layout_.deflate > 0)
    return write_chunks<V>(field, inner, pending, {values, static_cast<std::size_t>(pending.count * plane)});
  const Index whole = layout_.space.nodes * features(field);
  agree(comm_, [&] {
    try {
      for (Index k = 0; k < pending.count; ++k) {
        const Index at =
            ((pending.first + k) * layout_.inner() + inner) * whole + first_node_ * features(field);
        raw_->write(
            values + k * plane, static_cast<std::size_t>(plane) * sizeof(V),
            progress_.offsets[static_cast<std::size_t>(field)] + static_cast<std::uint64_t>(at) * sizeof(V));
      }
    } catch (const UserError& error) {
      user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder",
                 path_, error.what());
    }
  });
}

template <class V>
void FieldFile::Impl::write_chunks(Index field, Index inner, const Pending& pending,
                                   std::span<const V> values) {
  const Index m = features(field), unit = layout_.unit_nodes() * m, plane = nodes_ * m,
              outers = layout_.chunk_outer(), units = layout_.chunk_units();
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm_.size()));
  std::vector<V> chunk;
  for (Index outer = 0; outer < pending.count; outer += outers)
    for (Index first = 0; first < plane; first += units * unit) {
      chunk.assign(static_cast<std::size_t>(outers * units * unit), static_cast<V>(missing_value));
      const Index here = std::min(units * unit, plane - first);
      for (Index o = 0; o < std::min(outers, pending.count - outer); ++o)
        std::copy_n(values.data() + (outer + o) * plane + first, here, chunk.data() + o * units * unit);
      const auto packed =
          deflated_chunk(std::as_bytes(std::span<const V>(chunk)), sizeof(V), layout_.deflate);
      const Index head[] = {pending.first + outer, (first_node_ * m + first) / unit, std::ssize(packed)};
      auto& letter = letters.front();
      const auto bytes = std::as_bytes(std::span(head));
      letter.insert(letter.end(), bytes.begin(), bytes.end());
      letter.insert(letter.end(), packed.begin(), packed.end());
    }
  letters = MpiMailbox(comm_).swap(std::move(letters));
  agree(comm_, [&] {
    if (comm_.rank() != 0) return;
    for (const auto& letter : letters)
      for (std::size_t at = 0; at < letter.size();) {
        Index head[3];
        std::memcpy(head, letter.data() + at, sizeof head);
        at += sizeof head;
        const auto size = static_cast<std::size_t>(head[2]);
        write_chunk(field, inner, head[0], head[1], std::span<const std::byte>(letter).subspan(at, size));
        at += size;
      }
  });
}

void FieldFile::Impl::write_chunk(Index field, Index inner, Index outer, Index unit,
                                  std::span<const std::byte> packed) {
  const QuietHdf5 quiet;
  std::vector<hsize_t> at{static_cast<hsize_t>(inner), static_cast<hsize_t>(unit), 0, 0};
  if (layout_.axes.size() > 1) at.insert(at.begin(), static_cast<hsize_t>(outer));
  errno = 0;
  if (H5Dwrite_chunk(datasets_[static_cast<std::size_t>(field)], H5P_DEFAULT, 0, at.data(), packed.size(),
                     packed.data()) < 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder",
               path_, errno != 0 ? std::strerror(errno) : "HDF5 cannot write a chunk");
}

void FieldFile::Impl::finish(const std::vector<std::pair<std::string, std::string>>& attributes) {
  for (const Pending& waiting : pending_)
    require(waiting.count == 0 && waiting.first == layout_.outer(), "all fields have been put");
  agree(comm_, [&] {
    if (raw_) raw_->sync();
    datasets_.clear();
    if (!file_.close())
      user_error("{}: HDF5 cannot close this file. Check the disk and its free space, then start again",
                 path_);
  });
  agree(comm_, [&] {
    if (comm_.rank() != 0) return;
    if (!attributes.empty()) add_attributes(temporary_, path_, attributes);
    commit_file(temporary_, path_);
    if (!keeps_.identity.empty()) ::unlink(progress_file_of(path_).c_str());
  });
  named_ = false;
}

FieldFile::FieldFile(const Communicator& comm, const std::string& path, const Domain& domain,
                     FieldLayout layout, std::vector<Index> centered, KeptFields keeps)
    : impl_(std::make_unique<Impl>(comm, path, domain, std::move(layout), std::move(centered),
                                   std::move(keeps))) {}
FieldFile::~FieldFile() = default;

template <class T>
void FieldFile::put(Index field, Index inner, Index outer, NodeView<const T> values) {
  impl_->put(field, inner, outer, values);
}
template void FieldFile::put(Index, Index, Index, NodeView<const float>);
template void FieldFile::put(Index, Index, Index, NodeView<const double>);

Index FieldFile::kept() const {
  return impl_->kept();
}
std::vector<float> FieldFile::read(Index field, Index inner, Index outer) const {
  return impl_->read(field, inner, outer);
}

void FieldFile::finish(const std::vector<std::pair<std::string, std::string>>& attributes) {
  impl_->finish(attributes);
}

}  // namespace rossby
