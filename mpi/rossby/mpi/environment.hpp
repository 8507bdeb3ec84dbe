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

/// A group of ranks that communicate. Copies share the handle; one that `split` made is freed with its last
/// copy.
class Communicator {
 public:
  /// All ranks of the job, unwatched. Environment must be alive.
  static Communicator world();
  /// Only this rank.
  static Communicator self();
  /// Only this rank, which shares its host with others that are alone, too: number `rank` of `ranks`. They
  /// share its devices.
  static Communicator self(int rank, int ranks);
  /// Rank `rank` of `size` ranks that are not there, `on_host` to a host: for asking what it would do in a
  /// job of that size. Collectives return what this process put in; what would send to other ranks has a
  /// traced port instead (ports.hpp).
  static Communicator pretended(int rank, int size, int on_host);

  /// Collective. Ranks with the same colour form a new communicator, ordered by key, then by rank here. Every
  /// rank gets one (colours are 0 or more). Not of pretended ranks, whose colours nobody knows.
  [[nodiscard]] Communicator split(int color, int key = 0) const;

  /// Collective. The same ranks with a message space of their own.
  [[nodiscard]] Communicator duplicate() const;

  /// The same for calls of another thread than the one that the watchdog watches.
  [[nodiscard]] Communicator for_thread() const;

  /// Collective. The same ranks as those of one run: what comes from it ends as they do (Ending), whatever
  /// other ranks of the job do.
  [[nodiscard]] Communicator for_run() const;

  /// Whether both are of the same ranks in the same order. No communication.
  [[nodiscard]] bool same_ranks(const Communicator& other) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  /// Ranks to a host where they are pretended; 0: this is a real communicator.
  [[nodiscard]] int pretended_on_host() const { return pretended_on_host_; }
  [[nodiscard]] bool is_pretended() const { return pretended_on_host_ > 0; }
  /// This rank's number among those that share its host, and how many they are; 0 of 0: those of the
  /// communicator.
  [[nodiscard]] int alone_rank() const { return alone_rank_; }
  [[nodiscard]] int alone_ranks() const { return alone_ranks_; }
  /// Collective: returns when all ranks have called.
  void barrier() const;
  /// What notices waits that never end; null where the communicator does not come from Environment::world().
  [[nodiscard]] Watchdog* watchdog() const { return watchdog_; }
  /// With whom this rank ends; null where the communicator comes neither from Environment::world() nor
  /// for_run().
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

/// Ranks that end together: those of a run, or of the whole job. An error that all of them have is their
/// caller's to catch. One that a rank has alone, while others wait for what it would have sent, ends the job:
/// MPI has no way to call them back.
class Ending {
 public:
  /// Collective over `comm`.
  Ending(MPI_Comm comm, Watchdog* watchdog);
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending();

  /// Whether all ranks call this within `seconds` of each other: those that an error ends alike do, and one
  /// that fails alone, while others wait for what it would have sent, does not. It waits for no more than
  /// half of the watchdog's limit, and where lower ranks have failed as well for half of that longer, so that
  /// the lowest one says why and ends the job. Once all have come, they have.
  [[nodiscard]] bool all_come(double seconds);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  // of its own: what ranks are in the middle of elsewhere does not meet it
  Watchdog* watchdog_;
  bool came_ = false;
};

/// Which threads of a process may call MPI, as the caller of this library needs it. The library itself calls
/// it from one thread, and with asynchronous updates from two (multiple).
enum class ThreadLevel { funneled, serialized, multiple };

/// What MPI has granted, of these; while Environment lives.
[[nodiscard]] ThreadLevel granted_threads();

/// Starts MPI and PETSc, and ends both when it goes out of scope. One a process, made first in main. PETSc
/// sees neither the command line nor option files and installs no signal handlers. PT-Scotch is held to one
/// thread, without which its partitions differ from run to run (SCOTCH_PTHREAD_NUMBER). An exception that
/// unwinds through it aborts the job, since the other ranks might wait for this one for ever: main catches
/// inside.
class Environment {
 public:
  /// With `insists` the job ends if MPI grants less than `level`; else granted_threads() says what it does.
  explicit Environment(ThreadLevel level = ThreadLevel::funneled, bool insists = true);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  /// All ranks of the job. What comes from it is watched (watchdog.hpp) while this lives.
  [[nodiscard]] Communicator world() const;

 private:
  int exceptions_;
  std::unique_ptr<Watchdog> watchdog_;
  std::shared_ptr<Ending> ending_;
};

/// For an error that all ranks of `comm` have alike, or that one has alone: returns in the first case; in the
/// second one rank says `message` and the job ends (Ending::all_come). While it waits, messages that were on
/// their way arrive: where they go has to be there still. Returns at once where nobody ends together
/// (Communicator::ending).
void end_unless_all_come(const Communicator& comm, std::string_view message, double seconds = 10);

/// The same for a lack of memory; then throws the UserError that says so.
[[noreturn]] void end_out_of_memory(const Communicator& comm);

/// Returns f(), which exchanges between ranks. Where an error is of this rank alone the job ends before what
/// it unwinds takes the memory that values of the others are on their way to. Where all ranks have one, they
/// throw UserError, of too little memory, too.
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

/// Returns f(run), where `run` is of the ranks of `comm` as one run (Communicator::for_run). Collective.
template <class F>
decltype(auto) as_run(const Communicator& comm, const F& f) {
  const Communicator run = comm.for_run();
  return in_exchanges(run, [&]() -> decltype(auto) { return f(run); });
}

/// Of a job of one rank: which variable of a launcher (Slurm, Open MPI, MPICH) says that there are more, and
/// what that means. Empty: none does.
[[nodiscard]] std::string launcher_mismatch(int ranks);

/// "mpirun -n 2 " or "srun -n 2 ": what a command line needs in front of it to start as many ranks by the
/// launcher that started this one. Empty: no launcher did.
[[nodiscard]] std::string launcher_prefix(int ranks);

/// Seconds between the SIGTERM and the SIGKILL that Open MPI's mpirun sends to its ranks when it gets SIGTERM
/// or SIGINT itself (odls_base_sigkill_timeout). Negative: Open MPI's mpirun did not start this rank.
[[nodiscard]] double mpirun_grace_seconds();

/// Whether a message begins with the rank that it is of, "rank 3: ".
[[nodiscard]] bool names_rank(std::string_view message);

/// Prints "rossby: rank R: message" (as it is where it names a rank) and ends all ranks at once with exit
/// code 1. For errors that ranks cannot agree on.
[[noreturn]] void abort_all(std::string_view message);

}  // namespace rossby
