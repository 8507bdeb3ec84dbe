#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "rossby/base/stopwatch.hpp"

namespace rossby {
namespace {

TEST(Stopwatch, TellsSecondsSinceItBegan) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  const auto seconds_from = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto begin = Clock::now();
  const Stopwatch watch;
  std::this_thread::sleep_for(milliseconds(30));
  const double passed = watch.seconds();
  EXPECT_GE(passed, 0.030);
  EXPECT_LE(passed, seconds_from(begin));
  Stopwatch second = watch;
  EXPECT_EQ(second.since(watch), 0);
  const auto anew = Clock::now();
  const double lap = second.restart();
  EXPECT_GE(lap, passed);
  EXPECT_DOUBLE_EQ(second.since(watch), lap);
  EXPECT_DOUBLE_EQ(watch.since(second), -lap);
  const double since = second.seconds();
  EXPECT_LE(since, seconds_from(anew)) << "it began anew";
}

}  // namespace
}  // namespace rossby
