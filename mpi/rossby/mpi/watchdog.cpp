#include "rossby/mpi/watchdog.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "rossby/base/signals_blocked.hpp"

namespace rossby {
namespace {

constexpr double defer_to_lower = 10;  // seconds that a lower waiting rank has to report
constexpr double defer_unknown = 2;    // the same per lower rank if nothing is known
constexpr std::size_t ranks_named = 4;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Step and stage in parentheses, "training step 12, writing a state file"; empty without either.
std::string where(const Sighting& sighting) {
  std::string text = sighting.step > 0 ? fmt::format("training step {}", sighting.step) : "";
  if (!sighting.stage.empty()) text += (text.empty() ? "" : ", ") + sighting.stage;
  return text.empty() ? text : " (" + text + ")";
}

}  // namespace

Watchdog::Watchdog(int rank, int size, Ending ending)
    : rank_(rank), size_(size), ending_(std::move(ending)) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    if (rank_ == 0 && board_) board_->remove();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(Options options) {
  const std::lock_guard lock(mutex_);
  const Options before = std::exchange(options_, std::move(options));
  period_ = std::clamp(options_.seconds / 10, 0.02, 1.0);
  if (board_ && place(before) == 0 && before.folder != options_.folder) board_->remove();
  board_.reset();
  if (!options_.folder.empty()) board_ = std::make_unique<WatchBoard>(options_.folder, options_.job, size_);
  if (size_ > 1 && options_.seconds > 0 && !thread_.joinable()) {
    const SignalsBlocked blocked;  // the new thread inherits this signal mask
    thread_ = std::thread([this] { run(); });
  }
  wake_.notify_all();
}

double Watchdog::limit() {
  const std::lock_guard lock(mutex_);
  return options_.seconds;
}

Watchdog::Options Watchdog::options() {
  const std::lock_guard lock(mutex_);
  return options_;
}

int Watchdog::place(const Options& options) const {
  if (options.ranks.empty()) return rank_;
  return static_cast<int>(
      std::count_if(options.ranks.begin(), options.ranks.end(), [this](int rank) { return rank < rank_; }));
}

Sighting Watchdog::look() const {
  Sighting sighting;
  sighting.rank = rank_;
  sighting.moves = moves_.load(std::memory_order_acquire);
  const auto text = [](const char* literal) { return std::string(literal ? literal : ""); };
  sighting.wait = text(wait_.load(std::memory_order_relaxed));
  sighting.stage = text(stage_.load(std::memory_order_relaxed));
  sighting.step = step_.load(std::memory_order_relaxed);
  sighting.since = wall_seconds();
  return sighting;
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  Clock::time_point last = Clock::now();
  while (!ends_) {
    if (options_.seconds > 0)
      wake_.wait_for(lock, std::chrono::duration<double>(period_));
    else
      wake_.wait(lock);
    const Clock::time_point now = Clock::now();
    // At most about the time slept, because a stopped process has not waited meanwhile.
    const double passed = std::min(std::chrono::duration<double>(now - last).count(), 2 * period_);
    last = now;
    if (!ends_ && options_.seconds > 0) tick(passed);
  }
}

void Watchdog::tick(double passed) {
  since_note_ += passed;
  if (moves_.load(std::memory_order_acquire) != seen_.moves) {
    seen_ = look();
    still_ = defer_ = 0;
    deferred_ = false;
    others_.clear();
  } else {
    still_ += passed;
  }
  const double limit = options_.seconds * patience_.load(std::memory_order_relaxed);
  // After its first note, a rank keeps its notes current, so that others see if it stops later.
  const bool due = noted_ ? seen_.moves != noted_moves_ && since_note_ >= limit / 10 : still_ >= limit / 2;
  if (board_ && due) write_board();
  if (seen_.wait.empty() || still_ < limit + defer_ || !may_speak()) return;
  ends_ = true;
  ending_(message());  // keep the file: other ranks report if this fails
}

void Watchdog::write_board() {
  since_note_ = 0;
  noted_moves_ = seen_.moves;
  noted_ = board_->write(seen_) || noted_;
}

/// Reads the others' notes. Once per wait, a rank that may not be the lowest waiting one lets lower ranks
/// report first.
bool Watchdog::may_speak() {
  auto known = board_ ? board_->read() : std::nullopt;
  const bool lower = known && std::any_of(known->begin(), known->end(), [&](const Sighting& other) {
                       return other.rank < rank_ && !other.wait.empty();
                     });
  const int place_here = place(options_);
  const bool defers = !deferred_ && (!known || lower) && place_here > 0;
  if (defers) {
    deferred_ = true;
    defer_ = known ? defer_to_lower : defer_unknown * std::min(place_here, 5);
  }
  if (known) others_ = std::move(*known);
  return !defers;
}

std::string Watchdog::message() const {
  std::vector<int> ranks = options_.ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  const auto name = [&](int rank) {
    const auto r = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    return r < options_.hosts.size() ? fmt::format("rank {} on {}", rank, options_.hosts[r])
                                     : fmt::format("rank {}", rank);
  };
  std::vector<const Sighting*> of_rank(static_cast<std::size_t>(size_), nullptr);
  for (const Sighting& other : others_) of_rank[static_cast<std::size_t>(other.rank)] = &other;
  // Sort by suspicion: silent ranks, then working ranks, then ranks that wait for something earlier.
  std::vector<std::string> silent, working;
  std::vector<const Sighting*> behind;
  for (const int rank : ranks) {
    const Sighting* other = of_rank[static_cast<std::size_t>(rank)];
    if (rank == rank_) continue;
    if (!other)
      silent.push_back(name(rank) + " gives no sign of life");
    else if (other->wait.empty())
      working.push_back(fmt::format("{} has worked for {:.0f} s{}", name(rank),
                                    std::max(0.0, wall_seconds() - other->since), where(*other)));
    else if (other->moves < seen_.moves)
      behind.push_back(other);
  }
  std::vector<std::string> suspects = std::move(silent);
  suspects.insert(suspects.end(), working.begin(), working.end());
  if (suspects.empty()) {
    std::sort(behind.begin(), behind.end(),
              [](const Sighting* a, const Sighting* b) { return a->moves < b->moves; });
    for (const Sighting* other : behind)
      suspects.push_back(
          fmt::format("{} was last seen in {}{}", name(other->rank), other->wait, where(*other)));
  }
  const std::size_t more = suspects.size() > ranks_named ? suspects.size() - ranks_named : 0;
  suspects.resize(suspects.size() - more);
  std::string others =
      fmt::format("{}{}", fmt::join(suspects, ", "), more > 0 ? fmt::format(", and {} more", more) : "");
  if (others_.empty()) others = "the state of the other ranks is not known";
  if (others.empty()) others = "all ranks wait there";
  return fmt::format(
      "{} has waited for {:.0f} s in {}{}; {}; the job ends (parallel.watchdog_seconds = {:g}). If a step "
      "may take that long, raise parallel.watchdog_seconds",
      name(rank_), still_, seen_.wait, where(seen_), others, options_.seconds);
}

void watch(const Communicator& comm, double seconds, const std::string& folder) {
  Watchdog* watchdog = comm.watchdog();
  if (!watchdog || comm.size() == 1) return;
  using Name = std::array<char, 64>;
  Name mine{};
  (void)gethostname(mine.data(), mine.size() - 1);
  std::vector<Name> names(static_cast<std::size_t>(comm.size()));
  const int number = watchdog->rank();
  std::vector<int> ranks(names.size());
  std::uint64_t job = 0;
  if (comm.rank() == 0) {
    std::random_device device;
    job = std::uint64_t{device()} << 32 | device();
  }
  {
    const Wait wait(comm, "the exchange of host names (allgather)");
    MPI_Bcast(&job, 1, MPI_UINT64_T, 0, comm.handle());
    MPI_Allgather(mine.data(), static_cast<int>(sizeof(Name)), MPI_CHAR, names.data(),
                  static_cast<int>(sizeof(Name)), MPI_CHAR, comm.handle());
    MPI_Allgather(&number, 1, MPI_INT, ranks.data(), 1, MPI_INT, comm.handle());
  }
  Watchdog::Options options{seconds, folder, job, {}, std::move(ranks)};
  for (const Name& name : names) options.hosts.emplace_back(name.data());
  watchdog->watch(std::move(options));
}

Watch::Watch(const Communicator& comm, double seconds, const std::string& folder)
    : watchdog_(comm.size() > 1 ? comm.watchdog() : nullptr) {
  if (watchdog_) before_ = watchdog_->options();
  watch(comm, seconds, folder);
}

Watch::~Watch() {
  if (watchdog_) watchdog_->watch(std::move(before_));
}

void end_hung_job(const std::string& message) {
  // Printing and MPI_Abort may hang with the rest.
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    _exit(exit_hung);
  }).detach();
  std::fprintf(stderr, "rossby: %s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, exit_hung);
}

}  // namespace rossby
