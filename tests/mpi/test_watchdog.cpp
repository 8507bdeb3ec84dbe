#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "rossby/mpi/watch_board.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Collects the messages of the watchdogs of pretended ranks in one process, and owns their shared folder.
class WatchdogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "rossby_watchdog_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code code;
    std::filesystem::remove_all(folder_, code);
  }

  std::unique_ptr<Watchdog> rank(int rank, double seconds, bool with_folder = true, int size = 3) {
    auto dog = std::make_unique<Watchdog>(rank, size, [this, rank](const std::string& message) {
      const std::lock_guard lock(mutex_);
      said_.push_back(std::to_string(rank) + ": " + message);
    });
    Watchdog::Options options{seconds, with_folder ? folder_ : "", 7, {}};
    for (int r = 0; r < size; ++r) options.hosts.push_back("host" + std::to_string(r));
    dog->watch(std::move(options));
    return dog;
  }

  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  /// Waits for the first message, and a while longer for messages that should not come.
  std::vector<std::string> wait_for_word(double limit = 20) {
    for (double t = 0; t < limit && said().empty(); t += 0.02) pause(0.02);
    pause(0.5);
    return said();
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::string folder_;

 private:
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(WatchdogTest, LowestWaitingRankNamesTheWaitAndTheSilentRank) {
  auto first = rank(0, 0.4);
  const auto second = rank(1, 0.4);
  for (Watchdog* dog : {first.get(), second.get()}) {
    dog->begin_step(12);
    (void)dog->begin_wait("a sum");
  }
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "0: rank 0 on host0 has waited for ")) << words[0];
  EXPECT_TRUE(has(words[0], "s in a sum (training step 12); rank 2 on host2 gives no sign of life; "))
      << words[0];
  EXPECT_TRUE(has(words[0], "parallel.watchdog_seconds = 0.4")) << words[0];
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/.watchdog"));
  first.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/.watchdog")) << "the file goes with the job";
}

TEST_F(WatchdogTest, RankThatWorksIsNamedWithWhatItDoes) {
  const auto first = rank(0, 0.4);
  const auto second = rank(1, 0.4);
  const auto third = rank(2, 0.4);
  third->begin_step(11);
  (void)third->begin_stage({"writing a state file", 1});
  (void)first->begin_wait("a sum");
  (void)second->begin_wait("a sum");
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "rank 2 on host2 has worked for ")) << words[0];
  EXPECT_TRUE(has(words[0], "s (training step 11, writing a state file); ")) << words[0];
  EXPECT_FALSE(has(words[0], "rank 1")) << words[0];
}

TEST_F(WatchdogTest, RankThatWaitsForSomethingEarlierIsNamed) {
  const auto first = rank(0, 0.5, true, 2);
  const auto second = rank(1, 0.5, true, 2);
  for (int i = 0; i < 3; ++i) first->end_wait(first->begin_wait("a halo exchange"));
  (void)second->begin_wait("a halo exchange");
  (void)first->begin_wait("a sum");
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "; rank 1 on host1 was last seen in a halo exchange; ")) << words[0];
}

TEST_F(WatchdogTest, AllRanksInOneWaitAreNoRanksFault) {
  const auto first = rank(0, 0.4, true, 2);
  const auto second = rank(1, 0.4, true, 2);
  (void)first->begin_wait("a sum");
  (void)second->begin_wait("a sum");
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "; all ranks wait there; ")) << words[0];
}

TEST_F(WatchdogTest, WithoutASharedFolderOneRankSpeaks) {
  const auto first = rank(0, 0.4, false);
  const auto second = rank(1, 0.4, false);
  (void)first->begin_wait("a sum");
  (void)second->begin_wait("a sum");
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "0: rank 0 on host0")) << words[0];
  EXPECT_TRUE(has(words[0], "the state of the other ranks is not known")) << words[0];
}

TEST_F(WatchdogTest, AnotherRankSpeaksWhereTheFirstOneCannot) {
  const auto second = rank(1, 0.2, false);
  (void)second->begin_wait("a sum");
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "1: rank 1 on host1 has waited for 2 s")) << words[0];
}

TEST_F(WatchdogTest, WaitsThatEndAndRanksThatWorkAreLeftAlone) {
  const auto first = rank(0, 0.5);
  const auto second = rank(1, 0.5);
  const auto third = rank(2, 0.5);  // works all the time
  for (int i = 0; i < 8; ++i) {
    const char* around = first->begin_wait("a sum");
    pause(0.2);
    first->end_wait(around);
  }
  const Watchdog::Stage before = second->begin_stage({"reading", 10});
  (void)second->begin_wait("a sum");
  pause(1.5);
  EXPECT_TRUE(said().empty()) << said()[0];
  second->end_stage(before);  // the earlier patience applies again: the wait counts
  EXPECT_EQ(wait_for_word().size(), 1U);
}

TEST_F(WatchdogTest, OffAndOneRankAlone) {
  const auto off = rank(0, 0);
  const auto alone = rank(0, 0.1, true, 1);
  (void)off->begin_wait("a sum");
  (void)alone->begin_wait("a sum");
  pause(0.6);
  EXPECT_TRUE(said().empty());
  off->watch({0.1, "", 7, {}});  // the limit may be set later
  EXPECT_EQ(wait_for_word().size(), 1U);
}

TEST_F(WatchdogTest, InnerWaitsGiveBackTheOuterOne) {
  const auto dog = rank(0, 0.3, true, 2);
  (void)dog->begin_wait("the outer one");
  dog->end_wait(dog->begin_wait("the inner one"));
  const auto words = wait_for_word();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(has(words[0], "s in the outer one;")) << words[0];
}

TEST_F(WatchdogTest, BoardTellsJobsApartAndForgivesDamage) {
  const WatchBoard board(folder_, 0xFFFFFFFFFFFFFFFFULL, 5);
  EXPECT_FALSE(board.read().has_value());
  EXPECT_TRUE(board.write({3, 41, "a sum", "", 9, 12.5}));
  EXPECT_TRUE(board.write({1, 40, "", "reading the series", 0, 1e9}));
  const auto found = board.read();
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].rank, 1);
  EXPECT_EQ((*found)[0].stage, "reading the series");
  EXPECT_EQ((*found)[1].rank, 3);
  EXPECT_EQ((*found)[1].wait, "a sum");
  EXPECT_EQ((*found)[1].moves, 41U);
  EXPECT_EQ((*found)[1].step, 9);
  EXPECT_EQ((*found)[1].since, 12.5);
  EXPECT_TRUE(WatchBoard(folder_, 6, 5).read()->empty()) << "another job's";
  {
    std::ofstream file(folder_ + "/.watchdog", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 * 256 + 5);
    file << "\t\t\t\xff\n";
  }
  ASSERT_EQ(board.read()->size(), 1U);
  board.remove();
  EXPECT_FALSE(board.read().has_value());
  EXPECT_FALSE(WatchBoard(folder_ + "/none", 6, 5).write({}));
}

}  // namespace
}  // namespace rossby
