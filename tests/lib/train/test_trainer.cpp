#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/ops.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {
namespace {

/// Fits one number to 3 by least squares; the validation error is scripted.
class Quadratic final : public Task<double> {
 public:
  explicit Quadratic(std::vector<double> validation) : validation_(std::move(validation)) {
    x_.value[0] = 0;
    all_ = {&x_};
  }
  std::span<Parameter<double>* const> parameters() override { return all_; }
  Index batches() const override { return 2; }
  void start_epoch(Index) override {}
  void record(Tape<double>& tape, Index batch, Index, Losses& losses) override {
    if (weight_of_second != 1) {
      target = batch == 0 ? 3.0F : 1.0F;
      weight_ = batch == 0 ? 1 : weight_of_second;
    }
    const std::vector<Index> times{0};
    const Var<double> x = embed_columns(tape, x_, std::span<const Index>(times));
    masked_squared_error(tape, x, NodeView<const float>(&target, 1, 1, 1), 1.0, losses.add("squares", 1.0));
  }
  double weight() const override { return weight_; }
  double node_steps() const override { return 1; }
  double validate(Tape<double>&) override { return next_ < validation_.size() ? validation_[next_++] : NAN; }

  double weight_of_second = 1;  // weight of the second batch, whose target is 1
  float target = 3;
  Parameter<double> x_{"x", Placement::rows, {1, 1, 1}};

 private:
  double weight_ = 1;
  std::vector<double> validation_;
  std::size_t next_ = 0;
  std::vector<Parameter<double>*> all_;
};

struct Outcome {
  TrainingResult result;
  double value;
  std::vector<double> after_epoch;
};

Outcome train(Quadratic& task, const TrainerOptions& options, const ScheduleOptions& schedule = {.lr = 0.1}) {
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Trainer<double> trainer(options, schedule, task, optimiser, reducer, Exec{});
  Outcome outcome;
  outcome.result = trainer.run([&](const EpochReport&) { outcome.after_epoch.push_back(task.x_.value[0]); });
  outcome.value = task.x_.value[0];
  return outcome;
}

TEST(Trainer, Converges) {
  Quadratic task({});
  const Outcome outcome = train(task, {.epochs = 100, .keep_best = false});
  EXPECT_NEAR(outcome.value, 3, 1e-9);
  EXPECT_EQ(outcome.result.steps, 200);
  EXPECT_EQ(outcome.result.reason, StopReason::epochs);
}

TEST(Trainer, WeighsBatchesInAnEpochsMean) {
  Quadratic task({});
  task.weight_of_second = 3;
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Trainer<double> trainer({.epochs = 1, .keep_best = false}, {.lr = 0}, task, optimiser, reducer, Exec{});
  double loss = 0;
  (void)trainer.run([&](const EpochReport& report) { loss = report.loss; });
  EXPECT_DOUBLE_EQ(loss, (9 * 1 + 1 * 3) / 4.0);
}

TEST(Trainer, KeepsTheBestState) {
  Quadratic task({5, 2, 3, 4});
  const Outcome outcome = train(task, {.epochs = 4, .keep_best = true});
  EXPECT_EQ(outcome.result.best_epoch, 1);
  EXPECT_EQ(outcome.value, outcome.after_epoch[1]);
  EXPECT_NE(outcome.value, outcome.after_epoch[3]);
}

TEST(Trainer, StopsEarly) {
  Quadratic task({5, 2, 3, 4, 1, 1});
  const Outcome outcome = train(task, {.epochs = 6, .early_stop = 2, .keep_best = false});
  EXPECT_EQ(outcome.result.epochs, 4);
  EXPECT_EQ(outcome.result.reason, StopReason::early_stop);
}

TEST(Trainer, StopsEarlyAfterEpochsHoweverSeldomItLooks) {
  Quadratic task({2, 5, 5, 5, 5, 5, 5, 5, 5, 5});
  const Outcome outcome =
      train(task, {.epochs = 10, .early_stop = 3, .validate_every = 2, .keep_best = false});
  EXPECT_EQ(outcome.result.epochs, 6) << "best at the second, looked at again at the fourth and the sixth";
}

// The last epoch of a run is validated out of turn. If it was the best, epochs count from there.
TEST(Trainer, StopsEarlyAfterABestEpochOutOfTurn) {
  Quadratic task({5, 1, 5, 5, 5, 5});
  const TrainerOptions seven{.epochs = 7, .early_stop = 5, .validate_every = 5, .keep_best = false};
  TrainerOptions more = seven;
  more.epochs = 50;
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Trainer<double> first(seven, {.lr = 0.1}, task, optimiser, reducer, Exec{});
  EXPECT_EQ(first.run(TrainerHooks{}).best_epoch, 6);
  Trainer<double> second(more, {.lr = 0.1}, task, optimiser, reducer, Exec{});
  second.restore(first.state());
  const TrainingResult result = second.run(TrainerHooks{});
  EXPECT_EQ(result.reason, StopReason::early_stop);
  EXPECT_EQ(result.epochs, 15) << "at the tenth three have gone by";
}

TEST(Trainer, SaysHowLongAValidationTakes) {
  Quadratic task({5, 4, 3, 2});
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Trainer<double> trainer({.epochs = 4, .validate_every = 2, .keep_best = false}, {.lr = 0.1}, task,
                          optimiser, reducer, Exec{});
  std::vector<bool> validated;
  (void)trainer.run([&](const EpochReport& report) { validated.push_back(report.validation_seconds > 0); });
  EXPECT_EQ(validated, (std::vector<bool>{false, true, false, true}));
}

TEST(Trainer, StopsWhenAsked) {
  Quadratic task({});
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Trainer<double> trainer({.epochs = 100, .keep_best = false}, {.lr = 0.1}, task, optimiser, reducer, Exec{});
  int asked = 0;
  const auto result = trainer.run([](const EpochReport&) {}, [&] { return ++asked == 5; });
  EXPECT_EQ(result.reason, StopReason::asked);
  EXPECT_EQ(result.steps, 5);
}

TEST(Trainer, ALossThatIsNotFiniteIsAnErrorAndChangesNothing) {
  Quadratic task({});
  task.x_.value[0] = INFINITY;
  try {
    train(task, {.epochs = 1, .keep_best = false});
    FAIL() << "an infinite loss must be an error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("not finite"), std::string::npos);
  }
  EXPECT_EQ(task.x_.value[0], INFINITY);
}

TEST(Trainer, AllocatesNoBufferAfterTheSecondStep) {
  Quadratic task({});
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::adam}, task.parameters());
  Step<double> step(task.parameters(), optimiser, reducer, 1.0);
  Tape<double> tape{Exec{}};
  Losses losses;
  Index before = 0;
  for (int s = 0; s < 10; ++s) {
    if (s == 3) before = detail::allocation_count();
    step.run(tape, 0.01, false, losses, [&] { task.record(tape, 0, s, losses); });
  }
  EXPECT_EQ(detail::allocation_count(), before);
}

TEST(Step, ClipsByTheGlobalNorm) {
  Quadratic task({});
  OneRankReducer reducer;
  Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, task.parameters());
  Step<double> step(task.parameters(), optimiser, reducer, 1.5);
  Tape<double> tape{Exec{}};
  Losses losses;
  const auto result = step.run(tape, 1.0, false, losses, [&] { task.record(tape, 0, 0, losses); });
  EXPECT_NEAR(result.gradient_norm, 6.0, 1e-12);  // 2 (0 − 3)
  EXPECT_NEAR(task.x_.value[0], 1.5, 1e-5);
}

}  // namespace
}  // namespace rossby
