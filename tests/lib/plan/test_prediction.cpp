#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/base/error.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/plan/transfers.hpp"
#include "rossby/plan/what_if.hpp"

// Measurements of a machine, and predictions from them.

namespace rossby {
namespace {

OpSample sample(const std::string& op, double flops, double bytes, double seconds, int ranks = 1) {
  OpSample s;
  s.op = op;
  s.precision = "float";
  s.ranks = ranks;
  s.cost = {flops, bytes, 0, 0};
  s.made.channels = 16;
  s.footprint = 1e6;
  s.seconds = seconds;
  return s;
}

TracedOp call(const std::string& op, double flops, double bytes, Index calls = 1) {
  TracedOp o;
  o.name = op;
  o.cost = {flops, bytes, 0, 0};
  o.made.channels = 16;
  o.calls = calls;
  o.footprint = 1e6;
  return o;
}

MachineProfile machine() {
  MachineProfile profile;
  profile.processor = "a processor";
  profile.cores = 2;
  profile.process_bytes = 1000;
  for (const double size : {1e4, 1e5, 1e6}) {
    profile.ops.push_back(sample("linear", 8 * size, size, size / 1e10));
    profile.ops.push_back(sample("linear", 8 * size, size, size / 0.5e10, 2));
  }
  profile.rates.push_back({"stream", 1, 1, 1e8, 1e10, 0});
  profile.rates.push_back({"gemm", 1, 1, 512, 1e11, 0});
  for (const double bytes : {1e3, 1e5}) {
    profile.messages.push_back({"gather", 2, 1, 1, bytes, 1e-6 + bytes / 1e9, 0});
    profile.messages.push_back({"allreduce", 2, 1, 1, bytes, 2e-6 + bytes / 1e9, 0});
    profile.messages.push_back({"gather", 4, 1, 3, bytes, 5e-6 + bytes / 1e9, 0});
  }
  profile.stragglers.push_back({2, 1, 1.1});
  return profile;
}

/// Returns the mean absolute relative error over the samples.
double error_of(const OpModel& model, const std::vector<OpSample>& samples) {
  double error = 0;
  for (const OpSample& s : samples)
    error += std::abs(model.seconds(s.cost) / s.seconds - 1) / static_cast<double>(samples.size());
  return error;
}

TEST(OpModel, RecoversWhatATimeWasMadeOf) {
  std::vector<OpSample> samples;
  for (const double flops : {1e3, 3e4, 1e6, 2e7})
    for (const double bytes : {1e3, 5e4, 4e6})
      samples.push_back(sample("op", flops, bytes, 2e-6 + flops * 3e-11 + bytes * 1e-10));
  std::vector<const OpSample*> pointers;
  for (const OpSample& s : samples) pointers.push_back(&s);
  const OpModel model = fit(pointers);
  EXPECT_NEAR(model.constant, 2e-6, 1e-11);
  EXPECT_NEAR(model.per_flop, 3e-11, 1e-16);
  EXPECT_NEAR(model.per_byte, 1e-10, 1e-15);
  EXPECT_LT(error_of(model, samples), 1e-6);
}

TEST(OpModel, IsNeverNegative) {
  // Time falls with bytes, as would the best line.
  const std::vector<OpSample> samples{sample("op", 1e6, 1e3, 3e-3), sample("op", 1e6, 1e6, 2e-3),
                                      sample("op", 1e6, 2e6, 1e-3)};
  const OpModel model = fit({&samples[0], &samples[1], &samples[2]});
  EXPECT_GE(model.constant, 0);
  EXPECT_GE(model.per_flop, 0);
  EXPECT_GE(model.per_byte, 0);
  EXPECT_GT(model.seconds({1e6, 1e4, 0, 0}), 0);
  EXPECT_GT(error_of(model, samples), 0.1);
  EXPECT_EQ(fit({}).seconds({1, 1, 0, 0}), 0);
}

TEST(OpTimes, AnswersAMeasuredCallWithItsMeasurement) {
  MachineProfile profile = machine();
  profile.ops.push_back(sample("linear", 3e6, 2e5, 7e-3));  // far from the other samples
  const OpTimes times(profile, "float", 1, 1);
  EXPECT_NEAR(times.seconds(call("linear", 3e6, 2e5)).seconds, 7e-3, 1e-5);
  EXPECT_EQ(times.seconds(call("linear", 3e6, 2e5)).distance, 0);
}

TEST(OpTimes, LiesBetweenItsSamples) {
  const OpTimes times(machine(), "float", 1, 1);
  EXPECT_NEAR(times.seconds(call("linear", 8 * 3e5, 3e5)).seconds, 3e5 / 1e10, 1e-9) << "all of one rate";
  const OpTimes::Answer far = times.seconds(call("linear", 8e12, 1e12));
  EXPECT_NEAR(far.seconds, 100, 1) << "far from all of them at their rate";
  EXPECT_GT(far.distance, 1);
}

TEST(OpTimes, ChannelsThatFillVectorsAreNotThoseThatDoNot) {
  MachineProfile profile = machine();
  for (const double size : {1e4, 1e5, 1e6}) {
    OpSample narrow = sample("linear", 8 * size, size, size / 1e9);
    narrow.made.channels = 3;
    profile.ops.push_back(narrow);
  }
  const OpTimes times(profile, "float", 1, 1);
  TracedOp narrow = call("linear", 8 * 3e5, 3e5), wide = narrow;
  narrow.made.channels = 2;
  wide.made.channels = 32;
  EXPECT_GT(times.seconds(narrow).seconds, 3 * times.seconds(wide).seconds);
}

TEST(OpTimes, RowsOfSevenValuesAreNotThoseOfEight) {
  MachineProfile profile;
  profile.cores = 1;
  const auto shaped = [](OpSample s, Index cols) {
    s.made = {1000, cols, 1};
    s.cost = {1e3 * static_cast<double>(cols), 4e3 * static_cast<double>(cols), 0, 0};
    s.seconds = s.cost.bytes / (cols % 8 == 0 ? 1e10 : 2e9);
    return s;
  };
  for (const Index cols : {3, 5, 6, 7, 8, 10, 14, 16, 22, 24})
    profile.ops.push_back(shaped(sample("op", 0, 0, 0), cols));
  const OpTimes times(profile, "float", 1, 1);
  const auto seconds = [&](Index cols) {
    const OpSample s = shaped(sample("op", 0, 0, 0), cols);
    TracedOp asked = call("op", s.cost.flops, s.cost.bytes);
    asked.made = s.made;
    return times.seconds(asked).seconds;
  };
  EXPECT_GT(seconds(15), 2.5 * seconds(32) * 15 / 32);
  EXPECT_GT(seconds(11), 2.5 * seconds(8) * 11 / 8);
}

/// Two kinds of products under one name; one multiplies twice as fast. Equal flops do not make them similar.
TEST(OpTimes, ProductsOfOtherInnerWidthsAreNotAlike) {
  MachineProfile profile;
  profile.cores = 1;
  const auto product = [](Index rows, Index cols, double inner, double rate) {
    OpSample s = sample("op", 0, 0, 0);
    s.made = {rows, cols, 64};
    const auto values = static_cast<double>(rows * cols * 64);
    s.cost = {2 * values * inner, 4 * values * (1 + inner / 64), 0, 0};
    s.footprint = 1e8;
    s.seconds = s.cost.flops / rate;
    return s;
  };
  constexpr double slow = 40e9, fast = 80e9, wide = 320, narrow = 80;
  // Fewer rows of the narrow products, in more columns: as many flops as the others.
  for (const Index rows : {50, 200, 600})
    for (const Index cols : {3, 16}) profile.ops.push_back(product(rows, cols, wide, fast));
  for (const Index rows : {200, 600}) profile.ops.push_back(product(rows, 64, narrow, slow));
  const OpTimes times(profile, "float", 1, 1);
  const auto told = [&](const OpSample& s) {
    TracedOp asked = call("op", s.cost.flops, s.cost.bytes);
    asked.made = s.made;
    asked.footprint = s.footprint;
    return times.seconds(asked).seconds / s.seconds;
  };
  EXPECT_NEAR(told(product(130, 32, wide, fast)), 1, 0.08);
  EXPECT_NEAR(told(product(400, 32, narrow, slow)), 1, 0.08);
}

TEST(OpTimes, AnOpThatWasNeverMeasuredTakesTheLongerOfBytesAndFlops) {
  const OpTimes times(machine(), "float", 1, 1);
  const OpTimes::Answer bytes = times.seconds(call("new", 1e6, 1e8));
  EXPECT_NEAR(bytes.seconds, 1e8 / 1e10, 1e-12);
  EXPECT_TRUE(std::isinf(bytes.distance));
  EXPECT_NEAR(times.seconds(call("new", 1e11, 1e8)).seconds, 1, 1e-9);
}

TEST(OpTimes, FewSamplesGrowWithTheCall) {
  MachineProfile profile = machine();
  profile.ops.push_back(sample("alone", 1e6, 1e6, 1e-3));
  const OpTimes times(profile, "float", 1, 1);
  EXPECT_NEAR(times.seconds(call("alone", 0.5e6, 0.5e6)).seconds, 0.5e-3, 1e-5)
      << "half of it, not a constant";
}

TEST(OpTimes, AFewCallsOnOtherRanksSayNothingOfOtherCalls) {
  MachineProfile profile = machine();
  std::erase_if(profile.ops, [](const OpSample& s) { return s.ranks == 2; });
  profile.ops.push_back(sample("new", 1e6, 1e6, 4e-3, 2));
  const OpTimes times(profile, "float", 2, 1);
  EXPECT_NEAR(times.seconds(call("new", 1e6, 1e6)).seconds, 4e-3, 1e-12);
  const OpTimes::Answer other = times.seconds(call("linear", 8e5, 1e5));
  EXPECT_NEAR(other.seconds, 1e-5, 1e-12) << "as one rank took it";
  EXPECT_EQ(other.distance, 0);
  EXPECT_GT(other.doubt, times.seconds(call("new", 1e6, 1e6)).doubt);
  EXPECT_TRUE(std::isinf(times.distance(call("linear", 8e5, 1e5)))) << "that is still worth measuring";
}

TEST(OpTimes, DoubtsWhatIsFarFromItsSamples) {
  MachineProfile profile = machine();
  profile.ops.front().spread = 0.2;
  const OpTimes times(profile, "float", 1, 1);
  const double noisy = times.seconds(call("linear", 8e4, 1e4)).doubt,
               quiet = times.seconds(call("linear", 8e5, 1e5)).doubt,
               near = times.seconds(call("linear", 8 * 2e5, 2e5)).doubt,
               far = times.seconds(call("linear", 8e12, 1e12)).doubt,
               never = times.seconds(call("new", 8e5, 1e5)).doubt;
  EXPECT_NEAR(noisy, 0.2, 1e-12);
  EXPECT_GT(quiet, 0);
  EXPECT_LT(quiet, near);
  EXPECT_LT(near, far);
  EXPECT_LE(far, never);
}

TEST(Prediction, HasAnIntervalOfItsCalls) {
  const MachineProfile profile = machine();
  const OpTimes times(profile, "float", 1, 1);
  StepOps rank;
  rank.steps = 1;
  rank.ops = {call("linear", 8e5, 1e5)};
  const double known = predict({rank}, profile, times, {}).doubt;
  rank.ops = {call("new", 8e5, 1e5)};
  const double never = predict({rank}, profile, times, {}).doubt;
  EXPECT_GT(known, 0.03) << "no two steps are alike";
  EXPECT_GT(never, 5 * known);
  const auto [low, high] = interval_of(2, 0.1);
  EXPECT_NEAR(low * high, 4, 1e-12);
  EXPECT_NEAR(high / 2, std::exp(0.1645), 1e-12);
  EXPECT_NEAR(doubt_of(2, high), 0.1, 1e-12);
  EXPECT_EQ(doubt_of(0, 0), 0);
}

TEST(OpTimes, MoreRanksThanCoresTakeTurns) {
  const MachineProfile profile = machine();
  const double one = OpTimes(profile, "float", 1, 1).seconds(call("linear", 8e5, 1e5)).seconds;
  const OpTimes two(profile, "float", 2, 1), four(profile, "float", 4, 1);
  EXPECT_NEAR(two.seconds(call("linear", 8e5, 1e5)).seconds, 2 * one, 1e-9) << "as measured";
  EXPECT_EQ(four.ranks(), 2);
  EXPECT_NEAR(four.seconds(call("linear", 8e5, 1e5)).seconds, 4 * one, 1e-9) << "twice as crowded";
  EXPECT_THROW(OpTimes(profile, "float", 1, 8), UserError) << "no such threads";
  EXPECT_THROW(OpTimes(profile, "double", 1, 1), UserError);
}

TEST(Messages, LieOnLinesBetweenSizes) {
  const MachineProfile profile = machine();
  const Place two{2, 1, 1};
  EXPECT_EQ(message_seconds(profile, "gather", {1, 1, 1}, 1, 1e4), 0) << "one rank sends nothing";
  EXPECT_NEAR(message_seconds(profile, "gather", two, 1, 1e4), 1e-6 + 1e4 / 1e9, 1e-12);
  EXPECT_NEAR(message_seconds(profile, "gather", two, 1, 1), 1e-6 + 1e3 / 1e9, 1e-12)
      << "no less than the least";
  EXPECT_NEAR(message_seconds(profile, "gather", two, 1, 1e7), 1e-6 + 1e7 / 1e9, 1e-9);
  EXPECT_NEAR(message_seconds(profile, "gather", {4, 1, 1}, 3, 1e4), 5e-6 + 1e4 / 1e9, 1e-12);
  EXPECT_EQ(message_seconds(profile, "reduce_scatter", two, 1, 1e4), 0) << "never measured";
}

TEST(Messages, CollectivesOfMoreRanksStartInMoreRounds) {
  const MachineProfile profile = machine();
  const Place two{.ranks = 2}, many{.ranks = 1024, .hosts = 512};
  const double start = 2e-6 + 1e3 / 1e9, large = 2e-6 + 1e5 / 1e9;
  EXPECT_NEAR(message_seconds(profile, "allreduce", two, 1, 1e3), start, 1e-12);
  EXPECT_NEAR(message_seconds(profile, "allreduce", many, 1, 1e3), 10 * start, 1e-12);
  EXPECT_NEAR(message_seconds(profile, "allreduce", many, 1, 1e5),
              10 * start + (large - start) * (1 - 1.0 / 1024) / 0.5, 1e-12);
  EXPECT_NEAR(message_seconds(profile, "gather", {.ranks = 64}, 3, 1e3), 5e-6 + 1e3 / 1e9, 1e-12)
      << "neighbours are as many as before";
}

TEST(Messages, GradientsGoTheOtherWay) {
  const auto round = [](const char* name, bool backward) {
    TracedOp op = call(name, 1, 1);
    op.backward = backward;
    return message_round_of(op);
  };
  EXPECT_EQ(round("relate_dense_learned", false), "allgather");
  EXPECT_EQ(round("relate_dense_learned", true), "reduce_scatter");
  EXPECT_EQ(round("spread", false), "reduce_scatter") << "what is made goes to the rows' owners";
  EXPECT_EQ(round("spread", true), "allgather");
  EXPECT_EQ(round("relate_sparse", false), "gather");
  EXPECT_EQ(round("relate_sparse", true), "scatter_add");
}

TEST(Stragglers, CountByTheTimeBetweenRounds) {
  MachineProfile profile = machine();
  profile.stragglers = {{2, 1, 1.2, false, 1e-5}, {2, 1, 1.05, false, 1e-3}, {8, 1, 1.5, false, 1e-3}};
  const Place two{.ranks = 2};
  EXPECT_NEAR(straggler_factor(profile, two, 1e-5), 1.2, 1e-12);
  EXPECT_NEAR(straggler_factor(profile, two, 1e-4), 1.125, 1e-12) << "half the way, in powers of ten";
  EXPECT_NEAR(straggler_factor(profile, two, 1e-7), 1.2, 1e-12) << "no more than the most";
  EXPECT_NEAR(straggler_factor(profile, two, 10), 1.05, 1e-12) << "no less than the least";
  EXPECT_NEAR(straggler_factor(profile, two, 0), 1.2, 1e-12);
  EXPECT_NEAR(straggler_factor(profile, {.ranks = 7}, 1e-5), 1.5, 1e-12) << "the nearest number of ranks";
  EXPECT_EQ(straggler_factor(profile, {.ranks = 1}, 1e-5), 1) << "who is alone waits for nobody";
  EXPECT_NEAR(straggler_factor(profile, {.ranks = 2, .on_device = true}, 1e-5), 1.2, 1e-12) << "as on hosts";

  // 2 ms of computing between 20 message rounds and a sum, or with only the sum.
  const OpTimes times(profile, "float", 2, 1);
  StepOps rank;
  TracedOp halo = call("linear", 5e6, 0, 20);
  halo.cost.messages = 1;
  halo.cost.message_bytes = 8;
  rank.ops = {halo, call("reduction", 0, 0, 1)};
  rank.steps = 1;
  const Prediction often = predict({rank}, profile, times, two);
  const double computing = often.forward + often.backward + often.optimiser;
  EXPECT_NEAR(often.straggler, (straggler_factor(profile, two, computing / 21) - 1) * computing, 1e-12);
  rank.ops[0].cost.messages = 0;
  const Prediction seldom = predict({rank}, profile, times, two);
  EXPECT_NEAR(seldom.straggler, (straggler_factor(profile, two, computing) - 1) * computing, 1e-12);
  EXPECT_LT(seldom.straggler, 0.9 * often.straggler);
}

TEST(Prediction, SumsWhatRanksSendAndOverGroups) {
  const MachineProfile profile = machine();
  const OpTimes times(profile, "float", 2, 1);
  StepOps rank;
  rank.steps = 2;
  rank.sent = {6, 800};
  rank.ops = {call("group_reduction", 0, 0, 2)};
  rank.ops[0].cost.message_bytes = 1e3;
  const Prediction p =
      predict({rank, rank, rank}, profile, times, {.ranks = 4, .hosts = 2, .time_groups = 2});
  EXPECT_EQ(p.sent_messages, 9);
  EXPECT_EQ(p.sent_bytes, 1200);
  EXPECT_EQ(p.sent_ranks, 3);
  EXPECT_NEAR(p.reduction, 2e-6 + 1e3 / 1e9, 1e-12) << "over two groups, not four ranks";
  EXPECT_EQ(p.unmeasured, (std::vector<std::string>{"messages between hosts"}));
  EXPECT_EQ(p.left_out, std::vector<std::string>());

  MachineProfile alone = machine();
  alone.messages.clear();
  alone.stragglers.clear();
  const Place two{.ranks = 2, .hosts = 1, .time_groups = 2}, one{.ranks = 1, .hosts = 1};
  EXPECT_EQ(predict({rank}, alone, times, two).left_out,
            (std::vector<std::string>{"allreduce between ranks", "differences in speed between ranks"}));
  EXPECT_EQ(predict({rank}, alone, times, one).left_out, std::vector<std::string>());
}

TEST(WhatIf, OnlyWhatIsBoundBecomesFaster) {
  MachineProfile profile = machine();
  profile.ops.clear();
  profile.ops.push_back(sample("of_memory", 1e3, 1e6, 2e-4));   // 1e-4 s of it at the bandwidth
  profile.ops.push_back(sample("of_compute", 1e7, 1e3, 1e-4));  // all of it at the rate of products
  profile.ops.push_back(sample("of_cache", 1e3, 1e6, 5e-5));    // faster than the bandwidth
  const auto seconds = [&](const FasterBy& factors, std::size_t op) {
    const OpSample& of = profile.ops[op];
    return OpTimes(what_if(profile, factors), "float", 1, 1)
        .seconds(call(of.op, of.cost.flops, of.cost.bytes))
        .seconds;
  };
  EXPECT_EQ(json_of(what_if(profile, {})).dump(), json_of(profile).dump());
  EXPECT_NEAR(seconds({.memory = 2}, 0), 1.5e-4, 1e-12);
  EXPECT_NEAR(seconds({.compute = 2}, 0), 2e-4, 1e-12);
  EXPECT_NEAR(seconds({.memory = 0.5}, 0), 3e-4, 1e-12) << "half as fast";
  EXPECT_NEAR(seconds({.memory = 2}, 1), 1e-4, 1e-12);
  EXPECT_NEAR(seconds({.compute = 4}, 1), 2.5e-5, 1e-12);
  EXPECT_NEAR(seconds({.compute = 1e9}, 1), 1e3 / 1e10, 1e-12) << "its bytes are left";
  EXPECT_NEAR(seconds({.memory = 4}, 2), 5e-5, 1e-12);
  const MachineProfile network = what_if(profile, {.network = 2}), latency = what_if(profile, {.latency = 2});
  const Place two{.ranks = 2};
  EXPECT_NEAR(message_seconds(network, "gather", two, 1, 1e3), 2e-6, 1e-12) << "the smallest is latency";
  EXPECT_NEAR(message_seconds(network, "gather", two, 1, 1e5), 2e-6 + 99e3 / 2e9, 1e-12);
  EXPECT_NEAR(message_seconds(latency, "gather", two, 1, 1e5), 1e-6 + 99e3 / 1e9, 1e-12);
  EXPECT_EQ(what_if(profile, {.memory = 3}).rates[0].rate, 3e10);
  EXPECT_EQ(what_if(profile, {.compute = 3}).rates[1].rate, 3e11);
}

TEST(WhatIf, NothingBecomesSlowerOnAFasterMachine) {
  MachineProfile profile = machine();
  profile.ops.clear();
  // Some are bound by memory, some by products, some by neither; none follows a polynomial.
  for (int k = 0; k < 12; ++k) {
    const double size = 1e4 * std::pow(3.0, k % 6);
    profile.ops.push_back(sample("op", size * (1 + 40 * (k % 3)), size, (1 + k % 4) * size / 1e10 + 1e-6));
  }
  const auto seconds = [&](const FasterBy& factors, double flops, double bytes) {
    TracedOp asked = call("op", flops, bytes);
    asked.footprint = 2e6;
    return OpTimes(what_if(profile, factors), "float", 1, 1).seconds(asked).seconds;
  };
  for (const double bytes : {3e3, 2e4, 5e5, 7e6})
    for (const double ratio : {0.5, 7.0, 90.0}) {
      const double flops = ratio * bytes;
      double before[] = {seconds({}, flops, bytes), seconds({}, flops, bytes)};
      for (const double factor : {1.5, 2.0, 10.0, 1000.0}) {
        const double now[] = {seconds({.memory = factor}, flops, bytes),
                              seconds({.compute = factor}, flops, bytes)};
        for (int k = 0; k < 2; ++k) {
          EXPECT_LE(now[k], before[k] * (1 + 1e-12)) << bytes << " " << ratio << " " << factor;
          before[k] = now[k];
        }
      }
    }
}

TEST(Prediction, WithoutRatesSaysWhatItLeavesOut) {
  MachineProfile profile = machine();
  StepOps rank;
  rank.steps = 1;
  rank.ops = {call("linear", 8e5, 1e5), call("never", 1e6, 1e6)};
  const Prediction with = predict({rank}, profile, OpTimes(profile, "float", 1, 1), {});
  EXPECT_EQ(with.unmeasured, std::vector<std::string>{"never"});
  EXPECT_TRUE(with.left_out.empty());
  profile.rates.clear();
  const Prediction without = predict({rank}, profile, OpTimes(profile, "float", 1, 1), {});
  EXPECT_EQ(without.left_out, std::vector<std::string>{"never"});
  EXPECT_TRUE(without.unmeasured.empty());
}

TEST(Prediction, SaysThatManyMoreRanksWereNotMeasured) {
  const MachineProfile profile = machine();
  const OpTimes times(profile, "float", 2, 1);
  StepOps rank;
  rank.steps = 1;
  rank.ops = {call("linear", 8e5, 1e5)};
  EXPECT_TRUE(predict({rank}, profile, times, {.ranks = 8}).unmeasured.empty());
  EXPECT_EQ(predict({rank}, profile, times, {.ranks = 9}).unmeasured,
            std::vector<std::string>{"messages and stragglers of more than 4 ranks on 1 host"});
}

TEST(Prediction, TellsAValidationAsAStepOfItsCalls) {
  const MachineProfile profile = machine();
  const OpTimes times(profile, "float", 2, 1);
  const Place place{.ranks = 4, .hosts = 2, .stages = 2};
  StepOps rank, other, validation;
  rank.steps = 10;
  rank.ops = {call("linear", 8e5, 1e5)};
  EXPECT_EQ(predict({rank}, profile, times, place).validation, 0);
  TracedOp halo = call("linear", 8e4, 1e4, 6);
  halo.backward = false;
  halo.cost.messages = 1;
  halo.cost.message_bytes = 1e4;
  rank.validation = {halo, call("never", 1e6, 1e6)};
  other = rank;
  other.validation[0].calls = 2;
  validation.steps = 1;
  validation.ops = rank.validation;
  const Prediction p = predict({other, rank}, profile, times, place);
  const Prediction one = predict({validation}, profile, times, {.ranks = 4, .hosts = 2});
  EXPECT_NEAR(p.validation, one.step(), 1e-15);
  EXPECT_EQ(std::ranges::count(p.unmeasured, "never"), 1);
  const auto json = json_of(p);
  EXPECT_EQ(json["validation_seconds"], p.validation);
  EXPECT_EQ(p.validation_far_share, one.far_share);
  EXPECT_GT(p.validation_far_share, 0.5) << "of calls like none that was measured";
}

TEST(Stragglers, OfOneRankSayNothingOfMore) {
  MachineProfile profile = machine();
  profile.stragglers = {{1, 1, 1.0}};
  const Place two{.ranks = 2};
  EXPECT_EQ(predict({StepOps{}}, profile, OpTimes(profile, "float", 2, 1), two).left_out,
            std::vector<std::string>{"differences in speed between ranks"});
  profile.stragglers.push_back({4, 1, 1.25});
  EXPECT_NEAR(straggler_factor(profile, two, 1e-3), 1.25, 1e-12) << "not the nearer one of one rank";
}

TEST(Prediction, IsTheSlowestRanksCallsAndMessages) {
  const MachineProfile profile = machine();
  const OpTimes times(profile, "float", 2, 1);
  StepOps fast, slow;
  fast.ops = {call("linear", 8e4, 1e4, 2)};
  slow.ops = {call("linear", 8e4, 1e4, 6), call("optimiser", 0, 1e6, 2), call("reduction", 0, 0, 2)};
  slow.ops[1].beside = slow.ops[2].beside = true;
  TracedOp halo = call("linear", 8e4, 1e4, 2);
  halo.backward = false;
  halo.cost.messages = 1;
  halo.cost.message_bytes = 1e4;
  slow.ops.push_back(halo);
  slow.ops[2].cost.message_bytes = 1e3;
  fast.steps = slow.steps = 2;
  fast.array_bytes = 5000;
  slow.array_bytes = 4000;
  fast.epoch_steps = slow.epoch_steps = 10;
  const Prediction p = predict({fast, slow}, profile, times, {2, 1, 1});
  const double linear = 1e4 / 0.5e10;
  EXPECT_NEAR(p.forward, 4 * linear, 1e-9);
  EXPECT_EQ(p.backward, 0);
  EXPECT_NEAR(p.optimiser, 1e6 / 1e10, 1e-9);
  EXPECT_NEAR(p.messages, 1e-6 + 1e4 / 1e9, 1e-12);
  EXPECT_NEAR(p.reduction, 2e-6 + 1e3 / 1e9, 1e-12);
  EXPECT_NEAR(p.straggler, 0.1 * (p.forward + p.optimiser), 1e-12);
  EXPECT_NEAR(p.step(), p.forward + p.optimiser + p.messages + p.reduction + p.straggler, 1e-15);
  EXPECT_EQ(p.epoch_steps, 10);
  EXPECT_EQ(p.memory_bytes, 6000);
  MachineProfile cut = profile;
  cut.cut_bytes = 1500;
  slow.cuts_graph = true;
  EXPECT_EQ(predict({fast, slow}, cut, times, {2, 1, 1}).memory_bytes, 6500) << "1000 and 4000 of its own";
  EXPECT_EQ(p.unmeasured, (std::vector<std::string>{"optimiser"}));
  EXPECT_EQ(p.imbalance, 0) << "there may be others";
  const double most = p.forward + p.optimiser;
  EXPECT_NEAR(predict({fast, slow}, profile, times, {2, 1, 1}, true).imbalance, most / ((most + linear) / 2),
              1e-9);
}

/// A machine of two cores and 1 GB of memory, with measured files.
MachineProfile with_files() {
  MachineProfile profile = machine();
  profile.memory_bytes = 1e9;
  for (const auto& [kind, rate] :
       {std::pair("file_read", 1e10), {"file_write", 5e9}, {"disk_read", 1e9}, {"disk_write", 5e8}})
    profile.rates.push_back({kind, 1, 1, 1e8, rate, 0});
  return profile;
}

TEST(Transfers, AreHiddenBehindComputingWhereACoreIsFree) {
  const Moved moved{1e6, 1e6};
  constexpr double copy = 1e6 / 1e10 + 1e6 / 5e9;
  const TransferTimes one(with_files(), {1, 1, 1e6, 1e6});
  EXPECT_EQ(one.waiting(1e-3, moved), 0);
  EXPECT_NEAR(one.waiting(1e-4, moved), copy - 1e-4, 1e-15);
  EXPECT_NEAR(one.waiting(0, moved), copy, 1e-15);
  EXPECT_EQ(one.waiting(1e-3, {}), 0);
  const TransferTimes threads(with_files(), {1, 2, 1e6, 1e6}), ranks(with_files(), {2, 1, 1e6, 1e6});
  EXPECT_NEAR(threads.waiting(1e-3, moved), copy / 2, 1e-15) << "two cores compute and copy";
  EXPECT_NEAR(ranks.waiting(1e-3, moved), copy, 1e-15) << "a rank has one core";
  const TransferTimes crowd(with_files(), {8, 1, 1e6, 1e6});
  EXPECT_NEAR(crowd.waiting(1e-3, moved), 4 * copy, 1e-15) << "four on a core";
}

TEST(Transfers, GoToTheDiskWhereMemoryDoesNotHoldTheFiles) {
  const Moved moved{1e6, 1e6};
  constexpr double read = 1e6 / 1e9, written = 1e6 / 5e8, copied = 1e6 / 1e10, put = 1e6 / 5e9;
  const auto waiting = [&](double streamed) {
    return TransferTimes(with_files(), {1, 1, streamed, 5e8}).waiting(0, moved);
  };
  EXPECT_NEAR(waiting(0.99e8), copied + put, 1e-15);
  EXPECT_NEAR(waiting(1.01e8), copied + put, 1e-15) << "a fifth of what is left may wait for the disk";
  EXPECT_NEAR(waiting(2e8), copied + written / 2, 1e-15);
  EXPECT_NEAR(waiting(4e8), copied + written * 3 / 4, 1e-15);
  EXPECT_NEAR(waiting(8e8), read + written * 7 / 8, 1e-15);
  MachineProfile unknown = with_files();
  unknown.memory_bytes = 0;
  EXPECT_NEAR(TransferTimes(unknown, {1, 1, 1e12, 0}).waiting(0, moved), copied + put, 1e-15);
  EXPECT_FALSE(TransferTimes(machine(), {1, 1, 1e12, 0}).measured());
  EXPECT_EQ(TransferTimes(machine(), {1, 1, 1e12, 0}).waiting(0, moved), 0);
}

TEST(Transfers, AreAddedToCallsThatWereMeasuredInMemory) {
  MachineProfile profile = with_files();
  StepOps rank;
  rank.steps = 2;
  rank.streamed_bytes = 3e8;
  rank.array_bytes = 1e8;
  rank.ops = {call("linear_streamed", 8e4, 1e4, 4)};
  rank.ops[0].moved = {1e6, 1e6};
  const auto predicted = [&](const MachineProfile& of, int ranks) {
    return predict({rank}, of, OpTimes(of, "float", 1, 1), {.ranks = ranks});
  };
  const double linear = 1e4 / 1e10, copied = 1e6 / 1e10, put = 1e6 / 5e9, written = 1e6 / 5e8;
  Prediction p = predicted(profile, 1);
  EXPECT_NEAR(p.forward, 2 * linear, 1e-9);
  const auto to_disk = [&](double left, double files) { return written * (1 - 0.2 * left / files); };
  EXPECT_NEAR(p.transfer, 2 * (copied + to_disk(9e8 - 1000, 3e8) - linear), 1e-9);
  EXPECT_NEAR(p.step(), p.forward + p.transfer, 1e-15);
  EXPECT_TRUE(p.unmeasured.empty());
  EXPECT_NEAR(p.far_share, 0, 1e-12) << "computing is known";
  profile.memory_bytes = 2e9;
  EXPECT_NEAR(predicted(profile, 1).transfer, 2 * (copied + put - linear), 1e-9);
  EXPECT_NEAR(predicted(profile, 2).transfer, 2 * (copied + to_disk(18e8 - 2000, 6e8) - linear), 1e-9)
      << "two ranks have 600 MB of files";
  EXPECT_EQ(predicted(machine(), 1).unmeasured, (std::vector<std::string>{"chunks of streamed relations"}));
  // A call measured while it moved chunks includes all of its time.
  profile.ops.push_back(sample("linear_streamed", 8e4, 1e4, 5e-3));
  p = predicted(profile, 1);
  EXPECT_NEAR(p.forward, 2 * 5e-3, 1e-6);
  EXPECT_EQ(p.transfer, 0);
}

/// The machine with a device of 2 GB. Its calls take a fifth of the host's time, and 3 us of the host.
MachineProfile with_device() {
  MachineProfile profile = machine();
  profile.device = {"a device", 1, 2e9, 7e-6};
  const std::vector<OpSample> host = profile.ops;
  for (OpSample on : host) {
    on.on_device = true;
    on.threads = 8;  // has no effect
    on.seconds /= 5;
    on.host_seconds = 3e-6;
    profile.ops.push_back(on);
  }
  profile.messages.push_back({"gather", 2, 1, 1, 1e5, 3e-4, 0, "staged"});
  profile.messages.push_back({"allreduce", 2, 1, 1, 1e5, 4e-4, 0, "staged"});
  profile.stragglers.push_back({2, 1, 1.5, true});
  for (const auto& [kind, rate] : {std::pair("device_stream", 1e12),
                                   {"device_gemm", 1e13},
                                   {"copy_in", 4e9},
                                   {"copy_out", 2e9},
                                   {"pinned_in", 2e10},
                                   {"pinned_out", 1e10},
                                   {"pinned_both", 2.4e10}})
    profile.rates.push_back({kind, 1, 1, 1e8, rate, 0});
  return profile;
}

Prediction on_device(const MachineProfile& profile, const StepOps& rank, Place place) {
  place.on_device = true;
  place.transport = "staged";
  const OpTimes times(profile, "float", place.ranks_on_host(), 1, nullptr, Timed::device);
  const OpTimes launches(profile, "float", place.ranks_on_host(), 1, nullptr, Timed::launches);
  return predict({rank}, profile, times, place, false, &launches);
}

TEST(OpTimes, OfADeviceAreNotTheHosts) {
  const MachineProfile profile = with_device();
  const auto of = [&](Timed what, const char* op, int ranks = 1) {
    return OpTimes(profile, "float", ranks, 1, nullptr, what).seconds(call(op, 8e4, 1e4));
  };
  EXPECT_NEAR(of(Timed::host, "linear").seconds, 1e-6, 1e-12);
  EXPECT_NEAR(of(Timed::device, "linear").seconds, 2e-7, 1e-12);
  EXPECT_NEAR(of(Timed::launches, "linear").seconds, 3e-6, 1e-12);
  EXPECT_NEAR(of(Timed::device, "tanh").seconds, 1e4 / 1e12, 1e-15);
  EXPECT_NEAR(of(Timed::launches, "tanh").seconds, 3e-6, 1e-12) << "as long as others";
  // Two ranks were measured on one device: four take turns. The host has two cores.
  EXPECT_NEAR(of(Timed::device, "linear", 4).seconds / of(Timed::device, "linear", 2).seconds, 2, 1e-9);
  EXPECT_NEAR(of(Timed::launches, "linear", 4).seconds, 2 * 3e-6, 1e-12);
  try {
    (void)OpTimes(profile, "tf32", 1, 1, nullptr, Timed::device);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("devices of the machine were not measured in tf32"),
              std::string::npos);
  }
}

TEST(Prediction, OfADeviceTakesAsLongAsTheSlowerOfItAndTheHost) {
  const MachineProfile profile = with_device();
  StepOps rank;
  rank.steps = 1;
  rank.array_bytes = 5000;
  rank.device_bytes = 1e6;
  rank.device_waits = 1;
  rank.ops = {call("linear", 8e6, 1e6, 2), call("reduction", 0, 0, 1)};
  rank.ops[1].beside = true;
  rank.ops[1].cost.message_bytes = 1e3;
  const double linear = 1e6 / 1e10 / 5;
  Prediction p = on_device(profile, rank, {1, 1, 1});
  EXPECT_NEAR(p.forward, 2 * linear, 1e-12);
  EXPECT_NEAR(p.launches, 7e-6, 1e-12) << "the wait alone: the host is ahead";
  EXPECT_NEAR(p.reduction, 3e-6, 1e-12) << "the host's part of it, which nothing hides";
  EXPECT_NEAR(p.step(), 2 * linear + 7e-6 + 3e-6, 1e-9);
  EXPECT_EQ(p.memory_bytes, 0) << "of the host: not known";
  EXPECT_EQ(p.device_bytes, 1e6);
  EXPECT_EQ(p.unmeasured.size(), 0U);
  rank.device_waits = 0;
  EXPECT_EQ(on_device(profile, rank, {1, 1, 1}).launches, 0) << "steps run ahead";
  rank.device_waits = 1;
  // Calls shorter than their launches.
  rank.ops[0] = call("linear", 8e4, 1e4, 100);
  p = on_device(profile, rank, {1, 1, 1});
  EXPECT_NEAR(p.forward, 100 * 2e-7, 1e-12);
  EXPECT_NEAR(p.forward + p.launches, 100 * 3e-6 + 7e-6, 1e-12);
  // Two ranks: halos through the host's memory, the reduction of data that the host has fetched.
  rank.ops[0].cost.messages = 1;
  rank.ops[0].cost.message_bytes = 1e5;
  p = on_device(profile, rank, {2, 1, 1});
  EXPECT_NEAR(p.messages, 100 * 3e-4, 1e-12);
  EXPECT_NEAR(p.reduction, 2e-6 + 1e3 / 1e9 + 3e-6, 1e-12);
  EXPECT_NEAR(p.straggler, 0.5 * p.forward, 1e-9);
  // Ranks that run ahead sum on the devices; host values travel beside these sums.
  rank.device_waits = 0;
  rank.ops[1].name = "device_reduction";
  rank.ops.push_back(call("vote", 0, 0, 1));
  rank.ops[2].beside = true;
  rank.ops[2].cost.message_bytes = 32;
  p = on_device(profile, rank, {2, 1, 1});
  EXPECT_NEAR(p.reduction, 4e-4, 1e-12);
  EXPECT_NEAR(p.forward + p.launches, 100 * 3e-6 + 3e-6, 1e-12) << "beside them, not behind";
  EXPECT_EQ(json_of(p).contains("launches"), true);
  EXPECT_EQ(
      json_of(predict({rank}, profile, OpTimes(profile, "float", 1, 1), {1, 1, 1})).contains("launches"),
      false);
}

TEST(Prediction, OfADeviceSaysThatItsHostsUpdatesAreLeftOut) {
  StepOps rank;
  rank.steps = 1;
  rank.ops = {call("linear_streamed_updated_on_host", 8e4, 1e4)};
  rank.ops[0].moved = {1e6, 2e6};
  const Prediction p = on_device(with_device(), rank, {1, 1, 1});
  EXPECT_EQ(p.unmeasured, (std::vector<std::string>{"updates of streamed relations on the host"}));
  EXPECT_NEAR(p.transfer, 2e6 / 1e10 - 2e-7, 1e-12) << "out of it alone, at 10 GB/s";
}

TEST(Messages, OfATransportThatWasNotMeasuredAreTheHosts) {
  const MachineProfile profile = with_device();
  Place place{2, 1, 1};
  EXPECT_NEAR(message_seconds(profile, "gather", place, 1, 1e5), 1e-6 + 1e5 / 1e9, 1e-12);
  place.transport = "staged";
  EXPECT_EQ(message_seconds(profile, "gather", place, 1, 1e5), 3e-4);
  place.transport = "nccl";
  EXPECT_NEAR(message_seconds(profile, "gather", place, 1, 1e5), 1e-6 + 1e5 / 1e9, 1e-12);
}

TEST(Transfers, ToADeviceGoTheWayThatWasAskedFor) {
  const Moved moved{1e6, 1e6};
  const auto waiting = [&](Transfer way, double computing, const Moved& of) {
    const TransferTimes times(with_device(), {1, 1, 0, 0, true, way});
    EXPECT_TRUE(times.measured());
    return times.waiting(computing, of);
  };
  constexpr double pageable = 1e6 / 4e9 + 1e6 / 2e9, pinned = 1e6 / 2e10 + 1e6 / 1e10, out = 1e6 / 1e10;
  for (const double computing : {0.0, 1e-5, 1.0}) {
    EXPECT_NEAR(waiting(Transfer::pageable, computing, moved), pageable, 1e-15) << "the host waits";
    EXPECT_NEAR(waiting(Transfer::pinned, computing, moved), pinned, 1e-15);
  }
  EXPECT_NEAR(waiting(Transfer::pageable_async, 1e-5, moved), pageable - 1e-5, 1e-15) << "the host copies";
  EXPECT_NEAR(waiting(Transfer::pinned_async, 1e-5, moved), out - 1e-5, 1e-15) << "the slower direction";
  EXPECT_NEAR(waiting(Transfer::pinned_async, 1e-5, {2e6, 1e6}), 3e6 / 2.4e10 - 1e-5, 1e-15)
      << "both together";
  EXPECT_EQ(waiting(Transfer::pinned_async, 1.0, moved), 0);
  EXPECT_EQ(waiting(Transfer::pageable_async, 1.0, moved), 0);
  EXPECT_FALSE(TransferTimes(with_files(), {1, 1, 0, 0, true}).measured()) << "files say nothing of a device";
}

TEST(MachineProfile, KeepsDevicesApartFromTheHost) {
  const MachineProfile profile = with_device();
  const auto json = json_of(profile);
  const MachineProfile back = profile_of(nlohmann::ordered_json::parse(json.dump()), "here");
  EXPECT_EQ(json_of(back).dump(), json.dump());
  EXPECT_EQ(back.device.count, 1);
  EXPECT_EQ(json_of(machine()).contains("device"), false) << "as files of before";
  const std::pair<const char*, double> damages[] = {
      {"/cores", 0}, {"/memory_bytes", -1}, {"/ops/0/seconds", 1e300}};
  for (const auto& [place, value] : damages) {
    auto damaged = json;
    damaged[nlohmann::ordered_json::json_pointer(place)] = value;
    EXPECT_THROW((void)profile_of(damaged, "here"), UserError) << place;
  }
  // A second measurement keeps host and device side by side; another device is refused.
  MachineProfile both = machine();
  merge(both, profile);
  EXPECT_EQ(both.ops.size(), profile.ops.size());
  EXPECT_EQ(both.messages.size(), profile.messages.size());
  EXPECT_EQ(both.stragglers.size(), profile.stragglers.size());
  EXPECT_EQ(both.device.name, "a device");
  merge(both, machine());
  EXPECT_EQ(both.device.name, "a device") << "the host alone was measured again";
  EXPECT_EQ(both.ops.size(), profile.ops.size());
  MachineProfile other = profile;
  other.device.name = "another";
  EXPECT_THROW(merge(both, other), UserError);
  for (const auto& [key, wrong] : {std::pair("count", 0), {"memory_bytes", -1}, {"wait_seconds", -1}}) {
    auto bad = json;
    bad["device"][key] = wrong;
    EXPECT_THROW((void)profile_of(bad, "here"), UserError) << key;
  }
  auto bad = json;
  bad["ops"].back()["host_seconds"] = -1.0;
  EXPECT_THROW((void)profile_of(bad, "here"), UserError);
  // A host call must take some time; a device call may take only the host's.
  bad = json;
  bad["ops"].back()["seconds"] = 0;
  EXPECT_NO_THROW((void)profile_of(bad, "here"));
  bad["ops"].front()["seconds"] = 0;
  EXPECT_THROW((void)profile_of(bad, "here"), UserError);
}

TEST(WhatIf, DevicesAreThoseOfAnotherMachine) {
  MachineProfile other = with_device();
  for (OpSample& sample : other.ops) sample.seconds /= 10;
  other.device.name = "a quicker one";
  const std::size_t ops = with_device().ops.size();
  for (const MachineProfile& own : {machine(), with_device()}) {
    const MachineProfile with = with_devices_of(own, other);
    EXPECT_EQ(with.device.name, "a quicker one");
    EXPECT_EQ(with.ops.size(), ops);
    EXPECT_EQ(with.messages.size(), with_device().messages.size());
    EXPECT_EQ(with.rates.size(), with_device().rates.size());
    EXPECT_EQ(with.stragglers.size(), with_device().stragglers.size());
    const auto of = [&](Timed what) {
      return OpTimes(with, "float", 1, 1, nullptr, what).seconds(call("linear", 8e4, 1e4)).seconds;
    };
    EXPECT_NEAR(of(Timed::host), 1e-6, 1e-12) << "the host stays";
    EXPECT_NEAR(of(Timed::device), 2e-8, 1e-12);
  }
  EXPECT_THROW((void)with_devices_of(machine(), machine()), UserError);
}

TEST(WhatIf, ADevicesCallsAreBoundByItsOwnRates) {
  const MachineProfile profile = with_device();
  const auto seconds = [](const MachineProfile& of) {
    return OpTimes(of, "float", 1, 1, nullptr, Timed::device).seconds(call("linear", 8e6, 1e6)).seconds;
  };
  // 20 us; bytes take 1 us at the device's bandwidth, flops 0.8 us. At the host's: 100 us.
  const double before = seconds(profile);
  EXPECT_NEAR(seconds(what_if(profile, {.memory = 2})), before - 0.5e-6, 1e-11);
  EXPECT_NEAR(seconds(what_if(profile, {.compute = 2})), before, 1e-12);
  EXPECT_NEAR(seconds(what_if(profile, {.transfer = 2})), before, 1e-12);
  const MachineProfile faster = what_if(profile, {.memory = 3, .compute = 5, .transfer = 2});
  for (const auto& [kind, by] : {std::pair("stream", 3),
                                 {"device_stream", 3},
                                 {"gemm", 5},
                                 {"device_gemm", 5},
                                 {"copy_in", 2},
                                 {"pinned_both", 2}})
    EXPECT_NEAR(rate_of(faster, kind, 1) / rate_of(profile, kind, 1), by, 1e-12) << kind;
}

TEST(MachineProfile, SurvivesJson) {
  const MachineProfile profile = machine();
  const MachineProfile back = profile_of(nlohmann::ordered_json::parse(json_of(profile).dump()), "here");
  EXPECT_EQ(json_of(back).dump(), json_of(profile).dump());
  EXPECT_THROW((void)profile_of(nlohmann::ordered_json::parse("{\"format\": 2}"), "here"), UserError);
  EXPECT_THROW((void)profile_of(nlohmann::ordered_json::parse("{\"format\": 1}"), "here"), UserError);
  nlohmann::ordered_json timeless = json_of(profile);
  timeless["ops"][0]["seconds"] = 0;
  EXPECT_THROW((void)profile_of(timeless, "here"), UserError);
  for (const char* size : {"flops", "bytes", "footprint_bytes", "rows", "columns", "channels"})
    for (const double beyond : {-1.0, 1e18}) {
      const bool count = size[0] == 'r' || size[0] == 'c';
      nlohmann::ordered_json wrong = json_of(profile);
      wrong["ops"][1][size] = beyond;
      if (count) wrong["ops"][1][size] = static_cast<Index>(beyond);
      if (!count && beyond > 0) continue;
      EXPECT_THROW((void)profile_of(wrong, "here"), UserError) << size << ' ' << beyond;
    }
  EXPECT_THROW((void)read_profile("no/such/file.json"), UserError);
}

TEST(MachineProfile, MergesByWhatWasMeasured) {
  MachineProfile profile = machine(), more = machine();
  more.ops = {sample("linear", 8e4, 1e4, 5.0), sample("tanh", 1, 1, 1e-6)};
  more.messages = {{"gather", 2, 1, 1, 1e3, 9.0, 0}};
  more.rates = {{"gemm", 1, 1, 512, 7.0, 0}};
  more.stragglers = {{4, 1, 1.3}};
  const std::size_t before = profile.ops.size();
  merge(profile, more);
  EXPECT_EQ(profile.ops.size(), before + 1);
  EXPECT_EQ(OpTimes(profile, "float", 1, 1).seconds(call("linear", 8e4, 1e4)).distance, 0);
  EXPECT_NEAR(OpTimes(profile, "float", 1, 1).seconds(call("linear", 8e4, 1e4)).seconds, 5, 0.01);
  EXPECT_EQ(message_seconds(profile, "gather", {2, 1, 1}, 1, 1e3), 9.0);
  EXPECT_EQ(profile.messages.size(), machine().messages.size());
  EXPECT_EQ(profile.rates.size(), 2U);
  EXPECT_EQ(profile.stragglers.size(), 2U);
  const double process = profile.process_bytes;
  for (const double larger : {100.0, -100.0}) {
    more.process_bytes = process + larger;
    more.cut_bytes = 500 + larger;
    merge(profile, more);
    EXPECT_EQ(profile.process_bytes, process + 100) << "the largest of one version";
    EXPECT_EQ(profile.cut_bytes, 600);
  }
  more.version += " later";
  merge(profile, more);
  EXPECT_EQ(profile.process_bytes, process - 100) << "of another version the last";
  EXPECT_EQ(profile.cut_bytes, 400);
  more.process_bytes = 0;
  merge(profile, more);
  EXPECT_EQ(profile.process_bytes, process - 100) << "not measured again";
  more.cores = 64;
  EXPECT_THROW(merge(profile, more), UserError) << "another machine";
}

// Which sizes are measured depends on the times of others: old sizes must not remain in between.
TEST(MachineProfile, MergesWholeCurvesOfMessages) {
  MachineProfile profile = machine(), more = machine();
  profile.messages = {{"gather", 2, 1, 1, 1e3, 1.0, 0},        {"gather", 2, 1, 1, 3e3, 9.0, 0},
                      {"gather", 2, 1, 1, 8e3, 2.0, 0},        {"gather", 2, 1, 1, 64e3, 3.0, 0},
                      {"gather", 2, 1, 2, 3e3, 4.0, 0},        {"gather", 4, 1, 1, 3e3, 5.0, 0},
                      {"gather", 2, 2, 1, 3e3, 6.0, 0},        {"scatter_add", 2, 1, 1, 3e3, 7.0, 0},
                      {"gather", 2, 1, 1, 3e3, 8.0, 0, "nccl"}};
  more.messages = {{"gather", 2, 1, 1, 1e3, 1.5, 0}, {"gather", 2, 1, 1, 8e3, 2.5, 0}};
  merge(profile, more);
  EXPECT_EQ(profile.messages.size(), 8U) << "without the one between";
  const Place place{2, 1, 1};
  EXPECT_EQ(message_seconds(profile, "gather", place, 1, 1e3), 1.5);
  EXPECT_NEAR(message_seconds(profile, "gather", place, 1, 3e3), 1.5 + 2.0 / 7, 1e-12);
  EXPECT_EQ(message_seconds(profile, "gather", place, 1, 8e3), 2.5);
  EXPECT_EQ(message_seconds(profile, "gather", place, 1, 64e3), 3.0) << "beyond what was measured again";
  EXPECT_EQ(message_seconds(profile, "gather", place, 2, 3e3), 4.0) << "another number of messages";
  EXPECT_EQ(message_seconds(profile, "scatter_add", place, 1, 3e3), 7.0);
}

}  // namespace
}  // namespace rossby
