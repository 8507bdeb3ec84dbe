#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/train/optimiser.hpp"
#include "tests/support/test_device.hpp"

// Gradients that reach few rows of a relation: an optimiser that updates only these rows against one that
// updates all, step by step.

namespace rossby::test {
namespace {

struct Setting {
  OptimiserKind kind = OptimiserKind::adam;
  double beta1 = 0;
  double decay = 0;
  Absent absent = Absent::zero;
};

constexpr Index relations = 2, rows = 7, columns = 5003, all_rows = relations * rows;

/// One trained parameter; with `told`, its optimiser knows which rows a step reaches.
template <class T>
struct Trained {
  Parameter<T> p{"relation", Placement::rows, {relations, rows, columns}};
  std::vector<Parameter<T>*> list{&p};
  Exec exec;
  bool told;
  std::unique_ptr<Optimiser<T>> optimiser;

  Trained(const Setting& setting, bool is_told, const Exec& on) : exec(on), told(is_told) {
    for (Index i = 0; i < p.size(); ++i) p.value[i] = static_cast<T>(Random(7, "value").uniform(i, -1, 1));
    p.decay = setting.decay;
    OptimiserOptions options;
    options.kind = setting.kind;
    options.beta1 = setting.beta1;
    options.absent = setting.absent;
    optimiser = std::make_unique<Optimiser<T>>(options, list, on.device);
  }

  /// Rows may occur twice, as from two samples.
  void step(Index number, const std::vector<Index>& reached, bool everywhere) {
    optimiser->begin_step(0.01, 1);
    if (!reached.empty() || everywhere) {
      T* gradient = told ? p.gradient_target(reached) : p.gradient_target();
      if (everywhere) gradient = p.gradient_target();
      std::vector<T> values(static_cast<std::size_t>(p.size()));
      const auto draw = Random(9, "gradient").at(static_cast<std::uint64_t>(number));
      for (Index row = 0; row < all_rows; ++row)
        if (everywhere || std::find(reached.begin(), reached.end(), row) != reached.end())
          for (Index c = 0; c < columns; ++c)
            values[static_cast<std::size_t>(row * columns + c)] =
                static_cast<T>(draw.uniform(row * columns + c, -1, 1));
      if (exec.device)
        exec.device->upload(gradient, std::span<const T>(values));
      else
        for (std::size_t i = 0; i < values.size(); ++i) gradient[i] += values[i];
      if (exec.device) exec.device->wait();
    }
    optimiser->update(exec, number < 20 ? 0.01 : 0.003, 0.5);
  }

  void expect_equal_to(Trained& other, const char* when) {
    optimiser->settle_rows(exec);
    optimiser->fetch();
    other.optimiser->fetch();
    const auto& mine = optimiser->states()[0].second.host();
    const auto& theirs = other.optimiser->states()[0].second.host();
    for (Index i = 0; i < p.size(); ++i) {
      ASSERT_EQ(p.value[i], other.p.value[i]) << when << ": value " << i;
      if (mine.size() > 0) {
        ASSERT_EQ(mine[i], theirs[i]) << when << ": second moment " << i;
      }
    }
  }
};

std::vector<Index> rows_of_step(Index step) {
  const Random draw = Random(11, "rows").at(static_cast<std::uint64_t>(step));
  std::vector<Index> reached;
  for (Index q = 0; q < step % 5; ++q)
    reached.push_back(static_cast<Index>(draw.uniform(static_cast<std::uint64_t>(q)) * all_rows));
  return reached;  // every fifth step reaches no row
}

template <class T>
void expect_same(const Setting& setting, const Exec& one, const Exec& other) {
  Trained<T> all(setting, false, one), some(setting, true, other);
  for (Index s = 0; s < 40; ++s) {
    const bool everywhere = s == 13 || s == 29;  // another term of the loss
    all.step(s, rows_of_step(s), everywhere);
    some.step(s, rows_of_step(s), everywhere);
    if (s == 8 || s == 27) some.expect_equal_to(all, "under way");
  }
  all.optimiser->settle(one);
  some.optimiser->settle(other);
  some.expect_equal_to(all, "at the end");
}

class ReachedRowsOf : public ::testing::TestWithParam<Setting> {};

TEST_P(ReachedRowsOf, AloneAreUpdatedWithTheSameBits) {
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    const Exec one{Backend::cpu, 1, isa}, four{Backend::cpu, 4, isa};
    expect_same<float>(GetParam(), one, four);
  }
  expect_same<double>(GetParam(), {Backend::cpu, 1}, {Backend::cpu, 1});
}

TEST_P(ReachedRowsOf, AloneAreUpdatedOnADevice) {
  std::string reason;
  const auto a = test_device(Backend::simulated, reason), b = test_device(Backend::simulated, reason);
  ASSERT_TRUE(a && b) << reason;
  const Exec one{Backend::simulated, 1, widest_isa(), a.get()},
      other{Backend::simulated, 1, widest_isa(), b.get()};
  expect_same<float>(GetParam(), one, other);
}

INSTANTIATE_TEST_SUITE_P(Settings, ReachedRowsOf,
                         ::testing::Values(Setting{}, Setting{.kind = OptimiserKind::adamw},
                                           Setting{.beta1 = 0.9}, Setting{.decay = 1e-2},
                                           Setting{.absent = Absent::skip},
                                           Setting{.kind = OptimiserKind::sgd}));

TEST(ReachedRows, UpdatesCostTheRowsThatAreReached) {
  Trained<float> some({}, true, {});
  some.optimiser->begin_step(0.01, 1);
  (void)some.p.gradient_target(std::vector<Index>{3, 9, 3});
  const Cost cost = some.optimiser->update({}, 0.01, 1);
  EXPECT_EQ(cost.bytes, 2.0 * columns * 6 * sizeof(float));
}

TEST(ReachedRows, AreAllWhereNobodySaidWhich) {
  ReachedRows reached;
  EXPECT_TRUE(reached.all());
  reached.add(std::vector<Index>{4, 1, 4}, 6);
  EXPECT_FALSE(reached.all());
  EXPECT_EQ(std::vector<Index>(reached.list().begin(), reached.list().end()), (std::vector<Index>{4, 1}));
  reached.add_all();
  EXPECT_TRUE(reached.all());
  reached.clear();
  EXPECT_TRUE(reached.all());
  reached.add(std::vector<Index>{4}, 6);
  EXPECT_EQ(reached.list().size(), 1);
}

}  // namespace
}  // namespace rossby::test
