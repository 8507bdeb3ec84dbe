#include "rossby/mpi/state_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"

namespace rossby::state {
namespace {

/// Throws UserError if an HDF5 call failed. The caller adds the file and the context.
template <class Result>
Result checked(Result result, const char* what) {
  if (result < 0) user_error("HDF5 cannot {}", what);
  return result;
}

/// Bytes in the kernel's cache that start a write to disk.
constexpr std::size_t writeback_bytes = std::size_t{16} << 20;

Hdf5Properties transfer_mode(bool collective) {
  Hdf5Properties transfer(checked(H5Pcreate(H5P_DATASET_XFER), "make a property list"));
  if (collective) checked(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "transfer collectively");
  return transfer;
}

/// Access without HDF5's own locks: the run directory has its own lock, and some file systems support none.
Hdf5Properties access_without_locks() {
  Hdf5Properties access(checked(H5Pcreate(H5P_FILE_ACCESS), "make a property list"));
#if (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0)) || H5_VERSION_GE(1, 12, 1)
  checked(H5Pset_file_locking(access, false, true), "leave files unlocked");
#endif
  return access;
}

/// True if a dataset has no values. It has no place in the file, and HDF5 refuses collective transfers of it.
bool without_values(hid_t dataset) {
  const Hdf5Space space(checked(H5Dget_space(dataset), "read a dataset's extents"));
  return H5Sget_simple_extent_npoints(space) == 0;
}

/// Memory and file selections of a slab.
std::pair<Hdf5Space, Hdf5Space> select(hid_t dataset, const Slab& slab) {
  Hdf5Space file(checked(H5Dget_space(dataset), "read a dataset's extents"));
  const bool nothing = std::any_of(slab.count.begin(), slab.count.end(), [](hsize_t c) { return c == 0; });
  const Extents memory_extents = nothing ? Extents{1, 1, 1} : slab.memory;
  Hdf5Space memory(checked(H5Screate_simple(3, memory_extents.data(), nullptr), "describe memory"));
  if (nothing) {
    checked(H5Sselect_none(file), "select nothing");
    checked(H5Sselect_none(memory), "select nothing");
  } else {
    const Extents from{0, slab.memory_row, 0};
    checked(H5Sselect_hyperslab(file, H5S_SELECT_SET, slab.start.data(), nullptr, slab.count.data(), nullptr),
            "select a part of a dataset");
    checked(H5Sselect_hyperslab(memory, H5S_SELECT_SET, from.data(), nullptr, slab.count.data(), nullptr),
            "select a part of memory");
  }
  return {std::move(memory), std::move(file)};
}

}  // namespace

Hdf5Type bf16_type() {
  Hdf5Type type(checked(H5Tcopy(H5T_IEEE_F32LE), "copy a type"));
  checked(H5Tset_fields(type, 15, 7, 8, 0, 7), "place the fields of bfloat16");
  checked(H5Tset_size(type, 2), "make a type of two bytes");
  return type;
}

void reserve(const std::string& path, std::uint64_t size) {
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (descriptor < 0) refuse("create it");
  const int code = size == 0 ? 0 : fallocate(descriptor, 0, 0, static_cast<off_t>(size));
  const int reason = errno;
  close(descriptor);
  errno = reason;
  if (code != 0 && reason != EOPNOTSUPP && reason != ENOSYS) refuse("find room for it");
}

std::vector<std::uint64_t> create_skeleton(const std::string& path,
                                           const std::vector<PlannedDataset>& datasets,
                                           const std::vector<PlannedNumber>& numbers) {
  Hdf5File file(checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access_without_locks()),
                        "create the file"));
  Hdf5Properties groups(checked(H5Pcreate(H5P_LINK_CREATE), "make a property list"));
  checked(H5Pset_create_intermediate_group(groups, 1), "make groups");
  Hdf5Properties creation(checked(H5Pcreate(H5P_DATASET_CREATE), "make a property list"));
  checked(H5Pset_obj_track_times(creation, false), "leave times out");  // equal states give equal files
  checked(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "leave fill values out");
  checked(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "give datasets their places");
  std::vector<std::uint64_t> offsets;
  for (const PlannedDataset& planned : datasets) {
    if (!planned.same_as.empty()) {
      checked(H5Lcreate_hard(file, planned.same_as.c_str(), file, planned.path.c_str(), groups, H5P_DEFAULT),
              "link a dataset");
      offsets.push_back(0);
      continue;
    }
    const Hdf5Space space(
        checked(H5Screate_simple(3, planned.extents.data(), nullptr), "describe a dataset"));
    const Hdf5Dataset dataset(
        checked(H5Dcreate2(file, planned.path.c_str(), planned.type(), space, groups, creation, H5P_DEFAULT),
                "create a dataset"));
    offsets.push_back(H5Dget_offset(dataset));
  }
  for (const PlannedNumber& number : numbers) {
    const Hdf5Space space(checked(H5Screate(H5S_SCALAR), "describe a number"));
    const Hdf5Object object(checked(H5Oopen(file, number.path.c_str(), H5P_DEFAULT), "open an object"));
    const Hdf5Attribute attribute(
        checked(H5Acreate2(object, number.name.c_str(), H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT),
                "create an attribute"));
    checked(H5Awrite(attribute, H5T_NATIVE_UINT64, &number.value), "write an attribute");
  }
  if (!file.close()) user_error("HDF5 cannot close the file");
  reserve(path, std::filesystem::file_size(path));
  return offsets;
}

void overwrite_numbers(const std::string& path, const std::vector<PlannedNumber>& numbers) {
  Hdf5File file = open_file_to_write(path);
  for (const PlannedNumber& number : numbers) {
    const Hdf5Object object(checked(H5Oopen(file, number.path.c_str(), H5P_DEFAULT), "open an object"));
    const Hdf5Attribute attribute(
        checked(H5Aopen(object, number.name.c_str(), H5P_DEFAULT), "open an attribute"));
    checked(H5Awrite(attribute, H5T_NATIVE_UINT64, &number.value), "write an attribute");
  }
  if (!file.close()) user_error("HDF5 cannot close the file");
}

RawFile::RawFile(const std::string& path) : descriptor_(open(path.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) refuse("open it (all ranks need to see its directory)");
}

RawFile::~RawFile() {
  close(descriptor_);
}

void RawFile::write(const void* data, std::size_t bytes, std::uint64_t offset) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done =
        pwrite(descriptor_, from, std::min(bytes, writeback_bytes), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) refuse("write to it");
    begin_writeback(offset, static_cast<std::uint64_t>(done));
    from += done;
    offset += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
}

void RawFile::begin_writeback(std::uint64_t offset, std::uint64_t bytes) {
  if (cached_ == 0) cached_begin_ = cached_end_ = offset;
  cached_begin_ = std::min(cached_begin_, offset);
  cached_end_ = std::max(cached_end_, offset + bytes);
  cached_ += bytes;
  if (cached_ < writeback_bytes) return;
#ifdef __linux__
  // Only a hint: sync writes the rest and reports errors.
  (void)sync_file_range(descriptor_, static_cast<off64_t>(cached_begin_),
                        static_cast<off64_t>(cached_end_ - cached_begin_), SYNC_FILE_RANGE_WRITE);
#endif
  cached_ = 0;
}

void RawFile::sync() {
  if (fsync(descriptor_) != 0) refuse("bring it to the disk");
}

void refuse(const char* what) {
  user_error("cannot {}: {}", what, std::strerror(errno));
}

Hdf5File open_file(const std::string& path, MPI_Comm comm) {
  const Hdf5Properties access = access_without_locks();
  if (comm != MPI_COMM_NULL) checked(H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL), "use MPI");
  return Hdf5File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access),
                          "open it: the file is truncated, damaged or no HDF5 file"));
}

Hdf5File open_file_to_write(const std::string& path) {
  return Hdf5File(
      checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, access_without_locks()), "open the file again"));
}

Hdf5Dataset open_dataset(hid_t parent, const std::string& name, const Extents& extents,
                         const std::string& what) {
  Hdf5Dataset dataset(H5Dopen2(parent, name.c_str(), H5P_DEFAULT));
  if (!dataset.valid()) user_error("{} has no dataset '{}'", what, name);
  const Hdf5Space space(H5Dget_space(dataset));
  Extents found{};
  if (H5Sget_simple_extent_ndims(space) != 3 || H5Sget_simple_extent_dims(space, found.data(), nullptr) != 3)
    user_error("{}: dataset '{}' has not three dimensions", what, name);
  if (found != extents)
    user_error("{} has shape ({}, {}, {}) in the file, but ({}, {}, {}) in this run", what, found[0],
               found[1], found[2], extents[0], extents[1], extents[2]);
  return dataset;
}

void read_slab(hid_t dataset, hid_t memory_type, const Slab& slab, void* data, bool collective) {
  if (without_values(dataset)) return;
  const auto [memory, file] = select(dataset, slab);
  checked(H5Dread(dataset, memory_type, memory, file, transfer_mode(collective), data), "read a dataset");
}

std::uint64_t read_number(hid_t object, const std::string& name) {
  const Hdf5Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  std::uint64_t value = 0;
  if (attribute.valid()) {
    const Hdf5Space space(H5Aget_space(attribute));
    const Hdf5Type type(H5Aget_type(attribute));
    // HDF5 would write all values of a longer attribute, beyond `value`.
    if (H5Sget_simple_extent_npoints(space) != 1 || H5Tget_class(type) != H5T_INTEGER)
      user_error("its attribute '{}' is not a single number", name);
  }
  if (!attribute.valid() || H5Aread(attribute, H5T_NATIVE_UINT64, &value) < 0)
    user_error("it has no attribute '{}'", name);
  return value;
}

}  // namespace rossby::state
