#include "rossby/plan/bends.hpp"

#include <cmath>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr double most_off = 0.1;  // relative
constexpr int halvings = 2;       // of an interval, by ratio

struct Point {
  Index size;
  std::vector<double> seconds;
};

/// Whether anything between the points is off their line.
bool measure_between(const Point& low, const Point& high, int depth,
                     const std::function<std::vector<double>(Index)>& measure) {
  const auto size = std::llround(std::sqrt(static_cast<double>(low.size) * static_cast<double>(high.size)));
  if (depth == 0 || size <= low.size || size >= high.size) return false;
  const Point middle{size, measure(size)};
  const double share = static_cast<double>(size - low.size) / static_cast<double>(high.size - low.size);
  bool straight = true;
  for (std::size_t way = 0; way < middle.seconds.size(); ++way) {
    const double line = low.seconds[way] + share * (high.seconds[way] - low.seconds[way]);
    straight = straight && std::abs(middle.seconds[way] - line) <= most_off * line;
  }
  if (straight) return false;
  (void)measure_between(low, middle, depth - 1, measure);
  (void)measure_between(middle, high, depth - 1, measure);
  return true;
}

}  // namespace

std::set<Index> measure_with_bends(const std::vector<Index>& sizes,
                                   const std::function<std::vector<double>(Index)>& measure,
                                   const std::set<Index>* only) {
  std::vector<Point> points;
  for (const Index size : sizes) {
    require(size > (points.empty() ? 0 : points.back().size), "sizes ascend from above zero");
    points.push_back({size, measure(size)});
  }
  std::set<Index> bends;
  for (std::size_t k = 0; k + 1 < points.size(); ++k)
    if ((!only || only->contains(points[k].size)) &&
        measure_between(points[k], points[k + 1], halvings, measure))
      bends.insert(points[k].size);
  return bends;
}

}  // namespace rossby
