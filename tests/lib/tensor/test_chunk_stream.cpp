#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/tensor/chunk_stream.hpp"

// Sweeps over chunks against arrays in memory: any number of chunks in memory, both directions, odd last
// chunks, with and without the thread that reads and writes.

namespace rossby {
namespace {

std::string folder() {
  return std::filesystem::temp_directory_path().string();
}

struct Shape {
  Index rows, columns, chunk_rows;
  std::size_t slots;  // 0: the least that works
  bool overlap;
};

class Streams : public testing::TestWithParam<Shape> {};

/// Arrays that a stream works on, and what they have to be.
struct Arrays {
  static constexpr int count = 3;
  Shape shape;
  ChunkStream stream;
  std::vector<std::shared_ptr<FileMemory>> files;
  std::vector<std::vector<int>> truth;

  explicit Arrays(const Shape& s)
      : shape(s),
        stream({folder(), s.rows, s.columns * Index{sizeof(int)}, s.chunk_rows,
                std::max<std::size_t>(s.slots, 2) * count *
                    static_cast<std::size_t>(std::min(s.rows, s.chunk_rows) * s.columns) * sizeof(int),
                s.overlap}) {
    for (int a = 0; a < count; ++a) {
      files.push_back(stream.add());
      truth.emplace_back(static_cast<std::size_t>(s.rows * s.columns), 0);
    }
  }
  int* mapped(int a) { return reinterpret_cast<int*>(files[static_cast<std::size_t>(a)]->data()); }

  /// Changes every value where `writes`, each in its own way; counts what is not as it should be.
  Index sweep(int arrays, bool descending, bool writes, int add) {
    Index wrong = 0;
    Index expected = descending ? stream.chunks() - 1 : 0;
    stream.start(arrays, descending, writes);
    for (Index k = 0; k < stream.chunks(); ++k, expected += descending ? -1 : 1) {
      const Index chunk = stream.take();
      wrong += chunk != expected;
      for (int a = 0; a < arrays; ++a) {
        int* values = reinterpret_cast<int*>(stream.array(a));
        int* right = truth[static_cast<std::size_t>(a)].data() + stream.first(chunk) * shape.columns;
        for (Index i = 0; i < stream.rows(chunk) * shape.columns; ++i) {
          wrong += values[i] != right[i];
          if (writes)
            values[i] = right[i] = (5 * right[i] + add + a + static_cast<int>(7 * chunk + i)) % 100003;
        }
      }
      stream.give_back();
    }
    return wrong;
  }
  Index wrong_in_mappings() {
    Index wrong = 0;
    for (int a = 0; a < count; ++a)
      for (std::size_t i = 0; i < truth[0].size(); ++i)
        wrong += mapped(a)[i] != truth[static_cast<std::size_t>(a)][i];
    return wrong;
  }
};

TEST_P(Streams, SweepsSeeWhatWasWritten) {
  Arrays arrays(GetParam());
  const Random random(7, "sweeps");
  for (int s = 0; s < 60; ++s) {
    const auto bits = random.bits(static_cast<std::uint64_t>(s));
    const bool writes = bits % 3 == 0;
    ASSERT_EQ(arrays.sweep(writes ? 3 : 1 + static_cast<int>(bits / 8 % 3), bits / 64 % 2 == 0, writes, s), 0)
        << s;
    if (bits / 256 % 7 != 0) continue;
    arrays.stream.settle();
    ASSERT_EQ(arrays.wrong_in_mappings(), 0) << "after sweep " << s;
    // What others write into the mapping, the next sweep has to find.
    for (std::size_t i = 0; i < arrays.truth[1].size(); ++i) arrays.mapped(1)[i] = arrays.truth[1][i] = s;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Streams,
                         testing::Values(Shape{12, 5, 4, 0, true}, Shape{13, 7, 4, 0, true},
                                         Shape{13, 7, 4, 3, true}, Shape{29, 3, 2, 5, true},
                                         Shape{29, 3, 2, 5, false}, Shape{13, 7, 4, 9, true},
                                         Shape{3, 4, 100, 0, true}, Shape{1, 1, 1, 0, false},
                                         Shape{0, 4, 2, 0, true}, Shape{5, 0, 2, 0, true},
                                         Shape{700, 301, 50, 2, true}));

TEST(ChunkStream, MovesNothingTwiceWhereAllFits) {
  Arrays arrays({20, 6, 5, 4, true});
  for (int s = 0; s < 6; ++s) (void)arrays.sweep(3, s % 2 == 1, true, 1);
  const auto moved = arrays.stream.statistics();
  EXPECT_EQ(moved.read_bytes, 3 * 20 * 6 * sizeof(int));
  EXPECT_EQ(moved.written_bytes, 0);
}

TEST(ChunkStream, TurningFindsTheLastChunks) {
  Arrays arrays({60, 6, 5, 4, true});  // 12 chunks, 4 in memory
  (void)arrays.sweep(3, false, true, 1);
  const double first = arrays.stream.statistics().read_bytes;
  (void)arrays.sweep(3, true, true, 1);
  EXPECT_EQ(arrays.stream.statistics().read_bytes - first, first * 8 / 12)
      << "four of twelve are still there";
  const double second = arrays.stream.statistics().read_bytes;
  (void)arrays.sweep(3, false, true, 1);
  EXPECT_EQ(arrays.stream.statistics().read_bytes - second, first * 8 / 12);
}

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ChunkStream, SaysWhatIsMissing) {
  ChunkStream small({folder(), 10, 1 << 20, 2, 7 << 20, true});
  (void)small.add();
  EXPECT_NE(message_of([&] { (void)small.add(); }).find("2 chunks of 4.000 MiB are needed"),
            std::string::npos);
  ChunkStream nowhere({"/there/is/no/such/folder", 10, 8, 2, 1 << 20, true});
  EXPECT_NE(message_of([&] { (void)nowhere.add(); }).find("/there/is/no/such/folder"), std::string::npos);
  ChunkStream huge({folder(), Index{1} << 30, Index{1} << 28, 2, 1 << 20, true});
  EXPECT_NE(message_of([&] { (void)huge.add(); }).find("no room for a file of"), std::string::npos);
}

TEST(ChunkStream, LeavesNoFileBehind) {
  const auto mine = std::filesystem::temp_directory_path() / ("rossby_stream_" + std::to_string(getpid()));
  std::filesystem::create_directory(mine);
  {
    ChunkStream stream({mine.string(), 10, 8, 2, 1 << 20, true});
    (void)stream.add();
    EXPECT_TRUE(std::filesystem::is_empty(mine));
  }
  EXPECT_TRUE(std::filesystem::is_empty(mine));
  std::filesystem::remove(mine);
}

}  // namespace
}  // namespace rossby
