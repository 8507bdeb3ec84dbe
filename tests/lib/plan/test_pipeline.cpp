#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/plan/pipeline.hpp"

// Waiting times between stages of a pipeline, compared with known results for such pipelines.

namespace rossby {
namespace {

/// Forward of M micro-batches, then backward of them from last to first, as in GPipe. `forward` and
/// `backward`: seconds of each stage per micro-batch.
std::vector<Timeline> gpipe(const std::vector<double>& forward, const std::vector<double>& backward,
                            int micro_batches, double message = 0) {
  const auto stages = static_cast<int>(forward.size());
  std::vector<Timeline> all(forward.size());
  for (int s = 0; s < stages; ++s) {
    Timeline& timeline = all[static_cast<std::size_t>(s)];
    double before = 0;  // work since the last message
    for (const bool back : {false, true})
      for (int m = 0; m < micro_batches; ++m) {
        const int from = back ? s + 1 : s - 1, to = back ? s - 1 : s + 1;
        if (from >= 0 && from < stages) {
          timeline.push_back({before, from, false, 0});
          before = 0;
        }
        before += (back ? backward : forward)[static_cast<std::size_t>(s)];
        if (to >= 0 && to < stages) {
          timeline.push_back({before, to, true, message});
          before = 0;
        }
      }
    timeline.push_back({before, -1, false, 0});
  }
  return all;
}

TEST(PipelineWaits, AreTheBubblesOfEqualStages) {
  for (const int stages : {1, 2, 4, 7})
    for (const int micro_batches : {1, 2, 8}) {
      const std::vector<double> forward(static_cast<std::size_t>(stages), 1.0),
          backward(static_cast<std::size_t>(stages), 2.0);
      for (const double wait : pipeline_waits(gpipe(forward, backward, micro_batches)))
        EXPECT_NEAR(wait, 3.0 * (stages - 1), 1e-12);
    }
}

TEST(PipelineWaits, AreOfTheSlowestStage) {
  const auto waits = pipeline_waits(gpipe({1, 3}, {2, 6}, 4));
  // The second stage waits for the first micro-batch. After its own last gradient, it waits for the first
  // stage's.
  EXPECT_NEAR(waits[1], 1 + 2, 1e-12);
  EXPECT_NEAR(waits[0], waits[1] + 4 * (3 + 6) - 4 * (1 + 2), 1e-12);
}

TEST(PipelineWaits, CountMessagesOnTheirWay) {
  const auto none = pipeline_waits(gpipe({1, 1}, {1, 1}, 1)),
             some = pipeline_waits(gpipe({1, 1}, {1, 1}, 1, 0.25));
  EXPECT_NEAR(some[0] - none[0], 0.25, 1e-12) << "the gradient's; its own is work";
  EXPECT_NEAR(some[1] - none[1], 0.25, 1e-12);
}

TEST(PipelineWaits, OfStagesThatHandNothingOver) {
  EXPECT_EQ(pipeline_waits({{}, {}}), (std::vector<double>{0, 0}));
  EXPECT_EQ(pipeline_waits({{{2, -1, false, 0}}, {{3, -1, false, 0}}}), (std::vector<double>{1, 0}));
}

TEST(PipelineWaits, RefuseStagesThatWaitForEachOther) {
  const Timeline first{{0, 1, false, 0}, {0, 1, true, 0}}, second{{0, 0, false, 0}, {0, 0, true, 0}};
  EXPECT_THROW((void)pipeline_waits({first, second}), BugError);
}

}  // namespace
}  // namespace rossby
