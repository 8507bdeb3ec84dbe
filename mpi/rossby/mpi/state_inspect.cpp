#include <algorithm>
#include <filesystem>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/state_layout.hpp"

namespace rossby {
namespace {

using namespace state;

/// Names in a group, in order.
std::vector<std::string> names_below(hid_t group) {
  H5G_info_t info{};
  if (H5Gget_info(group, &info) < 0) user_error("HDF5 cannot list a group");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[256] = "";
    if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0)
      user_error("HDF5 cannot list a group");
    names.emplace_back(name);
  }
  return names;
}

Hdf5Group open_group(hid_t parent, const std::string& name) {
  Hdf5Group group(H5Gopen2(parent, name.c_str(), H5P_DEFAULT));
  if (!group.valid()) user_error("it has no group '{}'", name);
  return group;
}

Extents extents_of(hid_t dataset, Index file_bytes, const std::string& what) {
  const Hdf5Space space(H5Dget_space(dataset));
  Extents extents{};
  if (H5Sget_simple_extent_ndims(space) != 3 ||
      H5Sget_simple_extent_dims(space, extents.data(), nullptr) != 3)
    user_error("{} has not three dimensions", what);
  hsize_t values = 1;
  for (const hsize_t extent : extents)
    if (__builtin_mul_overflow(values, extent, &values) || values > static_cast<hsize_t>(file_bytes))
      user_error("{} is larger than its file", what);
  return extents;
}

/// The checksum of a dataset of V, read in pieces of about slab_bytes at most.
template <class V>
std::uint64_t stored_checksum(hid_t dataset, const Extents& extents) {
  const Index row = std::max<Index>(1, static_cast<Index>(extents[2] * sizeof(V)));
  const hsize_t step = static_cast<hsize_t>(std::max<Index>(1, slab_bytes / row));
  std::uint64_t sum = 0;
  std::vector<V> values;
  for (hsize_t plane = 0; plane < extents[0]; ++plane)
    for (hsize_t first = 0; first < extents[1]; first += step) {
      const hsize_t rows = std::min(step, extents[1] - first);
      values.resize(rows * extents[2]);
      const Extents count{1, rows, extents[2]};
      read_slab(dataset, native_type<V>(), {{plane, first, 0}, count, count, 0}, values.data(), false);
      sum += checksum(values.data(), static_cast<Index>(values.size()),
                      static_cast<Index>((plane * extents[1] + first) * extents[2]));
    }
  return sum;
}

void verify_dataset(hid_t dataset, Index file_bytes, const std::string& what) {
  const Extents extents = extents_of(dataset, file_bytes, what);
  const Hdf5Type type(H5Dget_type(dataset));
  const std::size_t size = H5Tget_size(type);
  const bool real = H5Tget_class(type) == H5T_FLOAT;
  std::uint64_t sum = 0;
  if (real && size == 2)
    sum = stored_checksum<Bf16>(dataset, extents);
  else if (size == 4)
    sum = real ? stored_checksum<float>(dataset, extents) : stored_checksum<std::int32_t>(dataset, extents);
  else if (size == 8)
    sum = real ? stored_checksum<double>(dataset, extents) : stored_checksum<std::int64_t>(dataset, extents);
  else
    user_error(
        "{} has values of {} bytes, but 2, 4 or 8 are expected. The file is damaged, or another program "
        "wrote it",
        what, size);
  if (sum != read_number(dataset, "checksum")) user_error("{} is damaged: its checksum does not match", what);
}

/// Calls visit(name, group) for every array. Returns the number of nodes.
template <class Visit>
Index for_each_array(const std::string& path, Visit&& visit) {
  const QuietHdf5 quiet;
  try {
    const Hdf5File file = open_file(path, MPI_COMM_NULL);
    const Hdf5Group arrays = open_group(file, "arrays");
    for (const std::string& name : names_below(arrays)) visit(name, open_group(arrays, name));
    return static_cast<Index>(read_number(file, "rows"));
  } catch (const UserError& error) {
    user_error(
        "state file '{}' cannot be used: {}. A complete file of the same run is needed, for example from "
        "another checkpoint",
        path, error.what());
  }
}

Hdf5Dataset open_any(hid_t group, const std::string& name, const std::string& what) {
  Hdf5Dataset dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT));
  if (!dataset.valid()) user_error("{} has no dataset '{}'", what, name);
  return dataset;
}

Index file_bytes(const std::string& path) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  return code ? 0 : static_cast<Index>(bytes);
}

}  // namespace

StoredState list_state(const std::string& path) {
  StoredState state;
  state.metadata = read_state_metadata(path);
  state.bytes = file_bytes(path);
  state.nodes = for_each_array(path, [&](const std::string& name, const Hdf5Group& group) {
    const std::string what = "array '" + name + "'";
    const Hdf5Dataset dataset = open_any(group, "value", what);
    const Hdf5Type type(H5Dget_type(dataset));
    StoredArray& array = state.arrays.emplace_back();
    array.name = name;
    array.placement = static_cast<Placement>(std::min<std::uint64_t>(2, read_number(group, "placement")));
    const Extents extents = extents_of(dataset, state.bytes, what);
    std::copy(extents.begin(), extents.end(), array.extents);
    array.value_bytes = static_cast<int>(H5Tget_size(type));
    array.checksum = read_number(dataset, "checksum");
  });
  return state;
}

void verify_state(const std::string& path) {
  (void)read_state_metadata(path);
  const Index bytes = file_bytes(path);
  for_each_array(path, [&](const std::string& name, const Hdf5Group& group) {
    for (const std::string& part : names_below(group)) {
      const std::string what =
          "array '" + name + "'" + (part == "value" ? "" : fmt::format(", dataset '{}'", part));
      verify_dataset(open_any(group, part, what), bytes, what);
    }
  });
}

}  // namespace rossby
