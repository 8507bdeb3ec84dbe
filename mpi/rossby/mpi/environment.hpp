#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <mpi.h>

#include "rossby/base/error.hpp"

namespace rossby {

class Ending;
class Watchdog;

/// A group of ranks that communicate. Copies share the handle. A handle from `split` is freed with its last
/// copy.
class Communicator {
 public:
  /// All ranks of the job, without watchdog. Environment must be alive.
  static Communicator world();
  /// Only this rank.
  static Communicator self();
  /// Only this rank, as number `rank` of `ranks` separate ranks on its host, which share its devices.
  static Communicator self(int rank, int ranks);
  /// Rank `rank` of `size` pretended ranks, which do not exist, `on_host` per host. It shows what a rank
  /// would do in a job of that size. Collectives return this process's input. Sends to other ranks use a
  /// traced port instead (ports.hpp).
  static Communicator pretended(int rank, int size, int on_host);

  /// Ranks with the same colour form a new communicator, ordered by key, then by rank here. Every rank gets
  /// one (colours are 0 or more). Not for pretended ranks, because their colours are unknown. Collective.
  [[nodiscard]] Communicator split(int color, int key = 0) const;

  /// The same ranks with a separate message space. Collective.
  [[nodiscard]] Communicator duplicate() const;

  /// As duplicate(), for calls from a thread that the watchdog does not watch.
  [[nodiscard]] Communicator for_thread() const;

  /// The same ranks as members of one run: they end together (Ending), independent of the job's other ranks.
  /// Collective.
  [[nodiscard]] Communicator for_run() const;

  /// True if both have the same ranks in the same order. No communication.
  [[nodiscard]] bool same_ranks(const Communicator& other) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  /// Pretended ranks per host; 0: a real communicator.
  [[nodiscard]] int pretended_on_host() const { return pretended_on_host_; }
  [[nodiscard]] bool is_pretended() const { return pretended_on_host_ > 0; }
  /// Index and number of the separate ranks that share this rank's host; 0 of 0: those of the communicator.
  [[nodiscard]] int alone_rank() const { return alone_rank_; }
  [[nodiscard]] int alone_ranks() const { return alone_ranks_; }
  /// Returns when all ranks have called. Collective.
  void barrier() const;
  /// Detects endless waits; null if the communicator does not come from Environment::world().
  [[nodiscard]] Watchdog* watchdog() const { return watchdog_; }
  /// The ranks that end with this one; null if the communicator comes neither from Environment::world() nor
  /// from for_run().
  [[nodiscard]] Ending* ending() const { return ending_.get(); }

 private:
  friend class Environment;
  Communicator(MPI_Comm handle, bool owned, Watchdog* watchdog = nullptr);

  MPI_Comm handle_;
  int rank_ = 0;
  int size_ = 1;
  int pretended_on_host_ = 0;
  int alone_rank_ = 0, alone_ranks_ = 0;
  Watchdog* watchdog_ = nullptr;
  std::shared_ptr<Ending> ending_;
  std::shared_ptr<const void> owner_;
};

/// Ranks that end together: those of a run, or of the whole job. If all of them have an error, their caller
/// catches it. If one rank has an error alone while others wait for its messages, the job ends, because MPI
/// cannot interrupt their waits.
class Ending {
 public:
  /// Collective over `comm`.
  Ending(MPI_Comm comm, Watchdog* watchdog);
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending();

  /// Returns true if all ranks call this within `seconds` of each other. Ranks with a common error do; a rank
  /// that fails alone does not. It waits for at most half of the watchdog's limit. If lower ranks have failed
  /// as well, it waits half of that longer, so that the lowest rank reports the cause and ends the job. Once
  /// true, it stays true.
  [[nodiscard]] bool all_come(double seconds);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  // separate: unaffected by operations in progress elsewhere
  Watchdog* watchdog_;
  bool came_ = false;
};

/// The threads of a process that may call MPI, as required by the caller of this library. The library calls
/// it from one thread, or with asynchronous updates from two (multiple).
enum class ThreadLevel { funneled, serialized, multiple };

/// The level that MPI has granted. Environment must be alive.
[[nodiscard]] ThreadLevel granted_threads();

/// Starts MPI and PETSc, and ends both when it goes out of scope. Only one per process, created first in
/// main. PETSc sees neither the command line nor option files, and installs no signal handlers. PT-Scotch is
/// limited to one thread (SCOTCH_PTHREAD_NUMBER), because its partitions otherwise differ from run to run. An
/// exception that unwinds through it aborts the job, because other ranks might wait forever for this one.
/// main must catch inside its lifetime.
class Environment {
 public:
  /// If MPI grants less than `level`, the job ends with `insists`; otherwise see granted_threads().
  explicit Environment(ThreadLevel level = ThreadLevel::funneled, bool insists = true);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  /// All ranks of the job. The watchdog watches its communicators during this object's lifetime
  /// (watchdog.hpp).
  [[nodiscard]] Communicator world() const;

 private:
  int exceptions_;
  std::unique_ptr<Watchdog> watchdog_;
  std::shared_ptr<Ending> ending_;
};

/// Call after an error that may be common to all ranks of `comm` or of this rank alone. Returns in the first
/// case. In the second case one rank prints `message` and the job ends (Ending::all_come). Messages may
/// arrive during the wait, so their buffers must still exist. Returns at once if no ranks end together
/// (Communicator::ending).
void end_unless_all_come(const Communicator& comm, std::string_view message, double seconds = 10);

/// As above, for a lack of memory. Then throws UserError.
[[noreturn]] void end_out_of_memory(const Communicator& comm);

/// Returns f(), which communicates. If this rank fails alone, the job ends before unwinding frees memory that
/// other ranks' messages still target. If all ranks fail, they throw UserError, also for a lack of memory.
template <class F>
decltype(auto) in_exchanges(const Communicator& comm, const F& f) {
  try {
    return f();
  } catch (const UserError& error) {
    end_unless_all_come(comm, error.what());
    throw;
  } catch (const std::bad_alloc&) {
    end_out_of_memory(comm);
  }
}

/// Returns f(run); `run` has the ranks of `comm` as one run (Communicator::for_run). Collective.
template <class F>
decltype(auto) as_run(const Communicator& comm, const F& f) {
  const Communicator run = comm.for_run();
  return in_exchanges(run, [&]() -> decltype(auto) { return f(run); });
}

/// For a job of one rank: the variable of a launcher (Slurm, Open MPI, MPICH, MVAPICH, Flux, jsrun) that
/// announces more ranks, and what that means. Empty if there is none.
[[nodiscard]] std::string launcher_mismatch(int ranks);

/// Prefix of a command line that starts this many ranks with the launcher of this rank: "mpirun -n 2 " or
/// "srun -n 2 ". Empty without a launcher.
[[nodiscard]] std::string launcher_prefix(int ranks);

/// Seconds between the SIGTERM and the SIGKILL that Open MPI's mpirun sends to its ranks after it gets
/// SIGTERM or SIGINT itself (odls_base_sigkill_timeout). Negative if Open MPI's mpirun did not start this
/// rank.
[[nodiscard]] double mpirun_grace_seconds();

/// True if a message begins with its rank, "rank 3: ".
[[nodiscard]] bool names_rank(std::string_view message);

/// Prints "rossby: rank R: message", or only the message if it names a rank, and ends all ranks at once with
/// exit code 1. For errors that ranks cannot agree on.
[[noreturn]] void abort_all(std::string_view message);

}  // namespace rossby
