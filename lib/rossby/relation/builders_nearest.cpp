#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {
namespace {

using Point = std::array<double, 3>;

/// Chord length in units of 2⁻³² of the sphere's radius (1.5 mm on Earth). Chords have the same order as
/// great circles. Rounding makes ties of distances that differ only by the last bits of a cosine.
Index chord_key(double squared_chord) {
  return std::llround(std::sqrt(squared_chord) * 0x1p32);
}

double squared_chord(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) sum += (a[axis] - b[axis]) * (a[axis] - b[axis]);
  return sum;
}

/// Points on the unit sphere, from degrees. Throws UserError with the first node that has invalid
/// coordinates.
std::vector<Point> points_on_sphere(std::span<const double> latitude, std::span<const double> longitude) {
  require(latitude.size() == longitude.size(), "a latitude and a longitude a node");
  std::vector<Point> points(latitude.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(latitude[i]) || !std::isfinite(longitude[i]) || std::abs(latitude[i]) > 90)
      user_error(
          "nearest neighbours: node {} has latitude {}, longitude {}. Give finite numbers in degrees, with "
          "latitudes from -90 to 90",
          i, latitude[i], longitude[i]);
    const double phi = latitude[i] * (std::numbers::pi / 180);
    const double lambda = std::remainder(longitude[i], 360.0) * (std::numbers::pi / 180);
    points[i] = {std::cos(phi) * std::cos(lambda), std::cos(phi) * std::sin(lambda), std::sin(phi)};
  }
  return points;
}

/// k-d tree: Bentley, "Multidimensional binary search trees used for associative searching", CACM 18(9),
/// 1975. The tree is the order of one index array. A range of up to `leaf` nodes is searched linearly, a
/// longer one is cut in the middle.
class SphereTree {
 public:
  explicit SphereTree(std::vector<Point> points) : points_(std::move(points)), order_(points_.size()) {
    std::iota(order_.begin(), order_.end(), Index{0});
    axis_.assign(points_.size(), 0);
    build(0, order_.size());
  }

  /// The k nearest nodes to `node` except itself, by (distance, global row).
  [[nodiscard]] std::vector<Index> nearest(Index node, std::size_t k) const {
    Search search{point(node), node, k, {}};
    visit(search, 0, order_.size());
    std::vector<Index> found;
    for (const auto& [key, row] : search.heap) found.push_back(row);
    return found;
  }

 private:
  static constexpr std::size_t leaf = 12;

  struct Search {
    Point centre;
    Index self;
    std::size_t k;
    std::vector<std::pair<Index, Index>> heap;  // (distance key, row), the farthest on top

    [[nodiscard]] Index reach() const {
      return heap.size() < k ? std::numeric_limits<Index>::max() : heap.front().first;
    }
    void offer(std::pair<Index, Index> candidate) {
      if (heap.size() == k) {
        if (!(candidate < heap.front())) return;
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
      }
      heap.push_back(candidate);
      std::push_heap(heap.begin(), heap.end());
    }
  };

  [[nodiscard]] const Point& point(Index node) const { return points_[static_cast<std::size_t>(node)]; }

  [[nodiscard]] std::size_t widest_axis(std::size_t begin, std::size_t end) const {
    Point low = point(order_[begin]);
    Point high = low;
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        low[axis] = std::min(low[axis], point(order_[i])[axis]);
        high[axis] = std::max(high[axis], point(order_[i])[axis]);
      }
    std::size_t widest = 0;
    for (std::size_t axis = 1; axis < 3; ++axis)
      if (high[axis] - low[axis] > high[widest] - low[widest]) widest = axis;
    return widest;
  }

  void build(std::size_t begin, std::size_t end) {
    if (end - begin <= leaf) return;
    const std::size_t middle = begin + (end - begin) / 2;
    const std::size_t axis = widest_axis(begin, end);
    const auto at = [&](std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
    std::nth_element(at(begin), at(middle), at(end),
                     [&](Index a, Index b) { return point(a)[axis] < point(b)[axis]; });
    axis_[middle] = static_cast<unsigned char>(axis);
    build(begin, middle);
    build(middle + 1, end);
  }

  void offer(Search& search, Index node) const {
    if (node != search.self) search.offer({chord_key(squared_chord(search.centre, point(node))), node});
  }

  void visit(Search& search, std::size_t begin, std::size_t end) const {
    if (end - begin <= leaf) {
      for (std::size_t i = begin; i < end; ++i) offer(search, order_[i]);
      return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    const std::size_t axis = axis_[middle];
    const double offset = search.centre[axis] - point(order_[middle])[axis];
    const bool low_first = offset < 0;
    offer(search, order_[middle]);
    visit(search, low_first ? begin : middle + 1, low_first ? middle : end);
    // Only if strictly beyond reach: a node beyond the cut at equal distance may win by its smaller row.
    if (chord_key(offset * offset) > search.reach()) return;
    visit(search, low_first ? middle + 1 : begin, low_first ? end : middle);
  }

  std::vector<Point> points_;
  std::vector<Index> order_;
  std::vector<unsigned char> axis_;  // of the cut at each place in `order_`
};

}  // namespace

GlobalEdges nearest_neighbours(std::span<const double> latitude, std::span<const double> longitude, int k,
                               const RowPartition& partition, int part) {
  if (k < 1) user_error("nearest neighbours: {} neighbours per node are too few. Ask for at least 1", k);
  require(static_cast<Index>(latitude.size()) == partition.rows(), "coordinates of all nodes");
  const SphereTree tree(points_on_sphere(latitude, longitude));
  GlobalEdges edges;
  edges.rows = partition.size(part);
  edges.relations = 1;
  edges.ptr.push_back(0);
  for (const GlobalRow row : partition.rows_of(part)) {
    std::vector<Index> found = tree.nearest(row.value, static_cast<std::size_t>(k));
    std::sort(found.begin(), found.end());
    for (const Index node : found) edges.column.push_back(GlobalRow{node});
    edges.ptr.push_back(edges.entries());
  }
  edges.value.assign(edges.column.size(), 1.0);
  return edges;
}

}  // namespace rossby
