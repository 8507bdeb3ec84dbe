// train_often CONFIG --run RUN [--set KEY=VALUE]...: trains in starts of one step each, like a job that is
// left and resumed at every step, but in one process per rank: starting programs takes longer than their
// steps. Prints the number of starts.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "rossby/base/error.hpp"
#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/run/train.hpp"

int main(int argc, char** argv) {
  using namespace rossby;
  const FlushSubnormals flush;
  const Environment environment;
  const Communicator world = environment.world();
  set_up_blas();
  try {
    std::vector<std::string> sets{"train.stop_after=0.000001s"};
    for (int k = 5; k < argc; k += 2) sets.emplace_back(argv[k]);
    const Config config = Config::load(argv[1], sets);
    TrainOptions options;
    options.run = argv[3];
    int starts = 1;
    while (train(world, config, options).result.reason == StopReason::paused) ++starts;
    if (world.rank() == 0) fmt::print("{}\n", starts);
    return 0;
  } catch (const UserError& error) {
    std::fprintf(stderr, "train_often: %s\n", error.what());
    return 1;
  }
}
