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

/// Exit code of a job ended by its watchdog: a rank waited too long for the others.
constexpr int exit_hung = 76;

/// Limit in seconds before a program has read its configuration; the default of parallel.watchdog_seconds.
constexpr double default_watchdog_seconds = 300;

/// Factor on the limit of waits during file access and graph partitioning, where one rank may work for long
/// while the others wait.
constexpr int patience_with_files = 10;

/// Ends a job in which one rank hangs and the others wait for it. The main thread notes each wait for other
/// ranks before the call (Wait). A watchdog thread checks periodically whether one and the same wait lasts. A
/// rank that computes for longer than the limit while others wait looks the same, so the limit must exceed
/// the longest step. Time in which the whole process is suspended does not count. The main thread's notes are
/// atomics of this object; nothing else is shared.
///
/// The lowest waiting rank reports. It learns about the others from a file in the run directory (WatchBoard),
/// which is written only after half the limit. If the file is unavailable or the lowest rank stays silent,
/// another rank reports some seconds later.
///
/// One per process. Ranks of several runs in one job are watched run by run (Options::ranks).
class Watchdog {
 public:
  /// Ends the job. The watchdog's thread calls it at most once.
  using Ending = std::function<void(const std::string& message)>;

  Watchdog(int rank, int size, Ending ending);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  struct Options {
    double seconds = 0;              // longest wait; 0: no limit
    std::string folder;              // for notes of the ranks to each other; empty: none
    std::uint64_t job = 0;           // distinguishes this job's notes from another's
    std::vector<std::string> hosts;  // by rank
    std::vector<int> ranks = {};     // ranks in the job that wait for each other; empty: all
  };
  /// Watches from now on, with options that replace earlier ones.
  void watch(Options options);
  [[nodiscard]] Options options();
  /// This rank's number in the job.
  [[nodiscard]] int rank() const { return rank_; }

  // Only the main thread may call the remaining functions. Texts are literals.

  /// Begins a wait. Returns the enclosing wait, for end_wait.
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
  /// Seconds spent in waits so far, for other ranks and for the transfer of their messages.
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
  /// Seconds after which a wait ends the job; 0: no limit.
  [[nodiscard]] double limit();
  /// Notes the next training step, counted from 1.
  void begin_step(Index step) noexcept { step_.store(step, std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  /// Only one thread writes, so no atomic addition is needed.
  void move() noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  [[nodiscard]] Sighting look() const;
  /// Number of lower ranks among those that wait for each other.
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

  Clock::time_point wait_begin_;  // main thread only
  double waited_ = 0;

  std::mutex mutex_;  // guards the following, and the thread's lifetime
  std::condition_variable wake_;
  bool ends_ = false;
  Options options_;
  double period_ = 1;  // seconds between two checks
  std::unique_ptr<WatchBoard> board_;
  std::thread thread_;

  // Watchdog thread only.
  Sighting seen_;
  double still_ = 0;               // seconds without a change
  double since_note_ = 0;          // seconds since the last note on the board
  bool noted_ = false;             // this rank has written on the board,
  std::uint64_t noted_moves_ = 0;  // at this count of moves
  double defer_ = 0;               // seconds beyond the limit in which other ranks may report
  bool deferred_ = false;
  std::vector<Sighting> others_;  // from the board; empty: nothing known
};

/// Marks the rank as waiting for other ranks in `what` during its lifetime. Costs a few stores.
class Wait {
 public:
  /// A single rank waits for nobody.
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

/// Marks the rank as busy with `what` during its lifetime. The limit of its waits is multiplied by
/// `patience`.
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

/// From now on a wait of more than `seconds` ends the job (0: no limit). `folder`: a directory that all ranks
/// see, for notes to each other; empty: none. A single rank is not watched. Collective.
void watch(const Communicator& comm, double seconds, const std::string& folder = "");

/// Watches the ranks of a run during its lifetime. Afterwards the earlier options apply again, because longer
/// runs of other ranks may be waited for.
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

/// Notes the next training step, counted from 1.
inline void begin_step(const Communicator& comm, Index step) {
  if (Watchdog* watchdog = comm.watchdog()) watchdog->begin_step(step);
}

/// Prints the message and ends all ranks with exit_hung. If MPI_Abort hangs, too, this rank exits by itself.
void end_hung_job(const std::string& message);

}  // namespace rossby
