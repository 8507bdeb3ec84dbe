// Runs that correct the forecasts of a linear baseline.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/run/hourly_runs.hpp"

namespace rossby {
namespace {

using namespace hourly;

class BaseForecasts : public HourlyRuns {
 protected:
  static std::vector<std::string> ridge(std::vector<std::string> more = {}) {
    more.emplace_back("model.base_forecast=direct_ridge");
    return more;
  }
  /// Models that are small enough for every test.
  static std::vector<std::vector<std::string>> models() {
    return {{"model.name=dcrnn", "model.sampling_decay=2"},
            {"model.name=tgcn"},
            {"model.name=graph_wavenet", "model.channels=3", "model.skip=5", "model.end=4", "model.blocks=2",
             "model.adaptive_width=2", "model.units=64"},
            {"model.name=stgcn", "model.block_channels=[4, 2, 4]", "window.inputs=9", "model.units=64"},
            {"model.name=stid", "model.input_embedding=3", "model.node_embedding=2",
             "model.residual_layers=1", "model.units=64", "relation.graph=none"}};
  }
  [[nodiscard]] std::string choices_of(const std::string& name) const {
    const auto metadata = nlohmann::json::parse(read_state_metadata(state_file_of(run(name))));
    return metadata.at("base_forecast").get<std::string>();
  }
};

TEST_F(BaseForecasts, UntrainedRunsScoreAsTheirBaseline) {
  const auto expect_base = [&](const std::string& name, const std::string& base,
                               const std::vector<std::string>& settings) {
    std::vector<std::string> sets = {"train.epochs=0", "model.base_forecast=" + base};
    sets.insert(sets.end(), settings.begin(), settings.end());
    train(world_, config(gru, sets), options(name));
    const HorizonScores found = scores(world_, name, {"evaluate.baselines=true"});
    for (std::size_t h = 0; h < 2; ++h) {
      const auto other = static_cast<std::size_t>(2 * found.find(base)) + h;
      EXPECT_NEAR(found.rmse[h], found.rmse[other], 1e-5 * found.rmse[other]) << name << " " << base;
      EXPECT_NEAR(found.mae[h], found.mae[other], 1e-5 * found.mae[other]) << name << " " << base;
    }
  };
  expect_base("ridge", "direct_ridge", {});
  expect_base("ar", "direct_ar", {"data.cycle=none"});
  expect_base("sqrt", "direct_ridge", {"data.transform=sqrt", "data.point=median", "data.trend=linear"});
  expect_base("levels", "direct_ar", {"train.loss=pinball", "train.quantiles=[10, 50, 90]"});
  if (world_.size() > 1) return;
  for (const std::vector<std::string>& model : models()) expect_base(model.front(), "direct_ar", model);
}

TEST_F(BaseForecasts, AreTheSameAtEveryNumberOfRanks) {
  expect_same_alone(gru, "validation_mae", ridge({"data.trend=linear", "data.transform=sqrt"}));
}

TEST_F(BaseForecasts, AreTheSameWithScheduledSamplingInScaledUnits) {
  expect_same_alone(
      gru, "validation_mae",
      ridge({"model.name=dcrnn", "model.sampling_decay=2", "data.cycle=none", "train.loss_units=scaled"}));
}

TEST_F(BaseForecasts, AreTheSameOnEveryGrid) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(gru, "validation_mae", ridge({"window.sampling=global"}), {"parallel.time_groups=2"});
}

TEST_F(BaseForecasts, AreTheSameOnEveryGridWithoutACycle) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(gru, "validation_mae", ridge({"window.sampling=global", "data.cycle=none"}),
                    {"parallel.time_groups=2"});
}

TEST_F(BaseForecasts, AreTheSameOnEveryGridInBlocks) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(gru, "validation_mae",
                    ridge({"window.sampling=blocked", "window.lanes=2", "window.blocks=2"}),
                    {"parallel.time_groups=2"});
}

TEST_F(BaseForecasts, AreTheSameOnDevices) {
  train(world_, config(gru, ridge({"model.precision=float"})), options("host"));
  train(world_, config(gru, ridge({"model.precision=float", "parallel.device=simulated"})),
        options("device"));
  const std::vector<double> host = figures("host", "validation_mae"),
                            device = figures("device", "validation_mae");
  ASSERT_EQ(host.size(), device.size());
  for (std::size_t k = 0; k < host.size(); ++k) EXPECT_NEAR(device[k], host[k], 1e-4 * host[k]);
}

TEST_F(BaseForecasts, GoOnAsIfTheyHadNotPaused) {
  train(world_, config(gru, ridge()), options("whole"));
  TrainOptions parts = options("parts");
  int asked = 0;
  parts.pause = [&] { return ++asked == 3; };
  EXPECT_EQ(train(world_, config(gru, ridge()), parts).result.reason, StopReason::paused);
  parts.pause = {};
  EXPECT_EQ(train(world_, config(gru, ridge()), parts).result.reason, StopReason::epochs);
  EXPECT_EQ(state("parts"), state("whole"));
  EXPECT_EQ(choices_of("parts"), choices_of("whole"));
}

TEST_F(BaseForecasts, SeeNothingOfTheFuture) {
  agree(world_, [&] {
    if (world_.rank() == 0) write("nearly.nc", training, 1e-3F);  // leads to the same choices
  });
  for (const char* cycle : {"none", "time_of_day"}) {
    const std::string name = cycle, set = "data.cycle=" + name;
    train(world_, config(gru, ridge({set})), options(name));
    train(world_, config(gru, ridge({set}), "test.nc"), options(name + "_test"));
    EXPECT_EQ(state(name + "_test"), state(name));
    EXPECT_EQ(figures(name + "_test", "loss"), figures(name, "loss"));
    EXPECT_EQ(figures(name + "_test", "validation_mae"), figures(name, "validation_mae"));
    train(world_, config(gru, ridge({set}), "nearly.nc"), options(name + "_nearly"));
    ASSERT_EQ(choices_of(name + "_nearly"), choices_of(name));
    EXPECT_EQ(state(name + "_nearly"), state(name));
    EXPECT_EQ(figures(name + "_nearly", "loss"), figures(name, "loss"));
    EXPECT_NE(figures(name + "_nearly", "validation_mae"), figures(name, "validation_mae"));
  }
  // Another validation part would lead to other choices: those of the training stay.
  const std::vector<std::string> none = ridge({"train.epochs=0"});
  train(world_, config(gru, none), options("kept"));
  train(world_, config(gru, none, "validation.nc"), options("others"));
  ASSERT_NE(choices_of("others"), choices_of("kept"));
  const HorizonScores kept =
      scores(world_, "kept", {"data.file=" + run("validation.nc"), "evaluate.baselines=true"});
  const double chosen_anew = kept.rmse[static_cast<std::size_t>(2 * kept.find("direct_ridge"))];
  EXPECT_GT(std::abs(kept.rmse[0] - chosen_anew), 1e-4 * chosen_anew);
}

TEST_F(BaseForecasts, EvaluationSeesWhatValidationSaw) {
  for (const char* cycle : {"none", "time_of_day"}) {
    const std::string name = cycle;
    train(world_, config(gru, ridge({"data.cycle=" + name, "data.spread=node"})), options(name));
    const HorizonScores again = scores(world_, name,
                                       {fmt::format("evaluate.first_origin={}", training - 1),
                                        fmt::format("evaluate.last_origin={}", training + validation - 3)});
    const double last = figures(name, "validation_mae").back();
    EXPECT_NEAR(again.mean_mae(0), last, 1e-9 * last) << cycle;
  }
}

TEST_F(BaseForecasts, ForecastMeansBehindTheEnd) {
  train(world_, config(gru, ridge({"data.transform=sqrt"})), options("run"));
  const HorizonScores mean = scores(world_, "run"), median = scores(world_, "run", {"data.point=median"});
  EXPECT_NE(mean.rmse, median.rmse);
  for (std::size_t h = 0; h < 2; ++h) EXPECT_NEAR(mean.rmse[h], median.rmse[h], 0.5);
  ForecastOptions asked;
  asked.steps = 2;
  asked.prints = false;
  const SeriesFile written = SeriesFile::open(forecast(world_, run("run"), asked), {}, 0, -1, std::nullopt);
  EXPECT_EQ(written.info().time.text(0), "2012-03-15T00:00");
  std::vector<float> values(2 * nodes);
  written.read(std::vector<Index>{0, 1, 2}, values.data());
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < nodes; ++i) {
      const double cycle = 20 + 8 * std::sin(2 * M_PI * static_cast<double>(h) / 24 + static_cast<double>(i));
      EXPECT_NEAR(values[static_cast<std::size_t>(h * nodes + i)], cycle, 4);
    }
}

TEST_F(BaseForecasts, AreRefusedInALine) {
  const auto message = [&](std::vector<std::string> sets) {
    return message_of([&] { train(world_, config(gru, ridge(std::move(sets))), options("bad")); });
  };
  EXPECT_NE(message({"model.name=stnn", "model.layers=1"}).find("which has no windows"), std::string::npos);
}

}  // namespace
}  // namespace rossby
