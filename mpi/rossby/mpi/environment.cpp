#include "rossby/mpi/environment.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <petscsys.h>
#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

#include "rossby/base/error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

namespace {

Environment* running = nullptr;

}  // namespace

Communicator::Communicator(MPI_Comm handle, bool owned, Watchdog* watchdog)
    : handle_(handle), watchdog_(watchdog) {
  MPI_Comm_rank(handle, &rank_);
  MPI_Comm_size(handle, &size_);
  if (!owned) return;
  owner_ = std::shared_ptr<const void>(static_cast<const void*>(nullptr), [handle](const void*) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    MPI_Comm mine = handle;
    if (!finalized) MPI_Comm_free(&mine);
  });
}

Communicator Communicator::world() {
  return {MPI_COMM_WORLD, false};
}

Communicator Communicator::self() {
  return {MPI_COMM_SELF, false};
}

Communicator Communicator::self(int rank, int ranks) {
  require(0 <= rank && rank < ranks, "a rank is one of those on its host");
  Communicator comm(MPI_COMM_SELF, false);
  comm.alone_rank_ = rank;
  comm.alone_ranks_ = ranks;
  return comm;
}

Communicator Communicator::pretended(int rank, int size, int on_host) {
  require(0 <= rank && rank < size && on_host > 0, "a pretended rank is one of its ranks");
  Communicator comm(MPI_COMM_SELF, false);
  comm.rank_ = rank;
  comm.size_ = size;
  comm.pretended_on_host_ = on_host;
  return comm;
}

Communicator Communicator::split(int color, int key) const {
  require(color >= 0, "a colour is 0 or more");
  require(!is_pretended(), "real ranks are split");
  const Wait wait(*this, "the making of groups (comm split)");
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(handle_, color, key, &part);
  return {part, true, watchdog_};
}

Communicator Communicator::duplicate() const {
  if (is_pretended()) return *this;
  const Wait wait(*this, "the making of a message space (comm dup)");
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(handle_, &copy);
  return {copy, true, watchdog_};
}

void Communicator::barrier() const {
  const Wait wait(*this, "a barrier");
  MPI_Barrier(handle_);
}

Environment::Environment() : exceptions_(std::uncaught_exceptions()) {
  setenv("SCOTCH_PTHREAD_NUMBER", "1", 1);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED)
    abort_all("this MPI library does not allow threads beside the one that calls it");
  const Communicator all = Communicator::world();
  watchdog_ = std::make_unique<Watchdog>(all.rank(), all.size(), end_hung_job);
  MPI_Comm_dup(MPI_COMM_WORLD, &ends_);
  running = this;

  std::string name = "rossby";
  std::string no_signals = "-no_signal_handler";
  std::string no_file = "-skip_petscrc";
  char* words[] = {name.data(), no_signals.data(), no_file.data(), nullptr};
  char** arguments = words;
  int count = 3;
  if (PetscInitialize(&count, &arguments, nullptr, nullptr) != 0) abort_all("PETSc does not start");
  // Error codes come back to the caller, who turns them into one line, instead of a trace on every rank's
  // console.
  if (PetscPushErrorHandler(PetscReturnErrorHandler, nullptr) != 0) abort_all("PETSc does not start");
}

namespace {

/// Open MPI and PMIx unload their plugins while they end, and their progress threads were seen to come back
/// into one (a segmentation fault after all work was done). What is loaded stays mapped instead.
void keep_libraries_mapped() {
#if defined(__linux__)
  std::vector<std::string> names;  // dlopen must not be called from within
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name && *info->dlpi_name)
          static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  for (const std::string& name : names) (void)dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

}  // namespace

Environment::~Environment() {
  if (std::uncaught_exceptions() > exceptions_) abort_all("an error leaves this rank alone");
  const Wait wait(world(), "the end of all ranks (MPI_Finalize)");
  (void)PetscPopErrorHandler();
  (void)PetscFinalize();
  keep_libraries_mapped();
  running = nullptr;
  MPI_Comm_free(&ends_);
  MPI_Finalize();
}

bool Environment::all_come(double seconds) {
  if (came_) return true;
  if (const double limit = watchdog_->limit(); limit > 0) seconds = std::min(seconds, limit / 2);
  const auto begin = std::chrono::steady_clock::now();
  const Communicator all = world();
  const auto hears = [this] {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, ends_, &found, MPI_STATUS_IGNORE);
    return found != 0;
  };
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(ends_, &request);
  bool told = false;
  int there = 0;
  while (MPI_Test(&request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there == 0) {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (passed > seconds && (passed > 1.5 * seconds || !hears())) return false;
    // Not at once: where all come there is nothing to tell.
    if (!told && passed > seconds / 4)
      for (int higher = all.rank() + 1; higher < all.size(); ++higher) {
        MPI_Request message = MPI_REQUEST_NULL;
        MPI_Isend(nullptr, 0, MPI_CHAR, higher, 0, ends_, &message);
        MPI_Request_free(&message);
      }
    told = told || passed > seconds / 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  came_ = there != 0;
  while (came_ && hears()) MPI_Recv(nullptr, 0, MPI_CHAR, MPI_ANY_SOURCE, 0, ends_, MPI_STATUS_IGNORE);
  return came_;
}

void end_unless_all_come(std::string_view message) {
  constexpr double seconds = 10;  // between ranks that leave for the same reason
  if (running && !running->all_come(seconds)) abort_all(message);
}

std::string launcher_mismatch(int ranks) {
  if (ranks != 1) return "";
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text(value);
    long long tasks = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tasks);
    if (error != std::errc{} || end != text.data() + text.size() || tasks < 2) continue;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(library, &length);
    const std::string_view version(library, static_cast<std::size_t>(length));
    return fmt::format(
        "this is one MPI rank, but {} = {}: if {} are meant, start them with mpirun or srun --mpi=pmix of "
        "the MPI "
        "that this program uses ({})",
        name, tasks, tasks, version.substr(0, version.find_first_of(",\n")));
  }
  return "";
}

bool names_rank(std::string_view message) {
  if (!message.starts_with("rank ")) return false;
  const std::size_t end = message.find_first_not_of("0123456789", 5);
  return end != 5 && message.substr(std::min(end, message.size())).starts_with(": ");
}

void abort_all(std::string_view message) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string of = names_rank(message) ? "" : "rank " + std::to_string(rank) + ": ";
  std::fprintf(stderr, "rossby: %s%.*s\n", of.c_str(), static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();  // MPI_Abort does not return; the compiler does not know it
}

}  // namespace rossby
