#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/staged_ports.hpp"
#include "rossby/base/error.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/nccl_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "tests/lib/exchange/exchange_checks.hpp"
#include "tests/mpi/fake_nccl.hpp"
#include "tests/support/test_device.hpp"

// Exchanges between devices, over a fake NCCL and through the host, give the values of the host's exchange.

namespace rossby::test {
namespace {

/// Ghosts and sums of owned rows after a gather and a scatter_add by `exchange`; on the device if `device` is
/// set.
template <class T>
struct Exchanged {
  std::vector<T> owned, ghost;

  Exchanged(Exchange& exchange, Device* device, int rank, Index cols, Index channels) {
    const Index width = cols * channels;
    for (Index k = 0; k < exchange.owned() * width; ++k)
      owned.push_back(static_cast<T>(std::sin(1.3 * static_cast<double>(k) + rank)));
    ghost.assign(static_cast<std::size_t>(exchange.ghosts() * width), T(NAN));
    std::optional<OnDevice> there;
    if (device) there.emplace(*device);
    const auto at = [&](std::vector<T>& v) { return there ? (*there)(v) : v.data(); };
    const NodeView<T> own(at(owned), exchange.owned(), cols, channels);
    const NodeView<T> ghosts(at(ghost), exchange.ghosts(), cols, channels);
    exchange.gather<T>(own, ghosts);
    exchange.scatter_add<T>(ghosts, own);
    if (there) there->fetch();
  }
};

class Nccl : public ::testing::Test {
 protected:
  Communicator world_ = Communicator::world();
  FakeNccl api_{MPI_COMM_WORLD};
  Device device_{std::make_unique<SimulatedDriver>()};
  Exec exec_{Backend::simulated, 1, widest_isa(), &device_};

  template <class T>
  void compare(Exchange& host, Exchange& between, Index cols, Index channels) {
    const Exchanged<T> right(host, nullptr, world_.rank(), cols, channels);
    for (int twice = 0; twice < 2; ++twice) {
      const Exchanged<T> got(between, &device_, world_.rank(), cols, channels);
      EXPECT_EQ(got.ghost, right.ghost);
      ASSERT_EQ(got.owned.size(), right.owned.size());
      for (std::size_t k = 0; k < got.owned.size(); ++k)
        EXPECT_NEAR(got.owned[k], right.owned[k], 1e-6 * (1 + std::abs(right.owned[k]))) << k;
    }
    // Host data use the host's exchange.
    const Exchanged<T> through(between, nullptr, world_.rank(), cols, channels);
    EXPECT_EQ(through.ghost, right.ghost);
    EXPECT_EQ(through.owned, right.owned);
  }
};

TEST_F(Nccl, GhostsAndGradientsAreThoseOfTheHost) {
  NcclLink link(world_, device_, &api_);
  for (const Index n : {1, 3, 29}) {  // fewer rows than ranks, too
    const RowPartition partition = RowPartition::blocks(n, world_.size());
    const GhostList ghosts = some_ghosts(partition, world_.rank());
    NeighbourExchange host(world_, partition, world_.rank(), ghosts);
    NcclExchange nccl(world_, link, exec_, host, partition, ghosts);
    StagedExchange staged(exec_, host), of_wanted(exec_, host, wanted_rows(world_, partition, ghosts).rows);
    for (Exchange* between : {static_cast<Exchange*>(&nccl), static_cast<Exchange*>(&staged),
                              static_cast<Exchange*>(&of_wanted)}) {
      compare<float>(host, *between, 1, 1);
      compare<double>(host, *between, 3, 2);
    }
  }
}

TEST_F(Nccl, AllRowsToAll) {
  if (world_.size() == 1) GTEST_SKIP() << "a rank alone owns all rows";
  NcclLink link(world_, device_, &api_);
  for (const Index n : {2, 23}) {
    const RowPartition partition = RowPartition::blocks(n, world_.size());
    AllgatherExchange host(world_, partition, world_.rank());
    NcclExchange nccl(world_, link, exec_, host, partition, all_positions(partition));
    StagedExchange staged(exec_, host);
    compare<float>(host, nccl, 2, 3);
    compare<double>(host, staged, 2, 3);
  }
}

TEST_F(Nccl, SumsOverRanks) {
  NcclLink link(world_, device_, &api_);
  MpiReducer host(world_);
  NcclReducer nccl(link, host);
  StagedReducer staged(device_, host);
  for (Reducer* reducer : {static_cast<Reducer*>(&nccl), static_cast<Reducer*>(&staged)}) {
    std::vector<double> there{1.0 + world_.rank(), 2}, here{3};
    std::vector<float> narrow{0.5F};
    OnDevice on(device_);
    const std::span<double> values(on(there), 2);
    const std::span<float> floats(on(narrow), 1);
    reducer->sum_begin(values);
    reducer->sum_begin(floats);
    reducer->sum_end();
    reducer->sum(std::span<double>(here));
    EXPECT_EQ(reducer->enqueues(), reducer == &nccl || world_.size() == 1);
    std::vector<double> one{4}, two{5, 6}, empty;
    const std::span<double> each[] = {std::span(on(one), 1), std::span(on(two), 2), std::span(on(empty), 0)};
    reducer->sum_each(std::span<const std::span<double>>(each));
    on.fetch();
    const double ranks = world_.size();
    EXPECT_EQ(one, std::vector<double>{4 * ranks});
    EXPECT_EQ(two, (std::vector<double>{5 * ranks, 6 * ranks}));
    EXPECT_EQ(there, (std::vector<double>{ranks * (ranks + 1) / 2, 2 * ranks}));
    EXPECT_EQ(here, std::vector<double>{3 * ranks});
    EXPECT_EQ(narrow[0], static_cast<float>(0.5 * ranks));
  }
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Nccl, ErrorsAreThoseOfAllRanks) {
  EXPECT_NE(
      error_of([&] { NcclLink link(world_, device_, nullptr); }).find("NCCL (libnccl.so.2) is not installed"),
      std::string::npos);
  api_.fail_id = 3;  // only rank 0 calls it
  EXPECT_NE(error_of([&] {
              NcclLink link(world_, device_, &api_);
            }).find("NCCL failed while making an id: text of 3"),
            std::string::npos);
  api_.fail_id = 0;
  if (world_.rank() == world_.size() - 1) api_.fail_init = 5;  // one rank fails, all report it
  EXPECT_NE(error_of([&] {
              NcclLink link(world_, device_, &api_);
            }).find("NCCL failed while joining the other ranks: text of 5"),
            std::string::npos);
  std::string why;
  EXPECT_EQ(try_nccl(world_, device_, why, &api_), nullptr);
  EXPECT_NE(why.find("NCCL failed while joining the other ranks: text of 5"), std::string::npos) << why;
  EXPECT_EQ(api_.aborted, world_.rank() == world_.size() - 1 ? 0 : 2)
      << "without waiting for who is not there";
  api_.fail_init = 0;
  EXPECT_NE(try_nccl(world_, device_, why, &api_), nullptr);
  EXPECT_EQ(api_.open, 0) << "who had joined has left";
  EXPECT_EQ(api_.aborted, world_.rank() == world_.size() - 1 ? 0 : 2) << "in good order where all are there";
  NcclLink link(world_, device_, &api_);
  api_.fail_later = 6;
  EXPECT_EQ(error_of([&] { link.begin(); }),
            "NCCL failed while it exchanged: text of 6. Set parallel.transport = \"host\"");
  api_.fail_later = 0;
  api_.fail_group = 2;
  link.begin();
  EXPECT_EQ(error_of([&] { link.end(); }),
            "NCCL failed while exchanging: text of 2. Set parallel.transport = \"host\"");
  api_.fail_group = 0;
  api_.fail_sum = 1;
  link.begin();
  EXPECT_EQ(error_of([&] { link.all_reduce(nullptr, 1, true); }),
            "NCCL failed while summing over ranks: text of 1. Set parallel.transport = \"host\"");
  link.end();
}

}  // namespace
}  // namespace rossby::test
