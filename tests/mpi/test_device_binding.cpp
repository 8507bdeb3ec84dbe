#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/mpi/device_binding.hpp"

namespace rossby::test {
namespace {

std::vector<SeenDevice> devices(const std::vector<int>& numbers, const std::string& name = "A") {
  std::vector<SeenDevice> seen;
  for (const int k : numbers) seen.push_back({"GPU-" + std::to_string(k), name});
  return seen;
}

/// If all ranks see four GPUs, ranks take them in turn.
TEST(DeviceBinding, TakesTurnsWhereAllAreSeen) {
  const Communicator world = Communicator::world();
  const int rank = world.rank(), size = world.size();
  const DeviceBinding binding = bind_devices(world, devices({7, 3, 5, 1}));
  EXPECT_EQ(binding.device, rank % 4);
  EXPECT_EQ(binding.most, (size + 3) / 4);
  EXPECT_EQ(binding.ranks, (size - rank % 4 + 3) / 4);
  EXPECT_EQ(binding.kinds, (std::map<std::string, int>{{"A", std::min(size, 4)}}));
}

/// Slurm gives each rank a GPU of its own, number 0 there: ranks share none.
TEST(DeviceBinding, SharesNothingWhereEachSeesItsOwn) {
  const Communicator world = Communicator::world();
  const DeviceBinding binding = bind_devices(world, devices({world.rank()}));
  EXPECT_EQ(binding.device, 0);
  EXPECT_EQ(binding.ranks, 1);
  EXPECT_EQ(binding.most, 1);
  EXPECT_EQ(binding.kinds, (std::map<std::string, int>{{"A", world.size()}}));
}

TEST(DeviceBinding, SharesTheOnlyOne) {
  const Communicator world = Communicator::world();
  const DeviceBinding binding = bind_devices(world, devices({4}));
  EXPECT_EQ(binding.device, 0);
  EXPECT_EQ(binding.ranks, world.size());
  EXPECT_EQ(binding.most, world.size());
  EXPECT_EQ(binding.kinds, (std::map<std::string, int>{{"A", 1}}));
}

/// The first rank sees one GPU; the others see that GPU and another, in a different order. They leave the
/// first GPU to that rank while they can.
TEST(DeviceBinding, LooksAtWhatOthersHaveTaken) {
  const Communicator world = Communicator::world();
  const int rank = world.rank(), size = world.size();
  const DeviceBinding binding =
      bind_devices(world, rank == 0 ? devices({2}) : devices({2, 9}, rank % 2 == 1 ? "A" : "B"));
  // 0 → 2, 1 → 9, 2 → 2, 3 → 9, …
  EXPECT_EQ(binding.device, rank % 2);
  EXPECT_EQ(binding.ranks, (size - rank % 2 + 1) / 2);
  EXPECT_EQ(binding.most, (size + 1) / 2);
}

TEST(DeviceBinding, CountsKinds) {
  const Communicator world = Communicator::world();
  const int rank = world.rank(), size = world.size();
  const DeviceBinding binding = bind_devices(world, devices({rank}, rank % 3 == 0 ? "new" : "old"));
  std::map<std::string, int> kinds{{"new", (size + 2) / 3}};
  if (size > 1) kinds["old"] = size - (size + 2) / 3;
  EXPECT_EQ(binding.kinds, kinds);
}

/// Single ranks and pretended ranks do not communicate: all see the same.
TEST(DeviceBinding, AsksNobodyWhereNobodyIs) {
  const DeviceBinding alone = bind_devices(Communicator::self(3, 5), devices({0, 1}));
  EXPECT_EQ(alone.device, 1);
  EXPECT_EQ(alone.ranks, 2);
  EXPECT_EQ(alone.most, 3);
  const DeviceBinding pretended = bind_devices(Communicator::pretended(6, 8, 4), devices({0, 1, 2, 3}));
  EXPECT_EQ(pretended.device, 2);
  EXPECT_EQ(pretended.most, 1);
}

}  // namespace
}  // namespace rossby::test
