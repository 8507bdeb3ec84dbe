#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/train/stnn_task.hpp"
#include "tests/mpi/small_training.hpp"

// Results do not depend on the number of ranks. Losses of 20 steps, the trained parameters and the validation
// error at P ranks agree with one rank. Two runs at one P are equal bit for bit. The cases cover missing
// values, dropout, clipping, joint slabs, pairs and every kind of relation. In some, P does not divide the
// number of rows or exceeds it.

namespace rossby {
namespace {

using namespace small_training;

struct Case {
  const char* name;
  Index n = 37;
  bool pairs = false;
  bool joint = false;
  bool refine = true;
  bool self = true;
  bool low_rank = true;
  bool dense = false;
  bool shuffled = true;
  int layers = 2;
  bool fused = false;  // backward updates the dense relation
  double clip = 0.5;
  bool bf16 = false;     // stores the dense relation in bf16
  double dropout = 0.1;  // if 0, pairs read the latents in place
};

/// One training on one communicator.
template <class T>
struct Training {
  RowPartition partition;
  MpiReducer reducer;
  Series series;
  Scaler scaler;
  Split split;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Stnn<T>> model;
  std::vector<double> losses;
  double validation = 0;

  Training(const Case& c, const Communicator& comm)
      : partition(make_partition(c.n, c.shuffled, comm.size())), reducer(comm) {
    const int part = comm.rank();
    const auto rows = partition.rows_of(part);
    split = make_split(16, {.train = "12", .validation = "4", .test = "0"});
    series = random_series(partition, part, 16);
    scaler =
        Scaler::fit(series, split, {.center = ScaleBy::node, .spread = ScaleBy::node, .factor = 1}, reducer);
    scaler.apply(series);
    make_model(c, comm, rows);
    train(c, comm);
  }

  void make_model(const Case& c, const Communicator& comm, const std::vector<GlobalRow>& rows) {
    const int part = comm.rank();
    auto relations = std::make_unique<Relations<T>>(partition, part);
    if (c.refine)
      relations->add_refine(random_edges(partition, part, 0.15), 0.5);
    else
      relations->add_given(random_edges(partition, part, 0.15));
    if (c.self) relations->add_self(0.5);
    if (c.bf16) relations->hold_dense_in_bf16();
    if (c.dense) relations->add_discover(0.02);
    if (c.low_rank) relations->add_low_rank(3);
    if (comm.size() > 1 && relations->needs_all())
      exchange = std::make_unique<AllgatherExchange>(comm, partition, part);
    else
      exchange = std::make_unique<NeighbourExchange>(comm, partition, part, relations->ghosts());
    relations->finish(*exchange, reducer);
    StnnOptions options;
    options.steps = 12;
    options.features = 2;
    options.latent = 3;
    options.layers = c.layers;
    options.hidden = 5;
    options.activation = LatentActivation::tanh;
    options.l2_z = 0.01;
    options.l1_rel = 0.01;
    options.dropout_z = c.dropout;
    options.dropout_dynamics = c.dropout;
    model = std::make_unique<Stnn<T>>(options, std::move(relations), rows);
    model->start({.seed = 3});
  }

  void train(const Case& c, const Communicator& comm) {
    BatchOptions batches{
        .pairs = c.pairs, .pairs_per_batch = 100, .slab_steps = 3, .joint = c.joint, .seed = 5};
    StnnTask<T> task({.horizons = 2, .filter_lambda = 0.1}, batches, *model, series, scaler, split, partition,
                     comm.rank(), reducer);
    Optimiser<T> optimiser({.beta1 = 0.9, .fuse = c.fused}, model->parameters());
    Step<T> step(model->parameters(), optimiser, reducer, c.clip);
    Tape<T> tape{Exec{}};
    Losses terms;
    Index count = 0;
    for (Index epoch = 0; count < 20; ++epoch) {
      task.start_epoch(epoch);
      for (Index b = 0; b < task.batches() && count < 20; ++b, ++count) {
        const auto result = step.run(tape, 3e-3, false, terms, [&] { task.record(tape, b, count, terms); });
        losses.push_back(result.loss);
        losses.push_back(result.gradient_norm);
      }
    }
    validation = task.validate(tape);
  }

  /// Values of a parameter by global row: (outer, n, inner), summed over all ranks.
  std::vector<double> whole(const std::string& name) {
    const Parameter<T>& p = model->parameter(name);
    std::vector<double> all(static_cast<std::size_t>(p.shape[0] * partition.rows() * p.shape[2]));
    const auto& rows = model->rows();
    for (Index t = 0; t < p.shape[0]; ++t)
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (Index f = 0; f < p.shape[2]; ++f)
          all[static_cast<std::size_t>((t * partition.rows() + rows[i].value) * p.shape[2] + f)] =
              p.stored((t * p.shape[1] + static_cast<Index>(i)) * p.shape[2] + f);
    reducer.sum(std::span<double>(all));
    return all;
  }
};

class StnnRanks : public testing::TestWithParam<Case> {};

TEST_P(StnnRanks, GiveTheSameLossesAsOneRank) {
  Training<double> many(GetParam(), Communicator::world());
  Training<double> one(GetParam(), Communicator::self());
  ASSERT_EQ(many.losses.size(), one.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    EXPECT_NEAR(many.losses[s], one.losses[s], 1e-11 * std::abs(one.losses[s])) << "step " << s / 2;
  EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
  const auto a = many.whole("factors"), b = one.whole("factors");
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-11) << "factors[" << i << "]";
}

TEST_P(StnnRanks, RepeatBitForBit) {
  Training<double> first(GetParam(), Communicator::world());
  Training<double> second(GetParam(), Communicator::world());
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.validation, second.validation);
  for (std::size_t p = 0; p < first.model->parameters().size(); ++p) {
    const auto& x = first.model->parameters()[p]->value;
    const auto& y = second.model->parameters()[p]->value;
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << first.model->parameters()[p]->name;
  }
}

TEST(StnnFused, EqualsUnfused) {
  for (const bool joint : {false, true}) {
    Case c{.name = "", .joint = joint, .dense = true, .shuffled = false, .clip = 0};
    Training<double> plain(c, Communicator::world());
    c.fused = true;
    Training<double> fused(c, Communicator::world());
    ASSERT_EQ(fused.losses.size(), plain.losses.size());
    for (std::size_t s = 0; s < plain.losses.size(); ++s)
      EXPECT_NEAR(fused.losses[s], plain.losses[s], 1e-12 * std::abs(plain.losses[s])) << "step " << s / 2;
    const auto a = fused.whole("discover_weight"), b = plain.whole("discover_weight");
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-12) << "discover_weight[" << i << "]";
    EXPECT_EQ(fused.model->parameter("discover_weight").gradient.size(), 0);
  }
}

// Rounding depends on global indices. If sums differ in the last bits of a float, few entries round the other
// way; with other random bits half of them would.
TEST(StnnBf16, RoundsAlikeAtEveryRankCount) {
  for (const Index n : {37, 3}) {
    const Case c{.name = "", .n = n, .dense = true, .shuffled = false, .fused = true, .bf16 = true};
    Training<float> many(c, Communicator::world()), again(c, Communicator::world());
    Training<float> one(c, Communicator::self());
    EXPECT_EQ(many.losses, again.losses);
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      EXPECT_NEAR(many.losses[s], one.losses[s], 1e-3 * std::abs(one.losses[s])) << "step " << s / 2;
    EXPECT_NEAR(many.validation, one.validation, 1e-3 * one.validation);
    const auto a = many.whole("discover_weight"), b = one.whole("discover_weight");
    double different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-3) << "discover_weight[" << i << "]";
      different += a[i] == b[i] ? 0 : 1;
    }
    EXPECT_LE(different, 0.1 * static_cast<double>(a.size()));
    EXPECT_EQ(many.whole("discover_weight"), again.whole("discover_weight"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StnnRanks,
    testing::Values(
        Case{.name = "Slabs"}, Case{.name = "Joint", .joint = true, .refine = false},
        Case{.name = "Pairs", .pairs = true, .layers = 1},
        Case{.name = "Dense", .dense = true, .shuffled = false},
        Case{.name = "DensePairs", .pairs = true, .dense = true, .shuffled = false},
        Case{.name = "DenseFused", .dense = true, .shuffled = false, .fused = true},
        Case{.name = "FewRowsFused", .n = 3, .dense = true, .shuffled = false, .fused = true},
        Case{.name = "FewRows", .n = 3}, Case{.name = "FewRowsPairs", .n = 2, .pairs = true},
        Case{.name = "PlainPairs", .pairs = true, .dropout = 0},
        Case{.name = "PlainDensePairs", .pairs = true, .dense = true, .shuffled = false, .dropout = 0},
        Case{.name = "FewRowsDensePairs",
             .n = 2,
             .pairs = true,
             .dense = true,
             .shuffled = false,
             .dropout = 0},
        Case{.name = "OneRowDensePairs",
             .n = 1,
             .pairs = true,
             .dense = true,
             .shuffled = false,
             .layers = 1,
             .dropout = 0},
        Case{.name = "OneRow", .n = 1, .low_rank = false}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace rossby
