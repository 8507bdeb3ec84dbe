#include "rossby/base/prompt_thread.hpp"

#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace rossby {

#if defined(__linux__)
namespace {

/// The kernel's struct sched_attr, which no header of the C library declares.
struct ThreadTurns {
  std::uint32_t size = sizeof(ThreadTurns), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;  // nanoseconds
};

/// Sets the length of this thread's turns; 0: the system's. Returns whether it could.
bool set_turn(std::uint64_t nanoseconds, std::uint64_t* before) {
  ThreadTurns turns;
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof(turns), 0U) != 0 || turns.policy != 0) return false;
  if (before) *before = turns.runtime;
  turns.size = sizeof(turns);
  turns.runtime = nanoseconds;
  return syscall(SYS_sched_setattr, 0, &turns, 0U) == 0;
}

}  // namespace

PromptThread::PromptThread() {
  constexpr std::uint64_t shortest_turn = 100'000;
  slack_ = static_cast<unsigned long>(std::max(0, prctl(PR_GET_TIMERSLACK)));
  (void)prctl(PR_SET_TIMERSLACK, 1UL);
  has_short_turns_ = set_turn(shortest_turn, &turn_);
}

PromptThread::~PromptThread() {
  (void)prctl(PR_SET_TIMERSLACK, slack_);
  if (has_short_turns_) (void)set_turn(turn_, nullptr);
}
#else
PromptThread::PromptThread() = default;
PromptThread::~PromptThread() = default;
#endif

}  // namespace rossby
