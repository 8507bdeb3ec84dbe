#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/tensor/simulated_device.hpp"
#include "rossby/train/asynchronous.hpp"
#include "tests/lib/train/polled_ranks.hpp"

// A small training by asynchronous updates, with threads of this process as ranks.

namespace rossby::asynchronous_ranks {

inline constexpr Index batches = 24;
inline constexpr double learning_rate = 0.05;

inline void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Returns the windows of sub-batch `index` of a group. Some sub-batches have no targets, or no observed
/// ones.
inline Index windows_of(Index index, int group) {
  return (index + group) % 5 == 4 ? 0 : 1 + (index + group) % 3;
}
inline double targets_of(Index index, int group) {
  return index % 7 == 6 ? 0 : static_cast<double>(2 * windows_of(index, group));
}

/// Parameter 0 is replicated and has two values. Parameter 1 has one value per row. No loss contains
/// parameter 2. Block b owns rows 2 b and 2 b + 1.
struct Gradients {
  double loss = 0;
  double shared[2] = {0, 0};
  double rows[2] = {0, 0};
};

/// Gradients of the loss of a block's rows: targets · Σ (shared0 + 2 shared1 + row value − y)².
inline Gradients gradients_of(Index index, int group, int block, const double* shared, const double* rows) {
  Gradients g;
  const Random random(5, "targets");
  for (int i = 0; i < 2; ++i) {
    const auto key = static_cast<std::uint64_t>((index * 31 + group) * 31 + 2 * block + i);
    const double error = shared[0] + 2 * shared[1] + rows[i] - random.normal(key);
    const double weight = targets_of(index, group);
    g.loss += weight * error * error;
    g.shared[0] += weight * 2 * error;
    g.shared[1] += weight * 4 * error;
    g.rows[i] += weight * 2 * error;
  }
  return g;
}

class Fit final : public Task<double> {
 public:
  Fit(int group, int block) : group_(group), block_(block) {
    for (Index i = 0; i < 2; ++i) shared_.value[i] = 0.1, rows_.value[i] = 0.3, unused_.value[i] = 7;
    all_ = {&shared_, &rows_, &unused_};
  }
  std::span<Parameter<double>* const> parameters() override { return all_; }
  Index batches() const override { return asynchronous_ranks::batches; }
  void start_epoch(Index) override {}
  void record(Tape<double>& tape, Index index, Index step, Losses& losses) override {
    versions.push_back(step);
    if (on_record) on_record(index);
    Device* device = tape.exec().device;
    double* shared = shared_.gradient_target();
    double* rows = rows_.gradient_target();
    double* loss = losses.add("squares", 1);
    if (device) loss = device->later(loss);
    // Work in the device's queue may access the device's memory; the host may not.
    const auto work = [this, index, shared, rows, loss, x = shared_.data(device), y = rows_.data(device)] {
      Gradients g = gradients_of(index, share_of_, block_, x, y);
      if (index == not_finite_in) g.loss = g.shared[0] = std::numeric_limits<double>::quiet_NaN();
      *loss += g.loss;
      for (int i = 0; i < 2; ++i) shared[i] += g.shared[i], rows[i] += g.rows[i];
    };
    if (device)
      static_cast<SimulatedDriver&>(device->driver()).enqueue(work);
    else
      work();
  }
  double weight() const override { return 1; }
  double node_steps() const override { return 1; }
  double validate(Tape<double>&) override { return 0; }
  Share share(Index index, int group) const override {
    return {windows_of(index, group), targets_of(index, group)};
  }
  void record_share_of(int group) override { share_of_ = group; }
  std::string_view loss_name() const override { return "squares"; }

  std::function<void(Index index)> on_record;
  Index not_finite_in = -1;
  std::vector<Index> versions;  // versions that sub-batches read

  Parameter<double> shared_{"shared", Placement::replicated, {2}};
  Parameter<double> rows_{"rows", Placement::rows, {1, 2, 1}};
  Parameter<double> unused_{"unused", Placement::replicated, {2}};

 private:
  int group_, block_, share_of_ = -1;
  std::vector<Parameter<double>*> all_;
};

/// All objects of a rank.
struct AsyncRank {
  std::unique_ptr<Device> device;  // simulated; null: the rank trains on the host
  Exec exec;
  Fit task;
  MasterParameters<double> masters;
  Optimiser<double> optimiser;
  PolledRanks::Port all, groups, blocks, workers, world;
  Asynchronous<double> updates;
  Tape<double> tape;
  TrainingState now;
  std::vector<UpdateEvent> events;
  std::function<unsigned()> vote;
  unsigned votes = 0;
  std::string error;

  AsyncRank(int g, int b, int of_groups, int of_blocks, const AsynchronousOptions& options,
            PolledRanks& of_all, PolledRanks& of_rows, PolledRanks& of_group, PolledRanks& of_workers,
            PolledRanks& of_world, bool on_device)
      : device(on_device ? std::make_unique<Device>(std::make_unique<SimulatedDriver>()) : nullptr),
        exec{.backend = on_device ? Backend::simulated : Backend::cpu, .device = device.get()},
        task(g, b),
        masters(task.parameters(), device.get()),
        optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, masters.parameters()),
        all(of_all),
        groups(of_rows),
        blocks(of_group),
        workers(of_workers),
        world(of_world),
        updates(options, {&all, &groups, &blocks, &workers, g, of_groups, b, of_blocks}, task, masters,
                optimiser, world, exec),
        tape(exec) {}

  void run() {
    try {
      votes = updates.run(tape, learning_rate, now, vote, {});
    } catch (const std::exception& e) {
      error = e.what();
    }
    events.insert(events.end(), updates.events().begin(), updates.events().end());
  }
};

/// A grid of groups × blocks. Rank = group · blocks + block.
struct AsyncGrid {
  int of_groups, of_blocks;
  PolledRanks all, world;
  std::deque<PolledRanks> rows, groups, workers;
  std::deque<AsyncRank> ranks;

  AsyncGrid(int g, int b, AsynchronousOptions options = {}, bool on_device = false)
      : of_groups(g), of_blocks(b), all(g * b), world(g * b) {
    options.records = true;
    for (int k = 0; k < b; ++k) rows.emplace_back(g);
    for (int k = 0; k < g; ++k) groups.emplace_back(b), workers.emplace_back(b);
    for (int r = 0; r < g * b; ++r) {
      const auto group = static_cast<std::size_t>(r / b);
      ranks.emplace_back(r / b, r % b, g, b, options, all, rows[static_cast<std::size_t>(r % b)],
                         groups[group], workers[group], world, on_device);
    }
  }
  void run() {
    std::vector<std::thread> threads;
    for (AsyncRank& rank : ranks) threads.emplace_back([&rank] { rank.run(); });
    for (std::thread& thread : threads) thread.join();
  }
  AsyncRank& rank(int group, int block = 0) {
    return ranks[static_cast<std::size_t>(group * of_blocks + block)];
  }
};

}  // namespace rossby::asynchronous_ranks
