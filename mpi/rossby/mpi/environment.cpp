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
#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

#include "rossby/base/error.hpp"
#include "rossby/mpi/petsc_library.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

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
  Communicator made(part, true, watchdog_);
  made.ending_ = ending_;
  return made;
}

Communicator Communicator::duplicate() const {
  if (is_pretended()) return *this;
  const Wait wait(*this, "the making of a message space (comm dup)");
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(handle_, &copy);
  Communicator made(copy, true, watchdog_);
  made.ending_ = ending_;
  return made;
}

Communicator Communicator::for_thread() const {
  Communicator made = duplicate();
  made.watchdog_ = nullptr;
  return made;
}

Communicator Communicator::for_run() const {
  if (is_pretended()) return *this;
  const Wait wait(*this, "the making of a run's message space (comm dup)");
  Communicator made = *this;
  made.ending_ = std::make_shared<Ending>(handle_, watchdog_);
  return made;
}

bool Communicator::same_ranks(const Communicator& other) const {
  if (is_pretended() || other.is_pretended()) return rank_ == other.rank_ && size_ == other.size_;
  int same = MPI_UNEQUAL;
  MPI_Comm_compare(handle_, other.handle_, &same);
  return same == MPI_IDENT || same == MPI_CONGRUENT;
}

void Communicator::barrier() const {
  const Wait wait(*this, "a barrier");
  MPI_Barrier(handle_);
}

namespace {

int mpi_level(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::funneled:
      return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized:
      return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple:
      return MPI_THREAD_MULTIPLE;
  }
  return MPI_THREAD_FUNNELED;
}

}  // namespace

ThreadLevel granted_threads() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided >= MPI_THREAD_MULTIPLE) return ThreadLevel::multiple;
  return provided >= MPI_THREAD_SERIALIZED ? ThreadLevel::serialized : ThreadLevel::funneled;
}

Environment::Environment(ThreadLevel level, bool insists) : exceptions_(std::uncaught_exceptions()) {
  setenv("SCOTCH_PTHREAD_NUMBER", "1", 1);
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);  // no daemon to spawn ranks, of which there are none
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, mpi_level(level), &provided);
  if (provided < MPI_THREAD_FUNNELED)
    abort_all(
        "this MPI library does not allow other threads beside the calling thread. Use an MPI library with "
        "MPI_THREAD_FUNNELED");
  if (insists && provided < mpi_level(level))
    abort_all(
        "this MPI library does not allow calls from several threads. Use an MPI library with "
        "MPI_THREAD_MULTIPLE");
  const Communicator all = Communicator::world();
  watchdog_ = std::make_unique<Watchdog>(all.rank(), all.size(), end_hung_job);
  ending_ = std::make_shared<Ending>(MPI_COMM_WORLD, watchdog_.get());
}

namespace {

/// Open MPI and PMIx unload their plugins when they end. Their progress threads were seen to return into an
/// unloaded plugin (a segmentation fault after all work was done). Loaded libraries therefore stay mapped.
void keep_libraries_mapped() {
#if defined(__linux__)
  std::vector<std::string> names;  // collected first, because dl_iterate_phdr's callback must not call dlopen
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
  if (std::uncaught_exceptions() > exceptions_) abort_all("an error has occurred on this rank alone");
  const Wait wait(world(), "the end of all ranks (MPI_Finalize)");
  end_petsc();
  keep_libraries_mapped();
  ending_.reset();
  MPI_Finalize();
}

Communicator Environment::world() const {
  Communicator all(MPI_COMM_WORLD, false, watchdog_.get());
  all.ending_ = ending_;
  return all;
}

Ending::Ending(MPI_Comm comm, Watchdog* watchdog) : watchdog_(watchdog) {
  MPI_Comm_dup(comm, &comm_);
}

Ending::~Ending() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
}

bool Ending::all_come(double seconds) {
  if (came_) return true;
  if (const double limit = watchdog_ ? watchdog_->limit() : 0; limit > 0)
    seconds = std::min(seconds, limit / 2);
  const auto begin = std::chrono::steady_clock::now();
  int rank = 0, size = 1;
  MPI_Comm_rank(comm_, &rank);
  MPI_Comm_size(comm_, &size);
  const auto hears = [this] {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &found, MPI_STATUS_IGNORE);
    return found != 0;
  };
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &request);
  bool told = false;
  int there = 0;
  while (MPI_Test(&request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there == 0) {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (passed > seconds && (passed > 1.5 * seconds || !hears())) return false;
    // Not at once: if all ranks come, there is nothing to report.
    if (!told && passed > seconds / 4)
      for (int higher = rank + 1; higher < size; ++higher) {
        MPI_Request message = MPI_REQUEST_NULL;
        MPI_Isend(nullptr, 0, MPI_CHAR, higher, 0, comm_, &message);
        MPI_Request_free(&message);
      }
    told = told || passed > seconds / 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  came_ = there != 0;
  if (!came_) return false;
  MPI_Barrier(comm_);  // messages of waiting ranks have arrived, so none is left when comm_ is freed
  while (hears()) MPI_Recv(nullptr, 0, MPI_CHAR, MPI_ANY_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
  return true;
}

void end_unless_all_come(const Communicator& comm, std::string_view message, double seconds) {
  if (Ending* ending = comm.ending(); ending && !ending->all_come(seconds)) abort_all(message);
}

void end_out_of_memory(const Communicator& comm) {
  constexpr const char* message = "out of memory. Use more ranks or a smaller problem";
  constexpr double seconds = 3;  // ranks that lack memory fail in the same call
  end_unless_all_come(comm, message, seconds);
  throw UserError(message);
}

std::string launcher_mismatch(int ranks) {
  if (ranks != 1) return "";
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE",
                           "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}) {
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
        "this is one MPI rank, but {} = {}: if you want {} ranks, start the program with mpirun or srun "
        "--mpi=pmix of the MPI that this program uses ({})",
        name, tasks, tasks, version.substr(0, version.find_first_of(",\n")));
  }
  return "";
}

namespace {

/// True under mpirun of Open MPI 4, which passes its ranks their command; srun does not.
bool by_mpirun() {
  return std::getenv("OMPI_COMMAND") != nullptr;
}

}  // namespace

std::string launcher_prefix(int ranks) {
  if (by_mpirun()) return fmt::format("mpirun -n {} ", ranks);
  return std::getenv("SLURM_STEP_ID") != nullptr ? fmt::format("srun -n {} ", ranks) : "";
}

double mpirun_grace_seconds() {
  if (!by_mpirun()) return -1;
  const char* asked = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  return asked != nullptr ? std::max(0.0, std::atof(asked)) : 1;
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
  std::abort();  // MPI_Abort does not return, but is not declared so
}

}  // namespace rossby
