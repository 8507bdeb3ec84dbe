#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/tensor/chunk_stream.hpp"
#include "rossby/tensor/simulated_device.hpp"

// Sweeps over chunks against arrays in memory: any number of chunks in memory, both directions, odd last
// chunks, with and without the I/O thread.

namespace rossby {
namespace {

std::string folder() {
  return std::filesystem::temp_directory_path().string();
}

struct Shape {
  Index rows, columns, chunk_rows;
  std::size_t slots;  // 0: the minimum that works
  bool overlap;
};

ChunkStreamOptions options_of(const Shape& s, std::size_t arrays) {
  return {.folder = folder(),
          .rows = s.rows,
          .row_bytes = s.columns * Index{sizeof(int)},
          .chunk_rows = s.chunk_rows,
          .budget = std::max<std::size_t>(s.slots, 2) * arrays *
                    static_cast<std::size_t>(std::min(s.rows, s.chunk_rows) * s.columns) * sizeof(int),
          .overlap = s.overlap};
}

class Streams : public testing::TestWithParam<Shape> {};

/// The arrays of a stream, and their expected values.
struct Arrays {
  static constexpr int count = 3;
  Shape shape;
  ChunkStream stream;
  std::vector<Buffer<int>> files;
  std::vector<std::vector<int>> truth;

  explicit Arrays(const Shape& s) : shape(s), stream(options_of(s, count)) {
    for (int a = 0; a < count; ++a) {
      files.push_back(stream.add<int>());
      truth.emplace_back(static_cast<std::size_t>(s.rows * s.columns), 0);
    }
  }
  int* mapped(int a) { return files[static_cast<std::size_t>(a)].data(); }

  /// Counts wrong values and, if `writes`, changes every value, each differently.
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
    // The next sweep must see values that others write into the mapping.
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

/// A changed chunk is written one chunk before its space is needed, so that writes and reads overlap.
TEST(ChunkStream, ChangedChunksLeaveAhead) {
  Arrays arrays({50, 6, 5, 3, true});  // 10 chunks, 3 in memory
  const double chunk = 3 * 5 * 6 * sizeof(int);
  for (const bool descending : {false, true}) {
    arrays.stream.settle();
    const double before = arrays.stream.statistics().written_bytes;
    arrays.stream.start(3, descending, true);
    for (Index place = 0; place < arrays.stream.chunks(); ++place) {
      (void)arrays.stream.take();
      const double left = (arrays.stream.statistics().written_bytes - before) / chunk;
      EXPECT_EQ(left, static_cast<double>(std::min<Index>(place, 7)))
          << "at chunk " << place << ", three stay";
      arrays.stream.give_back();
    }
  }
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
  const auto stream_in = [](const std::string& where, Index rows, Index row_bytes, std::size_t budget) {
    return ChunkStream(
        {.folder = where, .rows = rows, .row_bytes = row_bytes, .chunk_rows = 2, .budget = budget});
  };
  ChunkStream small = stream_in(folder(), 10, 1 << 20, 7 << 20);
  (void)small.add<int>();
  EXPECT_NE(
      message_of([&] { (void)small.add<int>(); }).find("two chunks of 4 MiB (relation.chunk_mib) are needed"),
      std::string::npos);
  ChunkStream nowhere = stream_in("/there/is/no/such/folder", 10, 8, 1 << 20);
  EXPECT_NE(message_of([&] { (void)nowhere.add<int>(); }).find("/there/is/no/such/folder"),
            std::string::npos);
  ChunkStream huge = stream_in(folder(), Index{1} << 30, Index{1} << 28, 1 << 20);
  EXPECT_NE(message_of([&] { (void)huge.add<int>(); }).find("cannot store a file of"), std::string::npos);
}

TEST(ChunkStream, LeavesNoFileBehind) {
  const auto mine = std::filesystem::temp_directory_path() / ("rossby_stream_" + std::to_string(getpid()));
  std::filesystem::create_directory(mine);
  {
    ChunkStream stream(
        {.folder = mine.string(), .rows = 10, .row_bytes = 8, .chunk_rows = 2, .budget = 1 << 20});
    const Buffer<int> array = stream.add<int>();
    EXPECT_TRUE(std::filesystem::is_empty(mine));
  }
  EXPECT_TRUE(std::filesystem::is_empty(mine));
  std::filesystem::remove(mine);
}

// Chunks on a device. Computation is enqueued, as kernels are, and sees the right values, however far one
// queue runs ahead of the others.

using Queue = DeviceDriver::Queue;

struct OnDeviceCase {
  Transfer transfer;
  SimulatedDriver::Order order;
};

class DeviceStreams : public testing::TestWithParam<OnDeviceCase> {};

TEST_P(DeviceStreams, SweepsSeeWhatWasWritten) {
  for (const Shape& shape : {Shape{12, 5, 4, 0, true}, Shape{13, 7, 4, 3, true}, Shape{29, 3, 2, 5, true},
                             Shape{13, 7, 4, 9, true}, Shape{3, 4, 100, 0, true}, Shape{0, 4, 2, 0, true}}) {
    auto owner = std::make_unique<SimulatedDriver>(std::size_t{1} << 28, GetParam().order);
    SimulatedDriver* driver = owner.get();
    DeviceOptions small;
    small.staging_bytes = 4096;  // every wait switches access to all device memory on and off
    Device device(std::move(owner), small);
    constexpr int count = 3;
    ChunkStreamOptions options = options_of(shape, count);
    options.device = &device;
    options.transfer = GetParam().transfer;
    ChunkStream stream(options);
    std::vector<Buffer<int>> arrays;
    const auto size = static_cast<std::size_t>(shape.rows * shape.columns);
    std::vector<std::vector<int>> truth(count, std::vector<int>(size, 0));
    for (int a = 0; a < count; ++a) arrays.push_back(stream.add<int>());
    Index wrong = 0;
    const Random random(7, "sweeps");
    const Index waits = driver->waits();
    Index settled = 0;
    for (int s = 0; s < 60; ++s) {
      const auto bits = random.bits(static_cast<std::uint64_t>(s));
      const bool writes = bits % 3 == 0;
      const int used = writes ? count : 1 + static_cast<int>(bits / 8 % 3);
      stream.start(used, bits / 64 % 2 == 0, writes);
      for (Index k = 0; k < stream.chunks(); ++k) {
        const Index chunk = stream.take(), entries = stream.rows(chunk) * shape.columns;
        for (int a = 0; a < used; ++a) {
          int* values = reinterpret_cast<int*>(stream.array(a));
          int* right = truth[static_cast<std::size_t>(a)].data() + stream.first(chunk) * shape.columns;
          std::vector<int> found(right, right + entries);
          if (writes)
            for (Index i = 0; i < entries; ++i)
              right[i] = (5 * right[i] + s + a + static_cast<int>(7 * chunk + i)) % 100003;
          driver->enqueue([values, found, next = std::vector<int>(right, right + entries), &wrong] {
            for (std::size_t i = 0; i < found.size(); ++i) {
              wrong += values[i] != found[i];
              values[i] = next[i];
            }
          });
        }
        stream.give_back();
      }
      if (bits / 256 % 7 != 0) continue;
      stream.settle();
      ++settled;
      ASSERT_EQ(wrong, 0) << "sweep " << s;
      for (int a = 0; a < count; ++a)
        ASSERT_TRUE(std::equal(arrays[static_cast<std::size_t>(a)].begin(),
                               arrays[static_cast<std::size_t>(a)].end(),
                               truth[static_cast<std::size_t>(a)].begin()))
            << "array " << a << " after sweep " << s;
      for (std::size_t i = 0; i < size; ++i) arrays[1][static_cast<Index>(i)] = truth[1][i] = s;
    }
    stream.settle();
    EXPECT_EQ(wrong, 0);
    const bool beside =
        GetParam().transfer == Transfer::pinned_async || GetParam().transfer == Transfer::pageable_async;
    EXPECT_TRUE(!beside || driver->waits() - waits == settled + 1) << "nothing else waits";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, DeviceStreams,
    testing::Values(OnDeviceCase{Transfer::pageable, {Queue::in, Queue::out, Queue::compute}},
                    OnDeviceCase{Transfer::pinned, {Queue::compute, Queue::out, Queue::in}},
                    OnDeviceCase{Transfer::pageable_async, {Queue::in, Queue::out, Queue::compute}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::in, Queue::out, Queue::compute}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::in, Queue::compute, Queue::out}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::out, Queue::in, Queue::compute}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::out, Queue::compute, Queue::in}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::compute, Queue::in, Queue::out}},
                    OnDeviceCase{Transfer::pinned_async, {Queue::compute, Queue::out, Queue::in}}));

/// The host takes the kernels' results of each chunk and updates the chunk. The next sweep sees the update.
TEST_P(DeviceStreams, HostsUpdateWithWhatLeaves) {
  for (const Shape& shape : {Shape{13, 7, 4, 0, true}, Shape{29, 3, 2, 5, true}, Shape{13, 7, 4, 9, true},
                             Shape{3, 4, 100, 0, true}}) {
    auto owner = std::make_unique<SimulatedDriver>(std::size_t{1} << 28, GetParam().order);
    SimulatedDriver* driver = owner.get();
    DeviceOptions small;
    small.staging_bytes = 4096;
    Device device(std::move(owner), small);
    ChunkStreamOptions options = options_of(shape, 1);
    options.budget +=
        2 * static_cast<std::size_t>(std::min(shape.rows, shape.chunk_rows) * shape.columns) * sizeof(long);
    options.device = &device;
    options.transfer = GetParam().transfer;
    options.host_updates = true;
    ChunkStream stream(options);
    Buffer<int> array = stream.add<int>();
    stream.add_outgoing(shape.columns * Index{sizeof(long)});
    std::vector<int> truth(static_cast<std::size_t>(array.size()), 0);
    Index wrong = 0, arrivals = 0;
    const auto update = [&] {
      const auto [chunk, memory] = stream.arrived();
      const long* gradient = reinterpret_cast<const long*>(memory);
      ++arrivals;
      for (Index i = 0; i < stream.rows(chunk) * shape.columns; ++i) {
        const Index at = stream.first(chunk) * shape.columns + i;
        int& right = truth[static_cast<std::size_t>(at)];
        wrong += gradient[i] != 3L * right + chunk;
        right = array[at] = static_cast<int>((3L * right + chunk + 5) % 10007);
      }
      stream.changed(chunk);
    };
    for (int s = 0; s < 12; ++s) {
      const bool writes = s % 2 == 1;  // an ascending sweep reads, a descending one sends gradients
      stream.start(1, writes, false);
      for (Index k = 0; k < stream.chunks(); ++k) {
        const Index chunk = stream.take(), entries = stream.rows(chunk) * shape.columns;
        const int* values = reinterpret_cast<const int*>(stream.array(0));
        long* out = writes ? reinterpret_cast<long*>(stream.outgoing()) : nullptr;
        const int* right = truth.data() + stream.first(chunk) * shape.columns;
        driver->enqueue([=, &wrong, found = std::vector<int>(right, right + entries)] {
          for (Index i = 0; i < entries; ++i) {
            wrong += values[i] != found[static_cast<std::size_t>(i)];
            if (out) out[i] = 3L * values[i] + chunk;
          }
        });
        stream.give_back();
        if (stream.leaving() > 1) update();
      }
      while (stream.leaving() > 0) update();
      if (s % 5 == 4) stream.settle();
    }
    stream.settle();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(arrivals, 6 * stream.chunks());
    EXPECT_TRUE(std::equal(array.begin(), array.end(), truth.begin()));
  }
}

/// If all weights fit on the device, each update uploads them once, whatever the moments need.
TEST(DeviceStream, OnlyChangedChunksAreBroughtAgain) {
  Device device(std::make_unique<SimulatedDriver>());
  ChunkStream stream({.folder = "",
                      .device = &device,
                      .rows = 12,
                      .row_bytes = 8,
                      .chunk_rows = 3,
                      .budget = 12 * 8 + 2 * 3 * 16,
                      .host_updates = true});
  const Buffer<float> array = stream.add<float>();
  stream.add_outgoing(16);
  const auto sweep = [&](bool sends) {
    const double before = stream.statistics().read_bytes;
    stream.start(1, sends, false);
    for (Index k = 0; k < stream.chunks(); ++k) {
      (void)stream.take();
      if (sends) (void)stream.outgoing();
      stream.give_back();
      if (stream.leaving() > 1) stream.changed(stream.arrived().chunk);
    }
    while (stream.leaving() > 0) stream.changed(stream.arrived().chunk);
    return stream.statistics().read_bytes - before;
  };
  EXPECT_EQ(stream.slots(), 0);
  EXPECT_EQ(sweep(false), 96);
  EXPECT_EQ(stream.slots(), 4);
  EXPECT_EQ(sweep(true), 0);
  EXPECT_EQ(sweep(false), 96);
  EXPECT_EQ(stream.statistics().written_bytes, 12 * 16);
  ChunkStream narrow({.folder = "",
                      .device = &device,
                      .rows = 12,
                      .row_bytes = 8,
                      .chunk_rows = 3,
                      .budget = 2 * 3 * 8 + 2 * 3 * 16 - 1,
                      .host_updates = true});
  const Buffer<float> other = narrow.add<float>();
  EXPECT_NE(message_of([&] { narrow.add_outgoing(16); }).find("(relation.chunk_mib) and gradients of"),
            std::string::npos);
}

TEST(DeviceStream, KeepsToTheDevicesBudget) {
  DeviceOptions limits;
  limits.limit = std::size_t{16} << 20;
  Device device(std::make_unique<SimulatedDriver>(std::size_t{1} << 30), limits);
  ChunkStream stream({.folder = "",
                      .device = &device,
                      .rows = 64,
                      .row_bytes = 1 << 20,
                      .chunk_rows = 8,
                      .budget = 64 << 20});
  const Buffer<float> array = stream.add<float>();
  EXPECT_EQ(array.memory(), Memory::pinned);
  EXPECT_EQ(array.device(), nullptr) << "the host may touch it";
  EXPECT_NE(message_of([&] {
              stream.start(1, false, false);
            }).find("out of device memory: cannot allocate 8.000 MiB for chunks of a streamed relation"),
            std::string::npos);
}

TEST(DeviceStream, WhatStaysTakesNoMoreThanItHas) {
  constexpr Index row_bytes = 64 << 10;
  const auto taken = [](std::size_t budget) {
    Device device(std::make_unique<SimulatedDriver>(std::size_t{1} << 30), {});
    ChunkStream stream({.folder = "",
                        .device = &device,
                        .rows = 17,
                        .row_bytes = row_bytes,
                        .chunk_rows = 8,
                        .budget = budget * row_bytes});
    const Buffer<float> weights = stream.add<float>(), moments = stream.add<float>();
    const std::size_t before = device.free_bytes();
    stream.start(2, false, false);
    return static_cast<Index>(before - device.free_bytes()) / row_bytes;
  };
  EXPECT_EQ(taken(48), 2 * 17) << "three chunks, the last of one row";
  EXPECT_EQ(taken(47), 2 * 16) << "any chunk comes to any of two places";
}

}  // namespace
}  // namespace rossby
