#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/plan/step_graph.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/tensor/simulated_device.hpp"
#include "rossby/train/stnn_task.hpp"

// The costs of a traced step equal those of a computed one, whether the trace computes or not.

namespace rossby {
namespace {

enum class Kind { refine, given_low_rank, discover, wide, wide_momentum };

constexpr Index train_steps = 12;

/// Settings of a validation.
struct Validation {
  Index steps = 2;
  StnnTaskOptions options;
};

/// Calls f with the training of an STNN on 23 nodes in a row, over a device or (null) the host.
template <class F>
auto with_training(Kind kind, Device* device, const F& f, const Validation& validation = {}) {
  constexpr Index n = 23;
  const Index steps = train_steps + validation.steps;
  const RowPartition partition = RowPartition::blocks(n, 1);
  OneRankExchange exchange(n);
  OneRankReducer reducer;
  Series series(steps, n, 2);
  for (Index q = 0; q < series.values.size(); ++q)
    series.values[q] = q % 11 == 3 ? NAN : std::sin(0.3F * static_cast<float>(q));
  const Scaler scaler(n, 2);
  const Split split = make_split(
      steps,
      {.train = std::to_string(train_steps), .validation = std::to_string(validation.steps), .test = "0"});
  auto relations = std::make_unique<Relations<float>>(partition, 0);
  Grid grid{1, n, {}, false};
  for (Index i = 0; i < n; ++i) grid.node_of_cell.push_back(i);
  GlobalEdges edges = grid_neighbours(grid, GridRelations::directional, partition, 0);
  if (kind == Kind::refine) relations->add_refine(std::move(edges), 0.5);
  if (kind == Kind::given_low_rank) {
    relations->add_given(std::move(edges));
    relations->add_low_rank(3);
  }
  if (kind == Kind::discover) relations->add_discover(0.02);
  // Rows wide enough to join several updates; momentum with decay prevents it.
  const bool wide = kind == Kind::wide || kind == Kind::wide_momentum;
  if (wide) relations->add_given(std::move(edges));
  relations->finish(exchange, reducer);
  StnnOptions options;
  options.steps = steps;
  options.features = 2;
  options.latent = wide ? 96 : 3;
  options.layers = 2;
  options.hidden = 5;
  options.l1_rel = options.l2_z = 1e-3;
  std::vector<GlobalRow> rows;
  for (Index i = 0; i < n; ++i) rows.emplace_back(i);
  Stnn<float> model(options, std::move(relations), rows, nullptr);
  BatchOptions batches;
  batches.slab_steps = wide ? 1 : 4;
  StnnTask<float> task(validation.options, batches, model, series, scaler, split, partition, 0, reducer);
  if (wide)
    for (Parameter<float>* parameter : model.parameters()) parameter->decay = 1e-2;
  std::vector<Device::Copy> kept;
  if (device) {
    kept = model.relations().bank().keep_on(*device);
    kept.push_back(device->keep(series.values.span()));
  }
  Optimiser<float> optimiser({.beta1 = kind == Kind::wide ? 0 : 0.9, .fuse = true}, model.parameters(),
                             device);
  const Exec exec = device ? Exec{Backend::simulated, 1, widest_isa(), device} : Exec{};
  return f(task, optimiser, reducer, exec);
}

StepGraph trace(Kind kind, Device* device) {
  return with_training(kind, device, [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
    StepGraph graph = trace_steps<float>(task, optimiser, reducer, 1.0, exec, {});
    graph.model = "stnn";
    return graph;
  });
}

StepOps ops_of(Kind kind, Device* device, double clip = 1) {
  return with_training(kind, device, [clip](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
    return trace_ops<float>(task, optimiser, reducer, clip, exec, {});
  });
}

void expect_equal(const Cost& a, const Cost& b, const std::string& what) {
  EXPECT_EQ(a.flops, b.flops) << what;
  EXPECT_EQ(a.bytes, b.bytes) << what;
}

TEST(StepGraph, AnIdleDeviceTracesWhatTheHostComputes) {
  for (const Kind kind : {Kind::refine, Kind::given_low_rank, Kind::discover}) {
    Device idle(SimulatedDriver::idle());
    const StepGraph host = trace(kind, nullptr), there = trace(kind, &idle);
    EXPECT_EQ(host.steps, 2) << "a batch of each pass";
    ASSERT_EQ(host.blocks.size(), there.blocks.size());
    for (std::size_t b = 0; b < host.blocks.size(); ++b) {
      EXPECT_EQ(host.blocks[b].name, there.blocks[b].name);
      EXPECT_EQ(host.blocks[b].calls, there.blocks[b].calls);
      EXPECT_EQ(host.blocks[b].parameters, there.blocks[b].parameters);
      expect_equal(host.blocks[b].forward, there.blocks[b].forward, host.blocks[b].name);
      expect_equal(host.blocks[b].backward, there.blocks[b].backward, host.blocks[b].name);
    }
    ASSERT_EQ(host.edges.size(), there.edges.size());
    for (std::size_t e = 0; e < host.edges.size(); ++e) EXPECT_EQ(host.edges[e].bytes, there.edges[e].bytes);
    ASSERT_EQ(host.ops.size(), there.ops.size());
    for (std::size_t o = 0; o < host.ops.size(); ++o) {
      EXPECT_EQ(host.ops[o].calls, there.ops[o].calls);
      expect_equal(host.ops[o].cost, there.ops[o].cost, host.ops[o].name);
    }
    EXPECT_GT(there.device_bytes, there.parameter_bytes);
    EXPECT_EQ(host.device_bytes, 0);
  }
}

TEST(StepOps, KnowWhetherStepsRunAheadOfADevice) {
  const auto reductions = [](const StepOps& steps) {
    Index calls = 0;
    for (const TracedOp& op : steps.ops)
      if (op.name == "reduction") calls += op.calls;
    return static_cast<double>(calls) / static_cast<double>(steps.steps);
  };
  for (const auto purpose : {SimulatedDriver::For::host, SimulatedDriver::For::device})
    for (const double clip : {0.0, 1.0})
      for (const Kind kind : {Kind::refine, Kind::discover}) {
        Device idle(SimulatedDriver::idle(purpose));
        const StepOps steps = ops_of(kind, &idle, clip);
        // Steps wait for a fused relation's part of the loss: half of all steps.
        const bool ahead = purpose == SimulatedDriver::For::device && clip == 0;
        const double each = !ahead ? 1 : kind == Kind::discover ? 0.5 : 0;
        EXPECT_EQ(steps.device_waits, each);
        EXPECT_EQ(reductions(steps), each);
      }
}

/// Calls of each kind, in any order.
std::multiset<std::tuple<std::string, Index, Index, Index, double, double, Index>> kinds_of(
    const std::vector<TracedOp>& ops) {
  std::multiset<std::tuple<std::string, Index, Index, Index, double, double, Index>> all;
  for (const TracedOp& op : ops)
    all.emplace(op.name, op.made.rows, op.made.cols, op.made.channels, op.cost.flops, op.cost.bytes,
                op.calls);
  return all;
}

// Validations from grouped origins, from one origin after the learned steps, and of a rollout.
TEST(StepOps, CountTheCallsOfAValidation) {
  const Validation few{12, {.horizons = 5}}, many{80, {.horizons = 3}}, rollout{9, {.rollout = true}};
  for (const Kind kind : {Kind::refine, Kind::discover})
    for (const Validation& validation : {few, many, rollout}) {
      const auto made = with_training(
          kind, nullptr,
          [](auto& task, auto&, Reducer&, const Exec& exec) {
            Tape<float> tape(exec);
            BlockTrace calls;
            tape.set_trace(&calls);
            EXPECT_TRUE(std::isfinite(task.validate(tape)));
            return calls.ops();
          },
          validation);
      Device idle(SimulatedDriver::idle());
      std::vector<TracedOp> told = with_training(
          kind, &idle,
          [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
            return trace_ops<float>(task, optimiser, reducer, 0, exec, {}, {.sent = {}, .validates = true})
                .validation;
          },
          validation);
      ASSERT_FALSE(told.empty());
      EXPECT_EQ(told.front().name, "catch_up") << "rows that were not in the last steps";
      EXPECT_GT(told.front().cost.bytes, 0);
      told.erase(told.begin());
      EXPECT_EQ(kinds_of(told), kinds_of(made));
    }
}

TEST(StepOps, AnIdleDeviceTakesTheMemoryOfAValidation) {
  for (const Kind kind : {Kind::refine, Kind::given_low_rank, Kind::discover}) {
    const auto taken = [&](Device* device) {
      return with_training(
          kind, device,
          [&](auto& task, auto&, Reducer&, const Exec& exec) {
            Tape<float> tape(exec);
            device ? task.trace_validation(tape, [](Index) {}) : (void)task.validate(tape);
            return tape.memory().peak_bytes();
          },
          Validation{80, {.horizons = 3}});
    };
    Device idle(SimulatedDriver::idle());
    EXPECT_EQ(taken(&idle), taken(nullptr));
  }
}

TEST(StepOps, APartThatIsTooShortIsNotValidated) {
  Device idle(SimulatedDriver::idle());
  const StepOps ops = with_training(
      Kind::refine, &idle,
      [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
        return trace_ops<float>(task, optimiser, reducer, 0, exec, {}, {.sent = {}, .validates = true});
      },
      Validation{2, {.horizons = 5}});
  EXPECT_FALSE(ops.ops.empty());
  EXPECT_TRUE(ops.validation.empty());
}

TEST(StepOps, RehearseCallsThatAValidationMakes) {
  const Validation validation{80, {.horizons = 12}};
  const auto named = [&](bool rehearsed) {
    return with_training(
        Kind::refine, nullptr,
        [&](auto& task, auto&, Reducer&, const Exec& exec) {
          Tape<float> tape(exec);
          BlockTrace calls;
          tape.set_trace(&calls);
          rehearsed ? task.rehearse_validation(tape) : (void)task.validate(tape);
          std::map<std::string, Index> names;
          for (const TracedOp& op : calls.ops()) names[op.name] += op.calls;
          return names;
        },
        validation);
  };
  const auto all = named(false), some = named(true);
  ASSERT_EQ(some.size(), all.size());
  for (const auto& [name, calls] : some) {
    EXPECT_GT(calls, 0) << name;
    EXPECT_LT(calls, all.at(name)) << name;
  }
}

/// A validation keeps nothing for backward, so its data stay in a nearer cache than a step's.
TEST(StepOps, ValidationsAreTimedApartFromSteps) {
  for (const Kind kind : {Kind::refine, Kind::given_low_rank, Kind::discover}) {
    const Validation validation{66, {.horizons = 3}};
    const StepOps timed = with_training(
        kind, nullptr,
        [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
          return time_ops<float>(task, optimiser, reducer, 0, exec, 0.05, [](bool mine) { return mine; })
              .steps;
        },
        validation);
    Device idle(SimulatedDriver::idle());
    const StepOps traced = with_training(
        kind, &idle,
        [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
          return trace_ops<float>(task, optimiser, reducer, 0, exec, {}, {.sent = {}, .validates = true});
        },
        validation);
    const auto footprint_of = [](const std::vector<TracedOp>& ops) {
      std::set<double> all;
      for (const TracedOp& op : ops)
        if (!op.beside) all.insert(op.footprint);
      EXPECT_EQ(all.size(), 1U);
      return all.empty() ? 0 : *all.begin();
    };
    const double of_steps = footprint_of(timed.ops), of_validation = footprint_of(timed.validation);
    EXPECT_EQ(of_steps, timed.footprint);
    EXPECT_EQ(footprint_of(traced.ops), of_steps) << "or no call is the one that was measured";
    // It may be larger or smaller: latents of few steps instead of all, but forecasts from several origins at
    // once.
    EXPECT_NE(of_validation, of_steps);
    EXPECT_EQ(footprint_of(traced.validation), of_validation);
    for (const TracedOp& op : traced.validation) {
      if (op.name == "catch_up") {
        EXPECT_EQ(op.footprint, of_steps) << "it is timed among steps";
        continue;
      }
      EXPECT_TRUE(std::any_of(timed.validation.begin(), timed.validation.end(), [&](const TracedOp& other) {
        return other.like(op) && other.footprint == op.footprint;
      })) << op.name;
    }
  }
}

/// Otherwise, calibration would wait long for steps that take seconds.
TEST(StepOps, WhatTakesVeryLongIsRepeatedLessOften) {
  const auto scores = [](double seconds) {
    const StepOps timed = with_training(
        Kind::refine, nullptr,
        [&](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
          return time_ops<float>(task, optimiser, reducer, 0, exec, seconds, [](bool mine) { return mine; })
              .steps;
        },
        Validation{6, {.horizons = 3}});
    EXPECT_GT(timed.steps, 0);
    for (const TracedOp& op : timed.validation)
      if (op.name == "scores") return op.calls;
    return Index{0};
  };
  EXPECT_EQ(scores(0), 3) << "one of three horizons";
  EXPECT_GE(scores(0.2), 9);
}

TEST(StepGraph, SumsAndParametersAreWhole) {
  const StepGraph graph = trace(Kind::given_low_rank, nullptr);
  Cost blocks = graph.rest.forward, ops;
  blocks += graph.rest.backward;
  double parameters = 0;
  for (const TracedBlock& block : graph.blocks) {
    blocks += block.forward;
    blocks += block.backward;
    parameters += static_cast<double>(block.parameters);
  }
  for (const StepGraph::Op& op : graph.ops) ops += op.cost;
  expect_equal(blocks, ops, "blocks");
  EXPECT_EQ(parameters, graph.parameters) << "every trained parameter belongs to a block";
  // Z, decoder, (1 + 8 + 1)·3 inputs to 5 to 3, U and V.
  EXPECT_EQ(graph.parameters, 14 * 23 * 3 + 2 * 3 + 5 * 30 + 5 + 3 * 5 + 3 + 2 * 23 * 3);
}

TEST(StepGraph, WritesTextJsonAndDot) {
  const StepGraph graph = trace(Kind::refine, nullptr);
  const std::string text = text_of({graph}), dot = dot_of({graph});
  const auto json = json_of(std::vector{graph});
  EXPECT_EQ(json["blocks"].size(), graph.blocks.size());
  EXPECT_EQ(json["forward"]["flops"].get<double>(), graph.forward.flops);
  for (const TracedBlock& block : graph.blocks) {
    EXPECT_NE(text.find(block.name), std::string::npos);
    EXPECT_NE(dot.find("label=\"" + block.name), std::string::npos);
  }
  EXPECT_NE(text.find("2 steps, one of each kind"), std::string::npos);
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(StepGraph, IsReadBackAsItWasWritten) {
  std::vector<StepGraph> stages(2, trace(Kind::refine, nullptr));
  for (int s = 0; s < 2; ++s) {
    StepGraph& graph = stages[static_cast<std::size_t>(s)];
    graph.model = "stnn";
    graph.rank = 3 * s;
    graph.ranks = 6;
    graph.stage = s;
    graph.stages = 2;
    graph.step_seconds = 0.25;
    graph.blocks[0].forward_seconds = 0.125;
    graph.handed_over = {{1 - s, s == 1, 4, 2048}};
  }
  ASSERT_FALSE(stages[0].edges.empty());
  const auto json = json_of(stages);
  const StepGraph first = step_graph_of(json), second = step_graph_of(json["other_stages"][0]);
  EXPECT_EQ(json_of(std::vector{first, second}), json);
  EXPECT_EQ(text_of({first, second}), text_of(stages));
  EXPECT_EQ(dot_of({first, second}), dot_of(stages));
  EXPECT_NE(text_of(stages).find("rank 3 of 6, stage 2 of 2"), std::string::npos);
}

TEST(StepOps, AnIdleDeviceTracesTheCallsThatTheHostMakes) {
  for (const Kind kind : {Kind::refine, Kind::given_low_rank, Kind::discover}) {
    Device idle(SimulatedDriver::idle());
    const StepOps host = ops_of(kind, nullptr), there = ops_of(kind, &idle);
    EXPECT_EQ(host.epoch_steps, 6) << "three slabs in each of two passes";
    EXPECT_EQ(host.steps, 6);
    ASSERT_EQ(host.ops.size(), there.ops.size());
    bool caught_up = false;
    for (std::size_t o = 0; o < host.ops.size(); ++o) {
      EXPECT_TRUE(host.ops[o].like(there.ops[o])) << host.ops[o].name;
      EXPECT_EQ(host.ops[o].calls, there.ops[o].calls) << host.ops[o].name;
      if (!host.ops[o].beside) continue;
      expect_equal(host.ops[o].cost, there.ops[o].cost, host.ops[o].name);
      if (host.ops[o].name == "catch_up") caught_up = host.ops[o].cost.flops > 0;
      if (host.ops[o].name != "catch_up") {
        // A decoder's step leaves no gradient to clear.
        EXPECT_EQ(host.ops[o].calls, host.ops[o].name == "clear_gradients" ? 3 : 6) << host.ops[o].name;
      }
    }
    EXPECT_TRUE(caught_up) << "an epoch in, rows of Z have missed updates";
    EXPECT_EQ(host.activation_bytes, there.activation_bytes) << "with what its kernels take to work in";
    EXPECT_GT(there.array_bytes, 0);
    EXPECT_EQ(host.array_bytes, 0);
  }
}

TEST(StepOps, AnIdleDeviceTakesMissedUpdatesInHopsAsTheHostDoes) {
  const auto flops = [](Kind kind, Device* device) {
    for (const TracedOp& op : ops_of(kind, device).ops)
      if (op.name == "catch_up") return op.cost.flops;
    return 0.0;
  };
  Device idle(SimulatedDriver::idle());
  const double host = flops(Kind::wide, nullptr), one_by_one = flops(Kind::wide_momentum, nullptr);
  EXPECT_GT(host, 0);
  EXPECT_LT(host, 0.8 * one_by_one) << "with momentum they are replayed";
  EXPECT_EQ(flops(Kind::wide, &idle), host);
  EXPECT_EQ(flops(Kind::wide_momentum, &idle), one_by_one);
}

TEST(StepOps, TablesAreCaughtUpAfterEachEpoch) {
  const StepOps ops = ops_of(Kind::wide_momentum, nullptr);
  double flops = 0;
  for (const TracedOp& op : ops.ops)
    if (op.name == "catch_up") flops += op.cost.flops * static_cast<double>(op.calls);
  // 12 of the 14 steps are trained, each up to its last batch of the epoch; no later batch contains it.
  const double values = 12.0 * 23 * 96, all = values * adam_flops * static_cast<double>(ops.epoch_steps);
  EXPECT_LT(flops, 0.8 * all) << flops / all;
  EXPECT_GT(flops, 0.4 * all) << flops / all;
}

/// The trace covers differences between device and host: the device replays updates that the host joins.
TEST(StepOps, AnIdleDeviceMayStandForADevice) {
  const auto flops = [](Device* device) {
    for (const TracedOp& op : ops_of(Kind::wide, device).ops)
      if (op.name == "catch_up") return op.cost.flops;
    return 0.0;
  };
  Device host(SimulatedDriver::idle()), idle(SimulatedDriver::idle(SimulatedDriver::For::device));
  Device real(std::make_unique<SimulatedDriver>());
  const double there = flops(&real);
  EXPECT_GT(there, 1.2 * flops(&host));
  EXPECT_EQ(flops(&idle), there);
  // Memory equals that of the device, to the byte.
  for (const Kind kind : {Kind::refine, Kind::given_low_rank, Kind::discover}) {
    Device traced(SimulatedDriver::idle(SimulatedDriver::For::device));
    Device trained(std::make_unique<SimulatedDriver>());
    const StepOps of = ops_of(kind, &traced);
    (void)ops_of(kind, &trained);
    EXPECT_EQ(of.device_bytes, static_cast<double>(trained.peak_bytes()));
  }
}

/// A device's queue and the host are timed separately, call by call.
TEST(StepOps, OfADeviceAreTimedInItsQueue) {
  for (const Kind kind : {Kind::refine, Kind::discover}) {
    Device device(std::make_unique<SimulatedDriver>());
    const StepOps traced = ops_of(kind, &device);
    // Ops and steps are timed one after the other, on a machine that is slow now and then. A call that is
    // counted twice, or in the wrong place, fails every try.
    std::string wrong = "never timed";
    for (int tries = 0; tries < 40 && !wrong.empty(); ++tries) {
      wrong.clear();
      const auto timed =
          with_training(kind, &device, [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
            return time_ops<float>(task, optimiser, reducer, 0, exec, 0.05, [](bool mine) { return mine; });
          });
      double queue = 0, host = 0, steps = 0;
      for (const TracedOp& op : timed.steps.ops) {
        EXPECT_GE(op.queue_seconds, 0) << op.name;
        EXPECT_GT(op.seconds, 0) << op.name;
        // The simulated device computes slowly: a product of matrices takes it longer than the host needs to
        // enqueue it.
        if (op.name.starts_with("relate") && op.backward && !(op.queue_seconds > op.seconds)) {
          wrong +=
              fmt::format("{}: {} s in the queue, {} s of the host; ", op.name, op.queue_seconds, op.seconds);
        }
        queue += op.queue_seconds / static_cast<double>(timed.steps.steps);
        host += op.seconds / static_cast<double>(timed.steps.steps);
      }
      EXPECT_EQ(timed.spread.size(), timed.steps.ops.size());
      for (const double step : timed.steps.step_seconds)
        steps += step / static_cast<double>(timed.steps.step_seconds.size());
      // The device computes while the host waits, so a step takes the sum of both times.
      if (!(queue + host < 1.1 * steps)) {
        wrong += fmt::format("ops of {} + {} s make up a step of {} s", queue, host, steps);
      }
      // The trace includes all calls of an epoch.
      for (const TracedOp& op : traced.ops)
        EXPECT_EQ(std::count_if(timed.steps.ops.begin(), timed.steps.ops.end(),
                                [&](const TracedOp& other) { return other.like(op); }),
                  1)
            << op.name;
    }
    EXPECT_EQ(wrong, "");
  }
}

/// Whatever the speed of a rank: measurements of ranks are combined in the order of calls.
TEST(StepOps, RanksThatAreToldTheSameMeetTheSameCalls) {
  const auto calls_of = [](double seconds, Index& steps) {
    return with_training(
        Kind::refine, nullptr, [&](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
          int asked = 0;
          const TimedOps timed = time_ops<float>(task, optimiser, reducer, 0, exec, seconds,
                                                 [&](bool) { return ++asked < 60 && asked % 7 != 0; });
          std::vector<TracedOp> calls = timed.steps.ops;
          steps = timed.steps.steps;
          return calls;
        });
  };
  Index fast_steps = 0, slow_steps = 0;
  const std::vector<TracedOp> fast = calls_of(0, fast_steps), slow = calls_of(100, slow_steps);
  EXPECT_EQ(fast_steps, slow_steps);
  ASSERT_EQ(fast.size(), slow.size());
  for (std::size_t o = 0; o < fast.size(); ++o) {
    EXPECT_TRUE(fast[o].like(slow[o])) << fast[o].name;
    EXPECT_EQ(fast[o].calls, slow[o].calls) << fast[o].name;
  }
}

TEST(StepOps, TimesAreThoseOfTheStepsTheyMakeUp) {
  const TimedOps timed = with_training(
      Kind::refine, nullptr, [](auto& task, auto& optimiser, Reducer& reducer, const Exec& exec) {
        int rounds = 0;
        TimedOps ops = time_ops<float>(task, optimiser, reducer, 0, exec, 0.05,
                                       [&](bool mine) { return ++rounds, mine; });
        EXPECT_GE(rounds, 4);
        return ops;
      });
  ASSERT_EQ(timed.spread.size(), timed.steps.ops.size());
  EXPECT_EQ(timed.steps.steps, std::ssize(timed.steps.step_seconds));
  double ops = 0, steps = 0;
  for (const TracedOp& op : timed.steps.ops) {
    EXPECT_GE(op.seconds, 0) << op.name;
    EXPECT_GT(op.calls, 0) << op.name;
    ops += op.seconds;
  }
  for (const double seconds : timed.steps.step_seconds) steps += seconds;
  EXPECT_GT(ops, 0);
  EXPECT_LT(ops, 1.5 * steps) << "medians of parts";
}

}  // namespace
}  // namespace rossby
