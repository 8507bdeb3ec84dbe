#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"

// The trace of a tape: the cost of every op belongs to one block, edges follow addresses, and recomputation
// counts as backward.

namespace rossby {
namespace {

using V = Var<double>;

struct Layers {
  Parameter<double> first{"first", Placement::replicated, {4, 3}};
  Parameter<double> second{"second", Placement::replicated, {2, 4}};
  std::vector<double> x = std::vector<double>(5 * 7 * 3, 0.5);

  V input() { return Tape<double>::constant({x.data(), 5, 7, 3}); }
};

Cost sum_of(const BlockTrace& trace) {
  Cost sum;
  for (const TracedBlock& block : trace.blocks()) {
    sum += block.forward;
    sum += block.backward;
  }
  sum += trace.rest().forward;
  sum += trace.rest().backward;
  return sum;
}

void expect_whole(const BlockTrace& trace, const Tape<double>& tape) {
  Cost ops;
  for (const auto& total : tape.totals()) ops += total.cost;
  EXPECT_EQ(sum_of(trace).flops, ops.flops);
  EXPECT_EQ(sum_of(trace).bytes, ops.bytes);
  EXPECT_GT(ops.flops, 0);
}

const TracedBlock& named(const BlockTrace& trace, std::string_view name) {
  for (const TracedBlock& block : trace.blocks())
    if (block.name == name) return block;
  ADD_FAILURE() << "no block " << name;
  return trace.rest();
}

double bytes_between(const BlockTrace& trace, std::string_view from, std::string_view to) {
  double bytes = 0;
  for (const TracedEdge& edge : trace.edges())
    if (trace.blocks()[static_cast<std::size_t>(edge.from)].name == from &&
        trace.blocks()[static_cast<std::size_t>(edge.to)].name == to)
      bytes += edge.bytes;
  return bytes;
}

V call(Tape<double>& tape, std::string_view name, const V& x, Parameter<double>& weight) {
  const Block<double> block(tape, name);
  block.reads(x);
  block.trains(&weight);
  return block.hands_on(linear<double>(tape, x, weight, nullptr));
}

TEST(BlockTrace, CostsShapesAndEdges) {
  Layers layers;
  BlockTrace trace;
  Tape<double> tape{Exec{}};
  tape.set_trace(&trace);
  for (int step = 0; step < 2; ++step) {
    tape.reset();
    const V h = call(tape, "first", layers.input(), layers.first);
    const V y = call(tape, "second", tanh(tape, h), layers.second);  // tanh has no block: no edge
    const V again = call(tape, "second", slice_channels(h, 0, 4), layers.second);
    (void)add(tape, y, again);
    tape.backward();
  }
  expect_whole(trace, tape);
  ASSERT_EQ(trace.blocks().size(), 2U);
  const TracedBlock &first = named(trace, "first"), &second = named(trace, "second");
  EXPECT_EQ(first.calls, 2);
  EXPECT_EQ(second.calls, 4);
  EXPECT_EQ(first.rows, 5);
  EXPECT_EQ(first.cols, 7);
  EXPECT_EQ(first.channels, 4);
  EXPECT_EQ(first.parameters, 12);
  EXPECT_EQ(second.parameters, 8) << "however often it is called";
  EXPECT_EQ(first.forward.flops, 2 * 2.0 * 35 * 3 * 4);
  EXPECT_EQ(first.backward.flops, 2 * (2.0 * 35 * 3 * 4 + 35 * 4)) << "its input is constant";
  EXPECT_GE(first.activation_bytes, 2 * 2 * 35 * 4 * 8.0) << "values and gradients";
  EXPECT_LT(first.activation_bytes, 2 * 2 * 35 * 4 * 8.0 + 2048);
  EXPECT_EQ(bytes_between(trace, "first", "second"), 2 * 35 * 4 * 8.0);
  EXPECT_EQ(trace.edges().size(), 1U);
  EXPECT_GT(trace.rest().forward.flops, 0) << "tanh and the sum";
  EXPECT_GT(trace.rest().backward.flops, 0);
}

/// A repeated measurement starts empty.
TEST(BlockTrace, OpsAreForgotten) {
  Layers layers;
  BlockTrace trace(BlockTrace::Of::times_of_ops);
  Tape<double> tape{Exec{}};
  tape.set_trace(&trace);
  const V h = linear<double>(tape, layers.input(), layers.first, nullptr);
  (void)linear<double>(tape, h, layers.second, nullptr);
  ASSERT_EQ(trace.ops().size(), 2U);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  trace.forget_ops();
  EXPECT_TRUE(trace.ops().empty());
  (void)linear<double>(tape, h, layers.second, nullptr);
  ASSERT_EQ(trace.ops().size(), 1U);
  EXPECT_EQ(trace.ops()[0].calls, 1);
  EXPECT_EQ(trace.ops()[0].cost.flops, 2.0 * 35 * 4 * 2);
  EXPECT_LT(trace.ops()[0].seconds, 0.2) << "what went by before is nobody's time";
}

/// Recomputation counts as the backward of its block. Only values outside of the segment count as kept.
TEST(BlockTrace, WhatIsComputedAgain) {
  Layers layers;
  const auto run = [&](bool again, bool inside, BlockTrace& trace) {
    Tape<double> tape{Exec{}};
    tape.set_trace(&trace);
    const V x = layers.input();
    const V y = tape.make(5, 7, 2, true);
    const auto forward = [&layers, x](Tape<double>& inner, std::span<const V> out) {
      assign(inner, out[0], call(inner, "second", call(inner, "first", x, layers.first), layers.second));
    };
    const V outputs[] = {y};
    if (again && inside) {
      const Block<double> block(tape, "segment");
      tape.recomputed("segment", std::span<const V>(outputs), forward);
      (void)block.hands_on(y);
    } else if (again) {
      tape.recomputed("segment", std::span<const V>(outputs), forward);
    } else {
      forward(tape, outputs);
    }
    const Block<double> block(tape, "reader");
    block.reads(y);
    (void)tanh(tape, y);
    tape.backward();
    expect_whole(trace, tape);
  };
  BlockTrace once, twice, nested;
  run(false, false, once);
  run(true, false, twice);
  run(true, true, nested);
  for (const char* name : {"first", "second"}) {
    const TracedBlock &a = named(once, name), &b = named(twice, name), &c = named(nested, name);
    EXPECT_EQ(a.calls, 1);
    EXPECT_EQ(b.calls, 1);
    EXPECT_EQ(a.forward.flops, b.forward.flops);
    EXPECT_EQ(a.forward.flops, c.forward.flops) << "work of a block within belongs to that alone";
    EXPECT_EQ(a.forward.flops + a.backward.flops, b.backward.flops) << name;
    EXPECT_EQ(a.forward.flops + a.backward.flops, c.backward.flops) << name;
    EXPECT_GT(a.activation_bytes, 0);
    EXPECT_EQ(b.activation_bytes, 0);
  }
  EXPECT_EQ(bytes_between(once, "second", "reader"), 35 * 2 * 8.0) << "through the assignment";
  EXPECT_EQ(bytes_between(twice, "second", "reader"), 35 * 2 * 8.0);
  EXPECT_EQ(bytes_between(nested, "segment", "reader"), 35 * 2 * 8.0);
}

/// Time belongs to the block that runs, forward or backward, also during recomputation.
TEST(BlockTrace, TimeGoesByBlocks) {
  Layers layers;
  const auto rest = std::chrono::milliseconds(20);
  for (const bool again : {false, true}) {
    BlockTrace trace(BlockTrace::Of::times);
    Tape<double> tape{Exec{}};
    tape.set_trace(&trace);
    std::this_thread::sleep_for(rest);  // belongs to no block: no step has begun
    tape.reset();
    const V y = tape.make(5, 7, 4, true);
    const auto forward = [&layers, rest](Tape<double>& inner, std::span<const V> out) {
      const Block<double> block(inner, "slow");
      const V h = linear<double>(inner, layers.input(), layers.first, nullptr);
      assign(inner, out[0], h);
      std::this_thread::sleep_for(rest);
    };
    const V outputs[] = {y};
    if (again)
      tape.recomputed("segment", std::span<const V>(outputs), forward);
    else
      forward(tape, outputs);
    {
      const Block<double> block(tape, "quick");
      (void)tanh(tape, y);
    }
    tape.backward();
    const TracedBlock &slow = named(trace, "slow"), &quick = named(trace, "quick");
    EXPECT_GE(slow.forward_seconds, 0.02);
    EXPECT_EQ(slow.backward_seconds >= 0.02, again);
    EXPECT_LT(quick.forward_seconds + quick.backward_seconds, 0.02);
    EXPECT_LT(trace.rest().forward_seconds + trace.rest().backward_seconds, 0.02);
    EXPECT_GT(quick.backward_seconds, 0);
  }
}

TEST(BlockTrace, ATapeWithoutOneCountsTheSame) {
  Layers layers;
  std::vector<double> flops;
  for (const bool traced : {false, true}) {
    BlockTrace trace;
    Tape<double> tape{Exec{}};
    if (traced) tape.set_trace(&trace);
    (void)tanh(tape, call(tape, "first", layers.input(), layers.first));
    tape.backward();
    double sum = 0;
    for (const auto& total : tape.totals()) sum += total.cost.flops;
    flops.push_back(sum);
  }
  EXPECT_EQ(flops[0], flops[1]);
}

}  // namespace
}  // namespace rossby
