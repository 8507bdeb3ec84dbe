#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace rossby {

/// While it lives the system runs this thread soon after it wakes: exact timers, and short turns, with which
/// it may interrupt a thread that computes. For threads that wait most of the time. Where the system grants
/// less (short turns: Linux before 6.12), the thread wakes later.
class PromptThread {
 public:
  PromptThread();
  ~PromptThread();
  PromptThread(const PromptThread&) = delete;
  PromptThread& operator=(const PromptThread&) = delete;

 private:
  unsigned long slack_ = 0;  // nanoseconds
  std::uint64_t turn_ = 0;   // nanoseconds
  bool has_short_turns_ = false;
};

/// Waits for messages of other ranks and keeps no core busy: looks, sleeps 10 µs, looks, sleeps 20 µs, …, and
/// then 0.1 ms each time.
class Looks {
 public:
  /// Whether `ended()` is true in one of some calls; sleeps if not. MPI handles a message in one call, and
  /// the sum that has waited for it in a later one.
  template <class F>
  bool look(const F& ended) {
    for (int call = 0; call < calls; ++call)
      if (ended()) {
        pause_ = shortest;
        return true;
      }
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_));
    pause_ = std::min(2 * pause_, longest);
    return false;
  }

 private:
  static constexpr int calls = 8;
  static constexpr double shortest = 1e-5, longest = 1e-4;
  double pause_ = shortest;
};

}  // namespace rossby
