#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "rossby/base/prompt_thread.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/run/calibration.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/device_ports.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

/// Returns the seconds of one call of `round`, which all ranks of `comm` make: the slowest rank's median over
/// rows of calls. Several calls in a row keep ranks from starting apart. Rows are short, so that most of them
/// fit between two interruptions by other programs.
std::pair<double, double> time_round(const Communicator& comm, double seconds,
                                     const std::function<void()>& round) {
  constexpr double row_seconds = 3e-4;
  constexpr int rows = 7;  // between two agreements on times
  const auto time = [&](int calls) {
    std::vector<double> times;
    for (int r = 0; r < rows; ++r) {
      comm.barrier();
      const Stopwatch begin;
      for (int c = 0; c < calls; ++c) round();
      times.push_back(begin.seconds() / calls);
    }
    MpiReducer(comm).max(times);
    return times;
  };
  (void)time(1);
  const double shortest = std::ranges::min(time(3));
  const int calls = std::clamp(static_cast<int>(row_seconds / std::max(shortest, 1e-7)), 1, 2000);
  std::vector<double> times;
  for (double taken = 0; taken < seconds || times.size() < 3 * rows;) {
    const std::vector<double> more = time(calls);
    for (const double one : more) taken += one * calls;
    times.insert(times.end(), more.begin(), more.end());
  }
  std::ranges::sort(times);
  const std::size_t half = times.size() / 2, quarter = times.size() / 4;
  return {times[half], (times[half + quarter] - times[quarter]) / 2 / times[half]};
}

/// Where the arrays of a round lie, and what moves them. On a device, too, a round ends when the received
/// data are there.
struct Arrays {
  Device* device = nullptr;  // null: the arrays lie on the host
  Exec exec;                 // of `device`
  bool nccl = false;

  [[nodiscard]] const char* transport() const { return !device ? "host" : nccl ? "nccl" : "staged"; }
  template <class T>
  [[nodiscard]] Buffer<T> buffer(Index count) const {
    if (device) return Buffer<T>(count, *device);
    Buffer<T> values(count);
    std::fill_n(values.data(), count, T(0));
    return values;
  }
  void wait() const {
    if (device) device->wait();
  }
};

/// The results to which each measurement of a round adds.
struct Rounds {
  const Communicator& comm;
  int hosts;
  double seconds;
  const Arrays& arrays;
  MachineProfile& profile;

  void add(const char* kind, const Traffic& traffic, const std::function<void()>& round) {
    const auto [median, spread] = time_round(comm, seconds, [&] {
      round();
      arrays.wait();
    });
    profile.messages.push_back({kind, comm.size(), hosts, static_cast<double>(traffic.messages),
                                static_cast<double>(traffic.bytes), median, spread, arrays.transport()});
  }
};

void time_exchange(Rounds& rounds, Exchange& exchange, const char* forward, const char* backward,
                   Index cols) {
  auto owned = rounds.arrays.buffer<float>(exchange.owned() * cols);
  auto ghost = rounds.arrays.buffer<float>(exchange.ghosts() * cols);
  const NodeView<float> mine(owned.data(), exchange.owned(), cols, 1),
      theirs(ghost.data(), exchange.ghosts(), cols, 1);
  const Index row_bytes = cols * static_cast<Index>(sizeof(float));
  rounds.add(forward, exchange.gather_cost(row_bytes),
             [&] { exchange.gather(NodeView<const float>(mine), theirs); });
  rounds.add(backward, exchange.scatter_cost(row_bytes),
             [&] { exchange.scatter_add(NodeView<const float>(theirs), mine); });
}

/// Returns sizes from `least` to `most`, each eight times the last, with halfway points: times are seldom
/// linear.
std::vector<Index> sizes_between(Index least, Index most) {
  std::vector<Index> sizes;
  for (Index size = least; size <= most; size *= 8) {
    sizes.push_back(size);
    if (size < most) sizes.push_back(3 * size);
  }
  return sizes;
}

/// Times the host's exchange, or a device's exchange through the host.
void time_widths(Rounds& rounds, Exchange& exchange, const RowPartition& partition, const GhostList& ghosts,
                 std::pair<const char*, const char*> kinds, bool quick) {
  const auto time = [&](Exchange& of) {
    for (const Index cols : quick ? std::vector<Index>{1, 8} : sizes_between(1, 4096))
      time_exchange(rounds, of, kinds.first, kinds.second, cols);
  };
  const Arrays& arrays = rounds.arrays;
  if (!arrays.device) return time(exchange);
  MpiReducer reducer(rounds.comm);
  DevicePorts ports(rounds.comm, *arrays.device, arrays.exec, arrays.nccl, exchange, reducer, partition,
                    ghosts);
  time(ports.exchange());
}

void time_halos(Rounds& rounds, bool quick) {
  constexpr Index rows = 256;
  const Communicator& comm = rounds.comm;
  const RowPartition partition = RowPartition::blocks(rows * comm.size(), comm.size());
  for (int messages = 1; messages < comm.size() && messages <= 8; messages *= 2) {
    GhostList ghosts;
    for (int other = 0; other < comm.size(); ++other) {
      const int ahead = (other - comm.rank() + comm.size()) % comm.size();
      if (ahead == 0 || ahead > messages) continue;
      for (Index q = 0; q < rows; ++q) ghosts.push_back(Position{other * rows + q});
    }
    NeighbourExchange exchange(comm, partition, comm.rank(), ghosts);
    time_widths(rounds, exchange, partition, ghosts, {"gather", "scatter_add"}, quick);
  }
  GhostList others;
  for (int other = 0; other < comm.size(); ++other)
    for (Index q = 0; q < rows && other != comm.rank(); ++q) others.push_back(Position{other * rows + q});
  AllgatherExchange all(comm, partition, comm.rank());
  time_widths(rounds, all, partition, others, {"allgather", "reduce_scatter"}, quick);
}

void time_sums(Rounds& rounds, bool quick) {
  MpiReducer reducer(rounds.comm);
  const Arrays& arrays = rounds.arrays;
  std::optional<DeviceSums> sums;  // of gradients that all ranks hold
  if (arrays.device) sums.emplace(rounds.comm, *arrays.device, arrays.nccl, reducer);
  for (const Index count : quick ? std::vector<Index>{4, 128} : sizes_between(16, 524288)) {
    const auto bytes = count * static_cast<Index>(sums ? sizeof(float) : sizeof(double));
    auto values = arrays.buffer<float>(sums ? count : 0);
    std::vector<double> of_host(static_cast<std::size_t>(sums ? 0 : count), 1.0);
    rounds.add("allreduce", {1, bytes},
               [&] { sums ? sums->reducer().sum(values.span()) : reducer.sum(of_host); });
  }
}

/// Times sums that a rank polls, as the threads of asynchronous updates do.
void time_looked_at_sums(Rounds& rounds, bool quick) {
  if (rounds.arrays.device) return;
  const PromptThread prompt;
  MpiReducer reducer(rounds.comm);
  Looks looks;
  for (const Index count : {64, 1024, 8192, 65536, 524288}) {
    if (quick && count > 65536) break;
    std::vector<double> values(static_cast<std::size_t>(count), 0.0);
    rounds.add("looked_at_sum", {1, count * static_cast<Index>(sizeof(double))}, [&] {
      reducer.sum_begin(std::span<double>(values));
      while (!looks.look([&] { return reducer.sum_done(); })) {
      }
    });
  }
}

void measure_with(const Communicator& comm, const CalibrationOptions& options, const Arrays& arrays,
                  MachineProfile& profile) {
  for (int ranks = 2; comm.size() > 1; ranks = std::min(2 * ranks, comm.size())) {
    const bool in = comm.rank() < ranks;
    const Communicator some = comm.split(in ? 0 : 1, comm.rank());
    if (in) {
      Rounds rounds{some, hosts_of(some), options.quick ? 0.002 : 0.1, arrays, profile};
      time_halos(rounds, options.quick);
      time_sums(rounds, options.quick);
      time_looked_at_sums(rounds, options.quick);
    }
    comm.barrier();
    if (ranks == comm.size()) break;
  }
}

}  // namespace

void measure_messages(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile) {
  const std::vector<std::string> sets{"parallel.device=" + options.device};
  const DeviceChoice choice = choose_device(comm, Config().with(sets));
  Arrays arrays{choice.device.get(), Exec{}, false};
  arrays.exec.backend = choice.backend;
  arrays.exec.device = choice.device.get();
  measure_with(comm, options, arrays, profile);
  arrays.nccl = choice.nccl;
  if (arrays.nccl) measure_with(comm, options, arrays, profile);
}

}  // namespace rossby
