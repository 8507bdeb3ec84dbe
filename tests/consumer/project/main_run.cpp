#include <cstdio>

#include "rossby/data/synthetic_series.hpp"
#include "rossby/run/forecast.hpp"
#include "rossby/run/train.hpp"

// Trains, pauses at a checkpoint, goes on and forecasts, on the ranks it is started with: consumer_run FOLDER
int main(int, char** argv) try {
  const std::string folder = argv[1], data = folder + "/heat.nc";
  const rossby::Environment environment;
  const rossby::Communicator ranks = environment.world();
  if (ranks.rank() == 0)
    rossby::write_synthetic({.kind = "heat", .lat = 1, .lon = 16, .steps = 60, .output = data});
  ranks.barrier();
  const auto config = rossby::Config::load(folder + "/heat.toml", {{"data.file=" + data}});
  rossby::TrainOptions options{.run = folder + "/run"};
  int steps = 0;
  options.pause = [&] { return ++steps == 3; };
  const rossby::Trained paused = rossby::train(ranks, config, options);
  options.pause = {};
  const rossby::Trained trained = rossby::train(ranks, config, options);
  const std::string file = rossby::forecast(ranks, options.run, {.steps = 5});
  if (ranks.rank() == 0)
    std::printf("%s after %ld steps, then %ld epochs; %s\n", paused.checkpoint.c_str(),
                static_cast<long>(paused.result.steps), static_cast<long>(trained.result.epochs),
                file.c_str());
  return paused.result.steps == 3 && trained.result.epochs == 4 ? 0 : 1;
} catch (const rossby::UserError& error) {  // of all ranks alike
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
