#include <gtest/gtest.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "rossby/base/prompt_thread.hpp"
#include "rossby/base/stopwatch.hpp"

namespace rossby {
namespace {

#if defined(__linux__)
TEST(PromptThread, HasExactTimersWhileItLives) {
  const int before = prctl(PR_GET_TIMERSLACK);
  {
    const PromptThread prompt;
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
  }
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), before);
}
#endif

TEST(Looks, SleepLongerAndLongerUntilSomethingHasEnded) {
  Looks looks;
  int calls = 0;
  const Stopwatch time;
  for (int k = 0; k < 4; ++k) EXPECT_FALSE(looks.look([&] { return ++calls < 0; }));
  EXPECT_GE(time.seconds(), 150e-6) << "10, 20, 40 and 80 µs";
  EXPECT_EQ(calls % 4, 0);
  const int a_look = calls / 4;
  EXPECT_GT(a_look, 1);
  EXPECT_TRUE(looks.look([&] { return ++calls == 5 * a_look; })) << "the last call of a look";
  EXPECT_TRUE(looks.look([] { return true; }));
}

}  // namespace
}  // namespace rossby
