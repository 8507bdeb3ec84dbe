// A good state file, edited by statements through HDF5, → read_state, read_state_metadata. Raw bytes are not
// tried, because damaged ones only test HDF5.
//
//     empty                              edit an empty HDF5 file instead of the good one
//     remove PATH    group PATH          link PATH TARGET    soft PATH TARGET
//     set PATH TYPE EXTENT...            a new dataset; TYPE: u1 i4 i8 f4 f8 text vlen compound
//                                        EXTENT: none for a scalar, null for no values
//     data PATH VALUE...                 its first values
//     number PATH NAME TYPE COUNT VALUE  an attribute of COUNT equal values (1: a scalar)
//     sum PATH                           its right checksum
//     cut BYTES                          removes the last BYTES bytes of the file
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <hdf5.h>

#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/hdf5_handle.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/state_storage.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/statements.hpp"

using namespace rossby;

namespace {

constexpr Index nodes = 5;
constexpr std::size_t most_values = 4096;

/// Arrays of every placement over five nodes of one rank.
template <class T>
struct State {
  GlobalEdges edges;
  std::vector<T> factors = std::vector<T>(2 * nodes * 3, T(1)), weights = std::vector<T>(4, T(2)), values;
  std::vector<StateArray<T>> arrays;

  State() {
    edges.rows = nodes;
    edges.relations = 1;
    edges.ptr = {0, 2, 2, 3, 4, 4};
    for (const Index column : {1, 4, 0, 3}) edges.column.push_back(GlobalRow{column});
    edges.value.assign(4, 1.0);
    values.assign(4, T(0.5));
    arrays.push_back({"factors", Placement::rows, 2, 3, factors.data(), nullptr, false});
    arrays.push_back({"weights", Placement::replicated, 2, 2, weights.data(), nullptr, false});
    arrays.push_back({"mask", Placement::entries, 1, 1, values.data(), &edges, false});
  }
};

RowPartition partition() {
  return RowPartition::blocks(nodes, 1);
}

/// The bytes of a good file, written once.
const std::string& good_file() {
  static const std::string bytes = [] {
    const fuzz::MemoryFile file;
    const State<float> state;
    write_state<float>(Communicator::self(), file.path(), partition(), state.arrays, "{\"epoch\": 3}");
    std::ifstream in(file.path(), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  }();
  return bytes;
}

Hdf5Type type_named(const std::string& name) {
  if (name == "u1") return Hdf5Type(H5Tcopy(H5T_STD_U8LE));
  if (name == "i4") return Hdf5Type(H5Tcopy(H5T_STD_I32LE));
  if (name == "i8") return Hdf5Type(H5Tcopy(H5T_STD_I64BE));
  if (name == "u8") return Hdf5Type(H5Tcopy(H5T_STD_U64LE));
  if (name == "f4") return Hdf5Type(H5Tcopy(H5T_IEEE_F32LE));
  if (name == "f8") return Hdf5Type(H5Tcopy(H5T_IEEE_F64BE));
  if (name == "vlen") return Hdf5Type(H5Tvlen_create(H5T_STD_U8LE));
  if (name == "compound") {
    Hdf5Type type(H5Tcreate(H5T_COMPOUND, 8));
    H5Tinsert(type, "a", 0, H5T_STD_I32LE);
    H5Tinsert(type, "b", 4, H5T_IEEE_F32LE);
    return type;
  }
  Hdf5Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, 8);
  return type;
}

Hdf5Space space_of(const fuzz::Statement& s) {
  if (s.word(3) == "null") return Hdf5Space(H5Screate(H5S_NULL));
  std::vector<hsize_t> extents;
  for (std::size_t i = 3; i < s.words.size() && extents.size() < 6; ++i)
    extents.push_back(static_cast<hsize_t>(std::max<std::int64_t>(0, s.integer(i))));
  if (extents.empty()) return Hdf5Space(H5Screate(H5S_SCALAR));
  return Hdf5Space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
}

void set_dataset(hid_t file, const fuzz::Statement& s) {
  const Hdf5Type type = type_named(s.word(2));
  const Hdf5Space space = space_of(s);
  const Hdf5Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_create_intermediate_group(links, 1);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE);
  H5Ldelete(file, s.word(1).c_str(), H5P_DEFAULT);
  const Hdf5Dataset dataset(H5Dcreate2(file, s.word(1).c_str(), type, space, links, creation, H5P_DEFAULT));
}

/// Number of values of an open dataset; 0 if it has more than this test can hold.
std::size_t values_of(hid_t dataset) {
  const Hdf5Space space(H5Dget_space(dataset));
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  return count > 0 && count <= static_cast<hssize_t>(most_values) ? static_cast<std::size_t>(count) : 0;
}

void put_data(hid_t dataset, const fuzz::Statement& s) {
  std::vector<double> values(values_of(dataset), 0.0);
  if (values.empty()) return;
  for (std::size_t i = 0; i < values.size() && i + 2 < s.words.size(); ++i) values[i] = s.real(i + 2);
  H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

void put_number(hid_t object, const std::string& name, const std::string& type_name, std::int64_t count,
                std::uint64_t value) {
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const Hdf5Type type = type_named(type_name);
  const auto extent = static_cast<hsize_t>(std::clamp<std::int64_t>(count, 0, 1000));
  const Hdf5Space space(extent == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr));
  const Hdf5Attribute attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute.valid() || extent == 0) return;
  const std::vector<std::uint64_t> values(static_cast<std::size_t>(extent), value);
  H5Awrite(attribute, H5T_NATIVE_UINT64, values.data());
}

template <class Bits>
std::uint64_t checksum_as(hid_t dataset, hid_t type, std::size_t count) {
  std::vector<Bits> values(count);
  H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  return state::checksum(values.data(), static_cast<Index>(count), 0);
}

void put_checksum(hid_t dataset) {
  const Hdf5Type stored(H5Dget_type(dataset));
  const H5T_class_t kind = H5Tget_class(stored);
  const std::size_t count = values_of(dataset), size = H5Tget_size(stored);
  if (count == 0 || (kind != H5T_INTEGER && kind != H5T_FLOAT)) return;
  const Hdf5Type native(H5Tget_native_type(stored, H5T_DIR_ASCEND));
  std::uint64_t sum = 0;
  if (size == 1) sum = checksum_as<std::uint8_t>(dataset, native, count);
  if (size == 4) sum = checksum_as<std::uint32_t>(dataset, native, count);
  if (size == 8) sum = checksum_as<std::uint64_t>(dataset, native, count);
  put_number(dataset, "checksum", "u8", 1, sum);
}

void edit(hid_t file, const fuzz::Statement& s) {
  const std::string &kind = s.words[0], &path = s.word(1);
  if (path.empty()) return;
  if (kind == "remove") H5Ldelete(file, path.c_str(), H5P_DEFAULT);
  if (kind == "group")
    const Hdf5Group made(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  if (kind == "soft") H5Lcreate_soft(s.word(2).c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  if (kind == "link") H5Lcreate_hard(file, s.word(2).c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  if (kind == "set") set_dataset(file, s);
  if (kind == "number") {
    const Hdf5Object object(H5Oopen(file, path.c_str(), H5P_DEFAULT));
    if (object.valid())
      put_number(object, s.word(2), s.word(3), s.integer(4), static_cast<std::uint64_t>(s.integer(5)));
  }
  if (kind == "data" || kind == "sum") {
    const Hdf5Dataset dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT));
    if (!dataset.valid()) return;
    kind == "data" ? put_data(dataset, s) : put_checksum(dataset);
  }
}

void make_file(const std::string& path, const std::vector<fuzz::Statement>& statements) {
  const bool from_nothing =
      std::any_of(statements.begin(), statements.end(), [](const auto& s) { return s.words[0] == "empty"; });
  if (from_nothing) {
    const Hdf5File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  } else {
    std::ofstream(path, std::ios::binary) << good_file();
  }
  {
    const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    fuzz::check(file.valid(), "a good file can be edited");
    for (const auto& s : statements) edit(file, s);
  }
  for (const auto& s : statements) {
    std::error_code code;
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, code));
    if (s.words[0] == "cut")
      std::filesystem::resize_file(
          path, static_cast<std::uintmax_t>(std::clamp<std::int64_t>(bytes - s.integer(1), 0, bytes)), code);
  }
}

template <class T>
bool read_as(const std::string& path) {
  const State<T> state;
  return fuzz::survives([&] { read_state<T>(Communicator::self(), path, partition(), state.arrays); });
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static const Environment environment;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto statements = fuzz::read_statements({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFile file;
  {
    const QuietHdf5 quiet;
    make_file(file.path(), statements);
  }
  const bool text = fuzz::survives([&] { (void)read_state_metadata(file.path()); });
  const bool single = read_as<float>(file.path()), twice = read_as<double>(file.path());
  fuzz::check(!statements.empty() || (text && single && twice), "the good file can be read");
  return 0;
}
