#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/plan/kriging.hpp"

// Interpolation between what was measured.

namespace rossby {
namespace {

using Point = Kriging::Point;

constexpr Point lengths{4, 4, 4, 4, 4, 4, 4, 4, 4};

/// Numbers in [0, 1) that differ from call to call.
class Numbers {
 public:
  double next() { return random_.uniform(count_++); }

 private:
  Random random_{3, "kriging"};
  std::uint64_t count_ = 0;
};

/// Points of which two coordinates vary, over eight lengths.
std::vector<Point> scattered(int count, Numbers& numbers) {
  std::vector<Point> points(static_cast<std::size_t>(count));
  for (Point& point : points) {
    point[1] = 8 * numbers.next();
    point[4] = 8 * numbers.next();
  }
  return points;
}

double wave(const Point& at) {
  return std::sin(at[1]);
}

std::vector<double> values_of(const std::vector<Point>& points, double noise, Numbers& numbers) {
  std::vector<double> values;
  for (const Point& point : points) values.push_back(wave(point) + noise * (numbers.next() - 0.5));
  return values;
}

double worst_error(const Kriging& kriging, Numbers& numbers) {
  double worst = 0;
  for (const Point& point : scattered(50, numbers))
    worst = std::max(worst, std::abs(kriging(point) - wave(point)));
  return worst;
}

TEST(Kriging, FollowsAFunctionAndFindsWhatItDependsOn) {
  Numbers numbers;
  const std::vector<Point> points = scattered(150, numbers);
  const Kriging kriging(points, values_of(points, 0, numbers), {.lengths = lengths});
  EXPECT_LT(worst_error(kriging, numbers), 0.15);
  EXPECT_GT(kriging.found().lengths[4], 3 * kriging.found().lengths[1]);
  EXPECT_LT(kriging.found().noise, 0.12) << "there is none";
}

TEST(Kriging, SmoothsNoiseAway) {
  Numbers numbers;
  const std::vector<Point> points = scattered(200, numbers);
  const std::vector<double> values = values_of(points, 0.6, numbers);
  const Kriging kriging(points, values, {.lengths = lengths});
  double off = 0, noise = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    off += std::abs(kriging(points[i]) - wave(points[i]));
    noise += std::abs(values[i] - wave(points[i]));
  }
  EXPECT_LT(off, 0.6 * noise);
  EXPECT_GT(kriging.found().noise, 0.12);
}

TEST(Kriging, LeavesSomeOfManyValuesOut) {
  Numbers numbers;
  const std::vector<Point> points = scattered(1300, numbers);
  const std::vector<double> values = values_of(points, 0.1, numbers);
  std::vector<Point> some;
  std::vector<double> their;
  for (std::size_t i = 0; i < 400; ++i) {
    some.push_back(points[i * 1300 / 400]);
    their.push_back(values[i * 1300 / 400]);
  }
  const Kriging all(points, values, {.lengths = lengths}), part(some, their, {.lengths = lengths});
  EXPECT_EQ(all(points[7]), part(points[7])) << "evenly, 400 of them";
  EXPECT_LT(worst_error(all, numbers), 0.1);
}

/// As far off as a process with the same lengths that is not given the value at all.
TEST(Kriging, IsOffWhereAValueIsLeftOut) {
  std::vector<Point> points(4);  // too few for a search: lengths stay
  const std::vector<double> values{0.3, -0.2, 0.5, -0.6};
  for (std::size_t i = 0; i < points.size(); ++i) points[i][0] = static_cast<double>(i * i);
  const Kriging all(points, values, {.lengths = lengths});
  const std::vector<double> errors = all.left_out();
  ASSERT_EQ(errors.size(), values.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<Point> others = points;
    std::vector<double> their = values;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    their.erase(their.begin() + static_cast<std::ptrdiff_t>(i));
    const Kriging without(others, their, {.lengths = lengths});
    EXPECT_NEAR(errors[i], without(points[i]) - values[i], 1e-12);
  }
}

TEST(Kriging, SaysTheMeanFarFromAllValues) {
  const Kriging one({Point{}}, {0.3}, {.lengths = lengths});
  EXPECT_NEAR(one(Point{}), 0.3 * 0.25 / (0.25 + 0.0144), 1e-12) << "amplitude and noise as expected";
  EXPECT_NEAR(one(Point{500}), 0, 1e-12);
}

TEST(Kriging, TakesTheSameValueOften) {
  const Kriging same(std::vector<Point>(20, Point{1, 2, 3}), std::vector<double>(20, 0.5),
                     {.lengths = lengths});
  EXPECT_NEAR(same(Point{1, 2, 3}), 0.5, 0.02);
  EXPECT_THROW(Kriging({}, {}, {.lengths = lengths}), BugError);
  EXPECT_THROW(Kriging({Point{}}, {1, 2}, {.lengths = lengths}), BugError);
}

}  // namespace
}  // namespace rossby
