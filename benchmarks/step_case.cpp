#include "benchmarks/step_case.hpp"

#include <algorithm>

namespace rossby::bench {

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases;
  const auto add = [&](const char* name, const auto& set) {
    StepCase item;
    item.name = name;
    set(item);
    cases.push_back(item);
  };
  add("refine_10080", [](StepCase&) {});
  add("refine_10080_pairs", [](StepCase& c) {
    c.pairs = true;
    c.per_batch = 1000;
    c.measured = 60;
  });
  add("refine_2520", [](StepCase& c) {
    c.n_lat = 30;
    c.n_lon = 84;
  });
  // With momentum, seven passes over memory: M, m and v are read and written.
  const auto discover = [&](const char* name, Index per_batch, bool bf16) {
    add(name, [&](StepCase& c) {
      c.mode = Mode::discover;
      c.latent = 8;
      c.per_batch = per_batch;
      c.beta1 = 0.9;
      c.bf16 = bf16;
      c.measured = 3;
    });
  };
  discover("discover_10080_slab1", 1, false);
  discover("discover_10080_slab1_bf16", 1, true);
  discover("discover_10080_slab8", 8, false);
  discover("discover_10080_slab8_bf16", 8, true);
  // The batches of the reference code, without L1, whose gradient touches every entry.
  add("discover_10080_pairs", [](StepCase& c) {
    c.mode = Mode::discover;
    c.l1 = false;
    c.pairs = true;
    c.per_batch = 1000;
    c.measured = 60;
  });
  // 24 GiB of weights, and as much of second moments.
  add("discover_80000_slab8", [](StepCase& c) {
    c.n_lat = 200;
    c.n_lon = 400;
    c.mode = Mode::discover;
    c.latent = 8;
    c.steps = 32;
    c.measured = 3;
  });
  add("given_10080_d8", [](StepCase& c) {
    c.mode = Mode::given;
    c.latent = 8;
  });
  add("given_10080", [](StepCase& c) { c.mode = Mode::given; });
  add("given_low_rank_10080", [](StepCase& c) {
    c.mode = Mode::given;
    c.low_rank = 20;
  });
  add("refine_10080_d4", [](StepCase& c) {
    c.latent = 4;
    c.steps = 48;
  });
  const auto million = [](StepCase& c) {
    c.n_lat = 720;
    c.n_lon = 1440;
    c.latent = 4;
    c.steps = 48;
  };
  add("million", million);
  const auto scattered = [&](const char* name, bool close) {
    add(name, [&](StepCase& c) {
      million(c);
      c.scattered = true;
      c.close = close;
    });
  };
  scattered("million_scattered", false);
  scattered("million_scattered_rcm", true);
  add("million_low_rank", [&](StepCase& c) {
    million(c);
    c.low_rank = 20;
  });
  return cases;
}

StepCase small_version(StepCase item) {
  item.n_lat = 7;
  item.n_lon = 11;
  item.steps = 12;
  item.low_rank = std::min<Index>(item.low_rank, 3);
  item.per_batch = std::min<Index>(item.per_batch, item.pairs ? 37 : 8);
  item.measured = item.pairs ? 4 : 0;
  if (item.transfer) {  // ten rows, two chunks of weights and moments
    item.chunk_bytes = 10 * item.nodes() * Index{sizeof(float)};
    item.stream_bytes = static_cast<std::size_t>(2 * 3 * item.chunk_bytes);
  }
  return item;
}

}  // namespace rossby::bench
