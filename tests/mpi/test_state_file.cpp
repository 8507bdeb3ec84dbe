#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rossby/base/random.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "tests/support/shuffled_rows.hpp"

namespace rossby {
namespace {

/// One temporary folder for all ranks of the test, removed at the end.
class Folder {
 public:
  Folder() {
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = std::filesystem::temp_directory_path() / ("rossby_state_" + std::to_string(id));
    std::filesystem::create_directories(path_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (Communicator::world().rank() == 0) std::filesystem::remove_all(path_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

double real(const char* stream, Index a, Index b, Index c) {
  return Random(4, stream).normal(static_cast<std::uint64_t>((a * 1000 + b) * 1000 + c));
}

/// Two relations whose patterns are functions of global rows. Some rows have no entries.
GlobalEdges edges_of(const RowPartition& partition, int part) {
  GlobalEdges edges;
  edges.rows = partition.size(part);
  edges.relations = 2;
  edges.ptr = {0};
  for (const GlobalRow row : partition.rows_of(part))
    for (int k = 0; k < 2; ++k) {
      for (Index j = 0; j < partition.rows(); ++j)
        if (Random(6, "pattern")
                .at(static_cast<std::uint64_t>(k))
                .uniform(static_cast<std::uint64_t>(row.value * 1000 + j)) < 0.2)
          edges.column.push_back(GlobalRow{j});
      edges.ptr.push_back(static_cast<Index>(edges.column.size()));
    }
  edges.value.assign(edges.column.size(), 1.0);
  return edges;
}

/// A state with every kind of array on one rank. Values are functions of global indices.
template <class T>
struct State {
  RowPartition partition;
  GlobalEdges edges;
  std::vector<T> factors, dense, weights, moments, theta, nothing;
  std::vector<StateArray<T>> arrays;

  State(const RowPartition& p, int part) : partition(p), edges(edges_of(p, part)) {
    const Index n = p.rows();
    const Index owned = p.size(part);
    factors.resize(static_cast<std::size_t>(5 * owned * 3));
    dense.resize(static_cast<std::size_t>(2 * owned * n));
    weights.resize(edges.column.size());
    moments.resize(edges.column.size());
    theta.resize(6);
    nothing.resize(1);
    arrays = {{"factors", Placement::rows, 5, 3, factors.data()},
              {"relation.dense", Placement::rows, 2, n, dense.data(), nullptr, true},
              {"relation.sparse", Placement::entries, 1, 1, weights.data(), &edges},
              {"adam.m.relation.sparse", Placement::entries, 1, 1, moments.data(), &edges},
              {"theta", Placement::replicated, 2, 3, theta.data()},
              {"empty.rows", Placement::rows, 0, 4, nothing.data()},
              {"empty.replicated", Placement::replicated, 1, 0, nothing.data()}};
  }

  /// Calls `visit` for every value, with its expected value.
  void each(int part, const std::function<void(T&, double)>& visit) {
    const Index n = partition.rows();
    const Index owned = partition.size(part);
    for (Index l = 0; l < owned; ++l) {
      const Index row = partition.global(Position{partition.begin(part) + l}).value;
      for (Index t = 0; t < 5; ++t)
        for (Index c = 0; c < 3; ++c)
          visit(factors[static_cast<std::size_t>((t * owned + l) * 3 + c)], real("z", t, row, c));
      for (Index k = 0; k < 2; ++k)
        for (Index j = 0; j < n; ++j)
          visit(dense[static_cast<std::size_t>((k * owned + l) * n + j)],
                real("w", k, row, partition.global(Position{j}).value));
      for (int k = 0; k < 2; ++k)
        for (Index e = edges.begin(l, k); e < edges.end(l, k); ++e) {
          const Index j = edges.column[static_cast<std::size_t>(e)].value;
          visit(weights[static_cast<std::size_t>(e)], real("e", k, row, j));
          visit(moments[static_cast<std::size_t>(e)], real("m", k, row, j));
        }
    }
    for (Index i = 0; i < 6; ++i) visit(theta[static_cast<std::size_t>(i)], real("t", i, 0, 0));
  }
  void fill(int part) {
    each(part, [](T& value, double truth) { value = static_cast<T>(truth); });
  }
  void expect(int part) {
    each(part, [](T& value, double truth) { ASSERT_EQ(value, static_cast<T>(truth)); });
  }
};

RowPartition scattered(Index n, int parts, const char* seed) {
  std::vector<int> owners;
  for (Index i = 0; i < n; ++i)
    owners.push_back(static_cast<int>(Random(1, seed).bits(static_cast<std::uint64_t>(i)) %
                                      static_cast<std::uint64_t>(parts)));
  return test::shuffled_rows(RowPartition::from_owners(owners, parts));
}

template <class T>
void write(const Communicator& comm, const std::string& path, const RowPartition& partition,
           const std::string& text) {
  State<T> state(partition, comm.rank());
  state.fill(comm.rank());
  write_state<T>(comm, path, partition, state.arrays, text);
}

template <class T>
void read(const Communicator& comm, const std::string& path, const RowPartition& partition) {
  State<T> state(partition, comm.rank());
  read_state<T>(comm, path, partition, state.arrays);
  state.expect(comm.rank());
}

/// Returns the message of the UserError of `work`, which all ranks must throw alike. Collective.
std::string complaint(const std::function<void()>& work) {
  std::string message;
  try {
    work();
  } catch (const UserError& error) {
    message = error.what();
  }
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class StateFile : public ::testing::TestWithParam<Index> {};

TEST_P(StateFile, IsReadAtAnyRankCountAndPartition) {
  const Index n = GetParam();
  const Communicator world = Communicator::world();
  const Folder folder;
  const std::string text = "{\"epoch\": 3, \"n\": " + std::to_string(n) + "}";
  for (const bool contiguous : {true, false}) {
    const RowPartition partition =
        contiguous ? RowPartition::blocks(n, world.size()) : scattered(n, world.size(), "a");
    write<double>(world, folder.file("d.h5"), partition, text);
    write<float>(world, folder.file("f.h5"), partition, text);
    EXPECT_EQ(read_state_metadata(folder.file("d.h5")), text);
    EXPECT_FALSE(std::filesystem::exists(folder.file("d.h5.tmp")));
    for (const int readers : {1, 2, 3, world.size()}) {
      if (readers > world.size()) continue;
      const Communicator group = world.split(world.rank() < readers ? 0 : 1);
      if (world.rank() < readers) {
        SCOPED_TRACE(std::to_string(readers) + " readers");
        read<double>(group, folder.file("d.h5"), RowPartition::blocks(n, readers));
        read<double>(group, folder.file("d.h5"), scattered(n, readers, "b"));
        read<float>(group, folder.file("f.h5"), scattered(n, readers, "b"));
        read<float>(group, folder.file("d.h5"),
                    RowPartition::blocks(n, readers));  // rounds as static_cast does
      }
      world.barrier();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, StateFile, ::testing::Values(0, 1, 13, 40));

TEST(StateFileBytes, DoNotDependOnPartitionAndRankCount) {
  const Communicator world = Communicator::world();
  const Folder folder;
  write<float>(world, folder.file("a.h5"), scattered(29, world.size(), "a"), "{}");
  write<float>(world, folder.file("b.h5"), RowPartition::blocks(29, world.size()), "{}");
  const Communicator alone = world.split(world.rank());
  if (world.rank() == 0) write<float>(alone, folder.file("c.h5"), RowPartition::blocks(29, 1), "{}");
  world.barrier();
  EXPECT_EQ(bytes_of(folder.file("a.h5")), bytes_of(folder.file("b.h5")));
  EXPECT_EQ(bytes_of(folder.file("a.h5")), bytes_of(folder.file("c.h5")));
}

TEST(StateFilePrecision, FloatsAreReadAsDoubles) {
  const Communicator world = Communicator::world();
  const Folder folder;
  const RowPartition partition = RowPartition::blocks(13, world.size());
  write<float>(world, folder.file("f.h5"), partition, "{}");
  State<double> state(partition, world.rank());
  read_state<double>(world, folder.file("f.h5"), partition, state.arrays);
  state.each(world.rank(),
             [](double& value, double truth) { ASSERT_EQ(value, double{static_cast<float>(truth)}); });
}

/// Writes a good file and reads it into states that differ.
class StateFileErrors : public ::testing::Test {
 protected:
  void SetUp() override { write<double>(world_, path_, partition_, "{\"text\": \"unmistakable\"}"); }

  std::string read_with(const std::function<void(State<double>&)>& change) {
    State<double> state(partition_, world_.rank());
    change(state);
    return complaint([&] { read_state<double>(world_, path_, partition_, state.arrays); });
  }
  static void expect_in(const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  /// Changes one bit in the only place of the file that holds these bytes.
  void damage(const std::string& bytes) {
    if (world_.rank() == 0) {
      std::string all = bytes_of(path_);
      const std::size_t at = all.find(bytes);
      ASSERT_NE(at, std::string::npos);
      all[at] = static_cast<char>(all[at] ^ 1);
      std::ofstream(path_, std::ios::binary) << all;
    }
    world_.barrier();
  }
  template <class V>
  static std::string bits(V value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  Communicator world_ = Communicator::world();
  Folder folder_;
  std::string path_ = folder_.file("state.h5");
  RowPartition partition_ = scattered(13, Communicator::world().size(), "a");
};

TEST_F(StateFileErrors, AMissingArrayIsNamed) {
  expect_in(read_with([](State<double>& s) { s.arrays[0].name = "factor"; }),
            {path_, "no array 'factor'", "factors", "theta"});
}

TEST_F(StateFileErrors, OtherShapesArePrinted) {
  expect_in(read_with([](State<double>& s) { s.arrays[4].outer = 3, s.arrays[4].inner = 2; }),
            {"'theta'", "(2, 1, 3) in the file", "(3, 1, 2) in this run"});
  const RowPartition other = RowPartition::blocks(14, world_.size());
  State<double> state(other, world_.rank());
  expect_in(complaint([&] { read_state<double>(world_, path_, other, state.arrays); }), {"13 nodes", "14"});
}

TEST_F(StateFileErrors, OtherPlacementIsNamed) {
  expect_in(read_with([](State<double>& s) { s.arrays[4].placement = Placement::rows; }),
            {"'theta'", "replicated in the file", "rows in this program"});
}

TEST_F(StateFileErrors, OtherEntriesAreNamed) {
  // The rank that owns global row 5 has one entry in another column.
  const std::string moved = read_with([&](State<double>& s) {
    for (Index l = 0; l < s.edges.rows; ++l)
      if (partition_.global(Position{partition_.begin(world_.rank()) + l}) == GlobalRow{5} &&
          s.edges.end(l, 1) > s.edges.begin(l, 1)) {
        auto& column = s.edges.column[static_cast<std::size_t>(s.edges.end(l, 1) - 1)];
        column = GlobalRow{column.value == 12 ? 11 : column.value + 1};
      }
  });
  expect_in(moved, {"'relation.sparse'", "has other entries", "W_1[5, "});
  const std::string fewer = read_with([&](State<double>& s) {
    if (s.edges.column.empty() || partition_.owner(GlobalRow{5}) != world_.rank()) return;
    s.edges.column.pop_back();
    --s.edges.ptr.back();
  });
  expect_in(fewer, {"'relation.sparse'", "in the file"});
}

TEST_F(StateFileErrors, ADamagedByteIsFound) {
  damage(bits(real("z", 4, 12, 2)));
  expect_in(read_with([](State<double>&) {}), {"'factors'", "damaged"});
}

TEST_F(StateFileErrors, DamageIsFoundInEveryKindOfArray) {
  damage(bits(real("t", 5, 0, 0)));
  expect_in(read_with([](State<double>&) {}), {"'theta'", "damaged"});
  damage("unmistakable");
  expect_in(complaint([&] { (void)read_state_metadata(path_); }), {"metadata", "damaged"});
  expect_in(read_with([](State<double>& s) { s.arrays.erase(s.arrays.begin(), s.arrays.begin() + 5); }), {});
}

TEST_F(StateFileErrors, FilesThatAreNoStateFiles) {
  const auto read_file = [&](const std::string& path) {
    State<double> state(partition_, world_.rank());
    return complaint([&] { read_state<double>(world_, path, partition_, state.arrays); });
  };
  expect_in(read_file(folder_.file("absent.h5")), {"absent.h5", "No such file"});
  expect_in(complaint([&] { (void)read_state_metadata(folder_.file("absent.h5")); }),
            {"absent.h5", "No such file"});
  if (world_.rank() == 0) {
    const std::string all = bytes_of(path_);
    std::ofstream(folder_.file("short.h5"), std::ios::binary) << all.substr(0, all.size() / 2);
    std::ofstream(folder_.file("text.h5")) << "no state\n";
  }
  world_.barrier();
  expect_in(read_file(folder_.file("short.h5")), {"short.h5", "truncated"});
  expect_in(read_file(folder_.file("text.h5")), {"text.h5", "no HDF5 file"});
}

TEST_F(StateFileErrors, NoDirectoryNoFile) {
  const std::string path = folder_.file("nowhere/state.h5");
  expect_in(complaint([&] { write<double>(world_, path, partition_, "{}"); }),
            {path, "No such file or directory"});
}

/// Simulates a full file system: one rank or all ranks may write only a number of bytes to a file.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(StateFileErrors, AFullDiskLeavesTheOldFileAndNoNewOne) {
  const RowPartition big = RowPartition::blocks(300, world_.size());
  for (const bool on_all : {true, false})
    for (const rlim_t bytes : {rlim_t{0}, rlim_t{3000}, rlim_t{20000}, rlim_t{200000}}) {
      SCOPED_TRACE(std::to_string(bytes) + " bytes" + (on_all ? "" : ", last rank only"));
      std::string message;
      if (on_all || world_.rank() == world_.size() - 1) {
        const FileSizeLimit limit(bytes);
        message = complaint([&] { write<double>(world_, path_, big, "{}"); });
      } else {
        message = complaint([&] { write<double>(world_, path_, big, "{}"); });
      }
      expect_in(message, {path_, "is not written"});
      EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
      world_.barrier();
      read<double>(world_, path_, partition_);  // the old file is intact
    }
}

}  // namespace
}  // namespace rossby
