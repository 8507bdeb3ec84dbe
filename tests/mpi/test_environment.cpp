#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include <gtest/gtest.h>
#include <mpi.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return std::string("user: ") + error.what();
  } catch (const BugError& error) {
    return std::string("bug: ") + error.what();
  }
  return "nothing";
}

TEST(Agree, PassesTheValueOn) {
  const Communicator world = Communicator::world();
  EXPECT_EQ(agree(world, [&] { return world.rank() * 10; }), world.rank() * 10);
  const auto pointer = agree(world, [] { return std::make_unique<int>(4); });  // move-only
  EXPECT_EQ(*pointer, 4);
  bool ran = false;
  agree(world, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Agree, OneFailureIsEveryonesAndNamesItsRank) {
  const Communicator world = Communicator::world();
  const int last = world.size() - 1;
  const auto work = [&] {
    if (world.rank() == last) user_error("no file x");
  };
  const std::string expected =
      world.size() == 1 ? "user: no file x" : "user: rank " + std::to_string(last) + ": no file x";
  EXPECT_EQ(message_of([&] { agree(world, work); }), expected);
}

TEST(Agree, TheLowestFailingRankSpeaks) {
  const Communicator world = Communicator::world();
  const auto work = [&] { user_error("row {} is bad", world.rank()); };
  EXPECT_EQ(message_of([&] { agree(world, work); }),
            world.size() == 1 ? "user: row 0 is bad" : "user: rank 0: row 0 is bad");
}

TEST(Agree, TheSameFailureOnAllRanksNamesNone) {
  const Communicator world = Communicator::world();
  EXPECT_EQ(message_of([&] { agree(world, [] { user_error("no file y"); }); }), "user: no file y");
  // After two nested agreements, the message names the failed rank once.
  const auto inner = [&] {
    agree(world, [&] {
      if (world.rank() == 0) user_error("no file z");
    });
  };
  EXPECT_EQ(message_of([&] { agree(world, inner); }),
            world.size() == 1 ? "user: no file z" : "user: rank 0: no file z");
}

TEST(Agree, AGroupNamesItsRankByItsNumberInTheJob) {
  const Communicator world = Communicator::world();
  const int last = world.size() - 1, groups = world.size() < 4 ? 1 : 2;
  const Communicator group = world.split(world.rank() * groups / world.size());
  const auto inner = [&] {
    agree(group, [&] {
      if (world.rank() == last) user_error("no file z");
    });
  };
  EXPECT_EQ(message_of([&] { agree(world, inner); }),
            world.size() == 1 ? "user: no file z" : "user: rank " + std::to_string(last) + ": no file z");
  EXPECT_TRUE(names_rank("rank 12: no file"));
  for (const char* other : {"rank", "rank ", "rank 1", "rank x: y", "ranks 1: y", "rank : y"})
    EXPECT_FALSE(names_rank(other)) << other;
}

TEST(Agree, KindsOfErrorsStayWhatTheyAre) {
  const Communicator world = Communicator::world();
  EXPECT_EQ(message_of([&] { agree(world, [] { throw BugError("broken"); }); }), "bug: broken");
  EXPECT_EQ(message_of([&] { agree(world, []() -> int { throw 3; }); }), "bug: an exception of unknown type");
  const auto refused = [] {
    throw std::system_error(std::make_error_code(std::errc::permission_denied), "dir");
  };
  EXPECT_EQ(message_of([&] { agree(world, refused); }).substr(0, 5), "user:");
  EXPECT_EQ(message_of([&] { agree(world, [] { throw std::bad_alloc(); }); }).substr(0, 5), "user:");
}

TEST(Host, NumbersThatDiffer) {
  const Communicator world = Communicator::world();
  EXPECT_EQ(different_numbers(world, 3), "");
  const std::string text = different_numbers(world, world.rank() == 0 ? 1 : 2);
  if (world.size() == 1) return;
  EXPECT_TRUE(text.starts_with("1 on rank 0 (host ")) << text;
  EXPECT_NE(text.find(world.size() == 2 ? ", 2 on rank 1 (host " : ", 2 on ranks 1 to "), std::string::npos)
      << text;
}

TEST(Host, ResidentMemoryComesAndGoesAndItsPeakStays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own beside what is touched";
#endif
  constexpr double size = 1 << 26, other = 1 << 23;
  const double before = resident_bytes();
  {
    Buffer<float> touched(static_cast<Index>(size / sizeof(float)));  // an allocator may keep this memory
    EXPECT_NEAR(resident_bytes(), before, other);
    std::fill_n(touched.data(), touched.size(), 1.0F);
    EXPECT_NEAR(resident_bytes(), before + size, other);
  }
  EXPECT_NEAR(resident_bytes(), before, other);
  EXPECT_GE(peak_resident_bytes(), before + size - other);
}

TEST(Reducer, SumsAndCounts) {
  const Communicator world = Communicator::world();
  const int p = world.size();
  MpiReducer reducer(world);
  std::array<double, 3> doubles{1.0, world.rank() + 0.5, -2.0};
  reducer.sum(std::span<double>(doubles));
  EXPECT_EQ(doubles, (std::array<double, 3>{1.0 * p, p * (p - 1) / 2 + 0.5 * p, -2.0 * p}));
  std::array<float, 1> floats{2.0F};
  reducer.sum(std::span<float>(floats));
  EXPECT_EQ(floats[0], 2.0F * static_cast<float>(p));
  std::array<double, 2> ordered{1.0, static_cast<double>(world.rank())};
  reducer.ordered_sum(ordered);
  EXPECT_EQ(ordered, (std::array<double, 2>{1.0 * p, p * (p - 1) / 2.0}));
  reducer.sum(std::span<double>());
  const Traffic expected = p == 1 ? Traffic{} : Traffic{2 + (p - 1), 24 + 4 + 16 * (p - 1)};
  EXPECT_EQ(reducer.sent(), expected);
}

TEST(Reducer, OrderedSumIsInRankOrder) {
  const Communicator world = Communicator::world();
  MpiReducer reducer(world);
  // Large, small, then the large one subtracted: any other order gives another result.
  const auto term = [](int rank) { return rank == 0 ? 1e16 : rank == 2 ? -1e16 : 1.0 + rank; };
  double expected = 0;
  for (int r = 0; r < world.size(); ++r) expected += term(r);
  double value = term(world.rank());
  reducer.ordered_sum(std::span<double>(&value, 1));
  EXPECT_EQ(value, expected);
}

TEST(Reducer, NotANumberWinsEveryMaximum) {
  const Communicator world = Communicator::world();
  MpiReducer reducer(world);
  std::array<double, 3> values{static_cast<double>(world.rank()), -std::numeric_limits<double>::infinity(),
                               world.rank() == world.size() / 2 ? std::nan("") : 100.0};
  reducer.max(values);
  EXPECT_EQ(values[0], world.size() - 1);
  EXPECT_EQ(values[1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(Mailbox, DeliversLettersOfAnySize) {
  const Communicator world = Communicator::world();
  const auto letter = [](int from, int to) {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>((from * 7 + to * 3) % 23));  // some of them are empty
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(
          (static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 17 + i) % 251);
    return bytes;
  };
  for (const std::size_t piece : {std::size_t{1}, std::size_t{4}, std::size_t{1} << 20}) {
    MpiMailbox mailbox(world, piece);
    EXPECT_EQ(mailbox.parts(), world.size());
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<std::vector<std::byte>> letters;
      for (int to = 0; to < world.size(); ++to) letters.push_back(letter(world.rank(), to));
      const auto received = mailbox.swap(std::move(letters));
      ASSERT_EQ(received.size(), static_cast<std::size_t>(world.size()));
      for (int from = 0; from < world.size(); ++from)
        EXPECT_EQ(received[static_cast<std::size_t>(from)], letter(from, world.rank())) << "piece " << piece;
    }
  }
}

TEST(Communicator, PretendedRanksAreAlone) {
  const Communicator comm = Communicator::pretended(9, 12, 4);
  EXPECT_EQ(comm.rank(), 9);
  EXPECT_EQ(comm.size(), 12);
  EXPECT_EQ(ranks_on_host(comm), 4);
  EXPECT_EQ(rank_on_host(comm), 1);
  EXPECT_EQ(hosts_of(comm), 3);
  EXPECT_EQ(hosts_of(Communicator::pretended(0, 9, 4)), 3);
  EXPECT_EQ(ranks_on_host(Communicator::pretended(8, 9, 4)), 1);
  comm.barrier();
  EXPECT_EQ(broadcast(comm, "mine"), "mine");
  agree_same(comm, "text", "it");
  EXPECT_EQ(agree(comm, [] { return 3; }), 3);
  try {
    agree(comm, [] { user_error("wrong"); });
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "wrong");
  }
  MpiReducer reducer(comm);
  double values[] = {1.0, 2.0};
  reducer.sum(values);
  EXPECT_EQ(reducer.sent(), (Traffic{1, 16}));
  reducer.ordered_sum(values);
  EXPECT_EQ(reducer.sent(), (Traffic{1 + 11, 16 + 11 * 16}));
  EXPECT_EQ(values[1], 2.0) << "nobody else puts anything in";
  const ProcessGrid grid(comm, 3);  // 4 row blocks x 3 groups
  EXPECT_EQ(grid.space().rank(), 1);
  EXPECT_EQ(grid.space().size(), 4);
  EXPECT_EQ(grid.group(), 2);
  EXPECT_EQ(grid.groups(), 3);
  EXPECT_TRUE(grid.time().is_pretended());
  EXPECT_THROW(ProcessGrid(comm, 5), UserError);
}

/// A communicator of one rank still knows which ranks share the devices of its host.
TEST(Communicator, ARankAloneKnowsItsPlaceOnTheHost) {
  const Communicator alone = Communicator::self(1, 3);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(ranks_on_host(alone), 3);
  EXPECT_EQ(rank_on_host(alone), 1);
  EXPECT_EQ(hosts_of(alone), 1);
  EXPECT_EQ(ranks_on_host(Communicator::self()), 1);
  EXPECT_THROW((void)Communicator::self(3, 3), BugError);
}

TEST(Communicator, SplitsIntoGroups) {
  const Communicator world = Communicator::world();
  const Communicator half = world.split(world.rank() % 2, -world.rank());
  EXPECT_EQ(half.size(), (world.size() + 1 - world.rank() % 2) / 2);
  EXPECT_EQ(half.rank(), half.size() - 1 - world.rank() / 2);
  EXPECT_EQ(agree(half, [] { return 1; }), 1);
}

}  // namespace
}  // namespace rossby
