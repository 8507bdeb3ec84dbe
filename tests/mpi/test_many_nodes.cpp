#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "rossby/autograd/ops.hpp"
#include "rossby/model/stid/stid.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/train/step.hpp"

// A learned vector of 32 numbers for each of a million nodes. Every rank holds only the vectors of its nodes.

namespace rossby {
namespace {

constexpr Index nodes = 1'000'000, width = 32;

/// One window of a few steps. Its values are functions of the node.
class Ramp final : public WindowSource<float> {
 public:
  Ramp(Index first, Index rows) : first_(first), rows_(rows) {}
  [[nodiscard]] Index rows() const override { return rows_; }
  [[nodiscard]] Index windows() const override { return 1; }
  [[nodiscard]] Index channels() const override { return 1; }
  [[nodiscard]] Index features() const override { return 1; }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<float> truth(Tape<float>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<float> input(Tape<float>& tape, Index t) const override {
    const Var<float> x = tape.make(rows_, 1, 1, false);
    for (Index i = 0; i < rows_; ++i)
      x.value.data[i] = static_cast<float>((first_ + i) % 101) / 101 + 0.1F * static_cast<float>(t);
    return x;
  }
  [[nodiscard]] std::span<const Index> phases(Tape<float>& tape, CalendarTable, Index t) const override {
    const auto phases = tape.arena().take<Index>(1);
    phases[0] = t;
    return phases;
  }

 private:
  Index first_, rows_;
};

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

TEST(AMillionNodes, HaveVectorsWithTheirOwnersAlone) {
  const Communicator& world = Communicator::world();
  const RowPartition partition = RowPartition::blocks(nodes, world.size());
  const Index first = partition.begin(world.rank()), owned = partition.size(world.rank());
  std::vector<Index> rows(static_cast<std::size_t>(owned));
  std::iota(rows.begin(), rows.end(), first);
  const double before = peak_bytes();
  StidOptions options;
  options.inputs = 2;
  options.outputs = 1;
  options.width = 2;
  options.layers = 0;
  EmbeddingShape shape;
  shape.node = width;
  shape.calendar[0] = {4, 2};
  Stid<float> model(options, shape, std::move(rows));
  model.start(1);
  const auto named = [&](const std::string& name) {
    return *std::ranges::find(model.parameters(), name, [](const auto* p) { return p->name; });
  };
  Parameter<float>& table = *named("node_embedding");
  ASSERT_EQ(table.size(), owned * width);
  MpiReducer reducer(world);
  Optimiser<float> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, model.parameters());
  Step<float> step(model.parameters(), optimiser, reducer, 0);
  Tape<float> tape{Exec{}};
  const Ramp source(first, owned);
  const std::vector<float> target(static_cast<std::size_t>(owned), 0.5F);
  const std::vector<float> start(table.value.begin(), table.value.end());
  double losses[2];
  for (double& loss : losses) {
    Losses terms;
    loss = step.run(tape, 1e-2, 0, terms,
                    [&] {
                      double* sum = terms.add("mse", 1.0 / nodes);
                      Var<float> y;
                      model.predict(tape, source, std::span(&y, 1));
                      masked_squared_error(tape, y, {target.data(), owned, 1, 1}, 1.0 / nodes, sum);
                    })
               .loss;
  }
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_FALSE(std::ranges::equal(start, table.value.span())) << "vectors learn";
  // Two steps sum only replicated parameters: some hundred numbers, not 32 million.
  EXPECT_LT(reducer.sent().bytes, 100'000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The vectors, their gradient and moments, and as much again for the values and gradients of a step.
  const double held = 4.0 * static_cast<double>(table.size()) * sizeof(float);
  EXPECT_LT(peak_bytes() - before, 2.5 * held + 64e6);
#else
  (void)before;
#endif
}

}  // namespace
}  // namespace rossby
