#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/watch_board.hpp"

namespace rossby {

/// Exit code of a job that its watchdog ended: a rank waited for the others for too long.
constexpr int exit_hung = 76;

/// Limit of a program that has not read its configuration yet, in seconds; the default of
/// parallel.watchdog_seconds.
constexpr double default_watchdog_seconds = 300;

/// Times the limit that a wait may last while files are read or written, or a graph is partitioned: what one
/// rank does there may take long while the others wait.
constexpr int patience_with_files = 10;

/// Ends a job in which one rank hangs and the others wait for it. The main thread notes what it waits for
/// before each call that waits for other ranks (Wait); a thread looks now and then whether one and the same
/// wait lasts. A rank that computes for longer than the limit while others wait looks the same: the limit has
/// to be above the longest step. Time in which the whole process stands still (suspended jobs) does not
/// count. Values that the main thread notes are atomics of this object; nothing else is shared.
///
/// One rank speaks: the lowest of those that wait. It learns of the others from a file of the run directory
/// (WatchBoard), which is written only where something has lasted for half the limit. Where it cannot, or
/// where the lowest one does not speak, another one does some seconds later.
///
/// One a process. Ranks of several runs in one job are watched run by run (Options::ranks).
class Watchdog {
 public:
  /// What ends the job; called at most once, by the watchdog's thread.
  using Ending = std::function<void(const std::string& message)>;

  Watchdog(int rank, int size, Ending ending);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  struct Options {
    double seconds = 0;              // longest wait; 0: none is watched
    std::string folder;              // where ranks tell each other what they do; empty: nowhere
    std::uint64_t job = 0;           // tells this job's notes from another's
    std::vector<std::string> hosts;  // of each rank
    std::vector<int> ranks = {};     // that wait for each other, by their numbers in the job; empty: all
  };
  /// From now on; replaces what was said before.
  void watch(Options options);
  [[nodiscard]] Options options();
  /// This rank's number in the job.
  [[nodiscard]] int rank() const { return rank_; }

  // The rest is called by the main thread alone. Texts are literals.

  /// Returns what the rank was waiting for around this, for end_wait.
  const char* begin_wait(const char* what) noexcept {
    const char* around = wait_.load(std::memory_order_relaxed);
    if (!around) wait_begin_ = Clock::now();
    wait_.store(what, std::memory_order_relaxed);
    move();
    return around;
  }
  void end_wait(const char* around) noexcept {
    if (!around) waited_ += std::chrono::duration<double>(Clock::now() - wait_begin_).count();
    wait_.store(around, std::memory_order_relaxed);
    move();
  }
  /// Seconds spent in waits so far: for others, and for the library to move what they sent.
  [[nodiscard]] double waited() const noexcept { return waited_; }
  struct Stage {
    const char* text = nullptr;
    int patience = 1;
  };
  Stage begin_stage(Stage stage) noexcept {
    const Stage around{stage_.load(std::memory_order_relaxed), patience_.load(std::memory_order_relaxed)};
    end_stage(stage);
    return around;
  }
  void end_stage(Stage around) noexcept {
    stage_.store(around.text, std::memory_order_relaxed);
    patience_.store(around.patience, std::memory_order_relaxed);
    move();
  }
  /// Seconds after which a wait ends the job; 0: none does.
  [[nodiscard]] double limit();
  /// The training step that comes next, counted from 1.
  void begin_step(Index step) noexcept { step_.store(step, std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  /// Only one thread writes: no need for an atomic addition.
  void move() noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  [[nodiscard]] Sighting look() const;
  /// How many of those that wait for each other have a lower number.
  [[nodiscard]] int place(const Options& options) const;
  void run();
  void tick(double passed);
  void write_board();
  [[nodiscard]] bool may_speak();
  [[nodiscard]] std::string message() const;

  const int rank_;
  const int size_;
  const Ending ending_;

  std::atomic<std::uint64_t> moves_{0};
  std::atomic<const char*> wait_{nullptr};
  std::atomic<const char*> stage_{nullptr};
  std::atomic<int> patience_{1};
  std::atomic<Index> step_{0};

  Clock::time_point wait_begin_;  // the main thread's own
  double waited_ = 0;

  std::mutex mutex_;  // of what follows, and of the thread's life
  std::condition_variable wake_;
  bool ends_ = false;
  Options options_;
  double period_ = 1;  // seconds between two looks
  std::unique_ptr<WatchBoard> board_;
  std::thread thread_;

  // The thread's own.
  Sighting seen_;
  double still_ = 0;               // seconds in which nothing has changed
  double since_note_ = 0;          // seconds since the last note on the board
  bool noted_ = false;             // whether this rank has written on the board,
  std::uint64_t noted_moves_ = 0;  // and when
  double defer_ = 0;               // seconds beyond the limit for which it lets others speak
  bool deferred_ = false;
  std::vector<Sighting> others_;  // read from the board; empty: nothing is known
};

/// While it lives, the rank waits for other ranks in `what`. Costs a few stores.
class Wait {
 public:
  /// One rank alone waits for nobody.
  Wait(const Communicator& comm, const char* what) noexcept
      : watchdog_(comm.size() > 1 ? comm.watchdog() : nullptr) {
    if (watchdog_) around_ = watchdog_->begin_wait(what);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait() {
    if (watchdog_) watchdog_->end_wait(around_);
  }

 private:
  Watchdog* watchdog_;
  const char* around_ = nullptr;
};

/// While it lives, the rank is busy with `what`; `patience` times the limit is granted to its waits.
class Stage {
 public:
  Stage(const Communicator& comm, const char* what, int patience = 1) noexcept : watchdog_(comm.watchdog()) {
    if (watchdog_) around_ = watchdog_->begin_stage({what, patience});
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    if (watchdog_) watchdog_->end_stage(around_);
  }

 private:
  Watchdog* watchdog_;
  Watchdog::Stage around_;
};

/// Collective: from now on a wait of more than `seconds` ends the job (0: none does). `folder`: a directory
/// that all ranks see, where they may leave notes for each other; empty: none. One rank alone is not watched.
void watch(const Communicator& comm, double seconds, const std::string& folder = "");

/// The same while it lives, for the ranks of a run: afterwards waits are watched as before, for other ranks
/// may be waited for that have a longer run.
class Watch {
 public:
  Watch(const Communicator& comm, double seconds, const std::string& folder);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

 private:
  Watchdog* watchdog_;
  Watchdog::Options before_;
};

/// Notes which training step comes next, counted from 1.
inline void begin_step(const Communicator& comm, Index step) {
  if (Watchdog* watchdog = comm.watchdog()) watchdog->begin_step(step);
}

/// Prints the message and ends all ranks with exit_hung; where MPI_Abort hangs, too, this one by itself.
void end_hung_job(const std::string& message);

}  // namespace rossby
