#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/data/split.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::range;

/// The one-line message of an impossible split.
std::string error_of(Index steps, const SplitSettings& spec, const DateToStep& date = {}) {
  try {
    (void)make_split(steps, spec, date);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool names(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (message.find(word) == std::string::npos) return false;
  return message.find('\n') == std::string::npos;
}

TEST(Split, PacificProtocol) {
  const Split split = make_split(399, {.train = "200"});
  EXPECT_EQ(split.train, (StepRange{0, 200}));
  EXPECT_TRUE(split.validation.empty());
  EXPECT_EQ(split.test, (StepRange{200, 399}));
  EXPECT_EQ(split.origins(Role::test, 5), range(199, 394));
  EXPECT_EQ(split.test_origins(5), range(199, 394));
  EXPECT_EQ(split.training_steps(), range(0, 200));
  EXPECT_EQ(split.training_pairs(), range(1, 200));
  EXPECT_EQ(split.training_pairs(2), range(2, 200));
  EXPECT_TRUE(split.origins(Role::validation, 1).empty());
}

TEST(Split, CountsSharesDatesAndRest) {
  const DateToStep date = [](std::string_view text) { return text == "1980-01" ? Index{120} : Index{150}; };
  const Split split = make_split(199, {.train = "1980-01", .validation = "1982-07", .test = "0.1"}, date);
  EXPECT_EQ(split.train, (StepRange{0, 120}));
  EXPECT_EQ(split.validation, (StepRange{120, 150}));
  EXPECT_EQ(split.test, (StepRange{150, 170}));
  EXPECT_EQ(split.role[170], Role::unused);
  EXPECT_EQ(split.origins(Role::validation, 30), range(119, 120));
  EXPECT_TRUE(split.origins(Role::validation, 31).empty());
  const Split shares = make_split(2016, {.train = "0.7", .validation = "0.1", .test = "rest"});
  EXPECT_EQ(shares.train.size(), 1411);
  EXPECT_EQ(shares.validation.size(), 202);
  EXPECT_EQ(shares.test.last, 2016);
  EXPECT_TRUE(make_split(7, {.train = "rest"}).test.empty());
}

TEST(Split, FoldsAreDisjointAndCoverTheTrainingPart) {
  for (const Index train : {Index{200}, Index{11}, Index{7}}) {
    const Index folds = 5;
    std::vector<int> held_out(static_cast<std::size_t>(train));
    for (Index k = 0; k < folds; ++k) {
      const Split split = make_split(train + 3, {.train = std::to_string(train), .folds = folds, .fold = k});
      EXPECT_GE(split.validation.size(), train / folds);
      EXPECT_LE(split.validation.size(), train / folds + 1);
      for (Index t = 0; t < train; ++t) {
        const bool inside = t >= split.validation.first && t < split.validation.last;
        EXPECT_EQ(split.is_training(t), !inside);
        if (inside) ++held_out[static_cast<std::size_t>(t)];
      }
      for (const Index t : split.training_pairs())
        EXPECT_TRUE(split.is_training(t - 1) && split.is_training(t));
      EXPECT_EQ(split.test, (StepRange{train, train + 3}));
    }
    for (const int count : held_out) EXPECT_EQ(count, 1);
  }
}

TEST(Split, StepsBesideAFoldAreUnused) {
  const Split split = make_split(22, {.train = "20", .folds = 4, .fold = 1, .gap = 2});
  EXPECT_EQ(split.validation, (StepRange{5, 10}));
  EXPECT_EQ(split.training_steps(), (std::vector<Index>{0, 1, 2, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(split.role[4], Role::unused);
  EXPECT_EQ(split.role[10], Role::unused);
  // Gaps end with the training part: the test part keeps all its steps.
  const Split last = make_split(22, {.train = "20", .folds = 4, .fold = 3, .gap = 3});
  EXPECT_EQ(last.train, (StepRange{0, 12}));
  EXPECT_EQ(last.test, (StepRange{20, 22}));
  EXPECT_EQ(last.role[20], Role::test);
  EXPECT_TRUE(names(error_of(22, {.train = "20", .gap = 2}), {"split.gap = 2", "split.folds"}));
  EXPECT_TRUE(names(error_of(22, {.train = "20", .folds = 2, .gap = 9}), {"split.gap = 9", "no two"}));
}

TEST(Split, ForwardFoldsTrainOnThePastAlone) {
  for (Index k = 0; k < 3; ++k) {
    const Split split =
        make_split(22, {.train = "20", .folds = 3, .fold = k, .fold_order = "forward", .gap = 1});
    EXPECT_EQ(split.validation, (StepRange{5 * (k + 1), 5 * (k + 2)}));
    EXPECT_EQ(split.training_steps(), range(0, 5 * (k + 1) - 1));
    EXPECT_EQ(split.test, (StepRange{20, 22}));
  }
  EXPECT_TRUE(names(error_of(9, {.train = "3", .folds = 3, .fold_order = "forward"}),
                    {"split.folds = 3", "3 steps"}));
}

TEST(Split, NoPairCrossesABreakOfTheTimeAxis) {
  Split split = make_split(20, {.train = "12"});
  split.breaks = {3, 8};  // gaps after steps 3 and 8
  EXPECT_EQ(split.training_steps(), range(0, 12));
  EXPECT_EQ(split.training_pairs(), (std::vector<Index>{1, 2, 3, 5, 6, 7, 8, 10, 11}));
  EXPECT_EQ(split.training_pairs(2), (std::vector<Index>{2, 3, 6, 7, 8, 11}));
  EXPECT_FALSE(split.follows(0));
  EXPECT_FALSE(split.follows(4));
  EXPECT_TRUE(split.follows(5));
}

TEST(Split, FoldInTheMiddleLeavesAGap) {
  const Split split = make_split(399, {.train = "200", .folds = 5, .fold = 2});
  EXPECT_EQ(split.validation, (StepRange{80, 120}));
  EXPECT_EQ(split.origins(Role::validation, 5), range(79, 115));
  EXPECT_EQ(split.training_pairs().size(), 79u + 79u);  // not 159: no pair crosses the gap
  EXPECT_EQ(split.train, (StepRange{0, 200}));
  const Split first = make_split(399, {.train = "200", .folds = 5, .fold = 0});
  EXPECT_EQ(first.origins(Role::validation, 5).front(), 0);
  EXPECT_EQ(first.train, (StepRange{40, 200}));
  EXPECT_EQ(make_split(399, {.train = "200", .folds = 5, .fold = 4}).train, (StepRange{0, 160}));
}

TEST(Split, ImpossibleSplitsNameKeyAndNumbers) {
  EXPECT_TRUE(names(error_of(399, {.train = "400"}), {"split.train", "400", "399"}));
  EXPECT_TRUE(
      names(error_of(399, {.train = "300", .validation = "50", .test = "60"}), {"split.test", "60", "399"}));
  EXPECT_TRUE(names(error_of(399, {.train = "1.5"}), {"split.train", "1.5"}));
  EXPECT_TRUE(names(error_of(399, {.train = "-3"}), {"split.train", "-3"}));
  EXPECT_TRUE(names(error_of(399, {.train = "200", .validation = "many"}), {"split.validation", "many"}));
  EXPECT_TRUE(names(error_of(399, {.train = ""}), {"split.train"}));
  EXPECT_TRUE(names(error_of(399, {.train = "1980-01-01"}), {"split.train", "no dates"}));
  EXPECT_TRUE(names(error_of(399, {.train = "0.001"}), {"split.train", "0.001", "0 of 399"}));
  EXPECT_TRUE(names(error_of(1, {.train = "rest"}), {"split.train", "1 of 1"}));
  EXPECT_TRUE(names(error_of(0, {}), {"split.train", "0 of 0"}));
  EXPECT_TRUE(names(error_of(399, {.train = "200", .validation = "1970-01"}, [](auto) { return Index{3}; }),
                    {"split.validation", "1970-01", "step 3", "step 200"}));
  EXPECT_TRUE(names(error_of(399, {.train = "200", .folds = 5, .fold = 5}), {"split.fold = 5", "0 to 4"}));
  EXPECT_TRUE(names(error_of(399, {.train = "200", .folds = 1}), {"split.folds = 1"}));
  EXPECT_TRUE(names(error_of(9, {.train = "4", .folds = 5}), {"split.folds = 5", "4 steps"}));
  EXPECT_TRUE(
      names(error_of(9, {.train = "4", .validation = "2", .folds = 2}), {"split.folds", "split.validation"}));
  EXPECT_TRUE(names(error_of(9, {.train = "2", .folds = 2}), {"split.folds = 2", "of the 2 training steps"}));
}

TEST(Split, TestOriginsCanBeChosen) {
  const Split split = make_split(399, {.train = "200"});
  EXPECT_EQ(split.test_origins(5, 250, 260), range(250, 261));
  EXPECT_EQ(split.test_origins(5, -1, 200), range(199, 201));
  EXPECT_EQ(split.test_origins(5, 390), range(390, 394));
  EXPECT_THROW((void)split.test_origins(5, 250, 394), UserError);
  EXPECT_THROW((void)split.test_origins(5, 395), UserError);
  EXPECT_THROW((void)split.test_origins(5, 260, 250), UserError);
  EXPECT_THROW((void)split.test_origins(200), UserError);
  EXPECT_THROW((void)split.test_origins(500, 10), UserError);
  EXPECT_THROW((void)make_split(399, {.train = "rest"}).test_origins(1), UserError);
}

}  // namespace
}  // namespace rossby
