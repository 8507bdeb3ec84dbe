#include "rossby/run/relation_survey.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "rossby/mpi/mpi_mailbox.hpp"

namespace rossby {
namespace {

constexpr double earth_km = 6371.0088;
constexpr double degree = std::numbers::pi / 180;
constexpr Index distance_bins = 24, bearing_bins = 16;
constexpr double most_products = 2e10;  // of factors; takes a minute on one core
constexpr double most_pairs = 4e7;      // pairs whose distance and bearing are computed

constexpr double nan_weight = std::numeric_limits<double>::quiet_NaN();

/// Returns unit vectors up, east and north at a node.
std::array<double, 9> axes_at(double lat, double lon) {
  const double sp = std::sin(lat * degree), cp = std::cos(lat * degree), sl = std::sin(lon * degree),
               cl = std::cos(lon * degree);
  return {cp * cl, cp * sl, sp, -sl, cl, 0, -sp * cl, -sp * sl, cp};
}

double dot(const double* a, const double* b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

struct Seen {
  double km = 0, bearing = 0;  // degrees
};

/// Returns how the node with the axes `from` sees another one.
Seen seen(const double* from, const double* other) {
  const double bearing = std::atan2(dot(from + 3, other), dot(from + 6, other)) / degree;
  return {earth_km * std::acos(std::clamp(dot(from, other), -1.0, 1.0)),
          bearing < 0 ? bearing + 360 : bearing};
}

/// Gathers the values of all ranks, in rank order, on every rank or on rank 0 alone.
template <class V>
std::vector<V> all_of(const Communicator& comm, const std::vector<V>& mine, bool everywhere = true) {
  MpiMailbox mailbox(comm);
  std::vector<std::byte> letter(mine.size() * sizeof(V));
  if (!mine.empty()) std::memcpy(letter.data(), mine.data(), letter.size());
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm.size()));
  for (std::size_t p = 0; p < (everywhere ? letters.size() : 1); ++p) letters[p] = letter;
  std::vector<V> all;
  for (const auto& received : mailbox.swap(std::move(letters))) {
    const std::size_t before = all.size();
    all.resize(before + received.size() / sizeof(V));
    if (!received.empty()) std::memcpy(all.data() + before, received.data(), received.size());
  }
  return all;
}

}  // namespace

RelationSurvey::RelationSurvey(const Communicator& comm, const Domain& domain, Index edges_of_node)
    : comm_(comm),
      domain_(&domain),
      edges_of_node_(edges_of_node),
      reducer_(comm),
      acting_(static_cast<std::size_t>(domain.nodes())) {
  if (!mapped()) return;
  for (Index i = 0; i < domain.nodes(); ++i) {
    const double lat = domain.latitude[static_cast<std::size_t>(i)],
                 lon = domain.longitude[static_cast<std::size_t>(i)];
    const auto axes = axes_at(lat, lon);
    axes_.insert(axes_.end(), axes.begin(), axes.end());
  }
  // Estimates the widest distance: the node farthest from any one, then the node farthest from that. Pairs
  // beyond it count in the last bin.
  Index from = 0;
  for (int sweep = 0; sweep < 2; ++sweep) {
    Index farthest = from;
    for (Index i = 0; i < domain.nodes(); ++i) {
      const double km = seen(axes_.data() + 9 * from, axes_.data() + 9 * i).km;
      if (km > widest_) widest_ = km, farthest = i;
    }
    from = farthest;
  }
  widest_ = std::max(widest_, 1e-9);
}

/// Returns k if the row of every k-th node is made.
Index RelationSurvey::stride(const LearnedRelation& relation) const {
  if (!relation.of_factors()) return 1;
  const auto n = static_cast<double>(domain_->nodes());
  const double products = n * n * static_cast<double>(relation.factors.width);
  return std::max<Index>(1, static_cast<Index>(std::ceil(products / most_products)));
}

/// Returns the right factors of all nodes, (n, width), in global row order.
std::vector<float> RelationSurvey::right_factors(const LearnedRelation& relation) const {
  const Index width = relation.factors.width, rows = std::ssize(domain_->rows);
  std::vector<float> mine(static_cast<std::size_t>(rows * width));
  for (Index i = 0; i < rows; ++i)
    relation.factors.right(
        i, std::span(mine).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width)));
  const std::vector<float> all = all_of(comm_, mine);
  std::vector<float> ordered(all.size());
  for (Index p = 0; p < domain_->nodes(); ++p)
    std::copy_n(all.begin() + p * width, width,
                ordered.begin() + domain_->partition.global(Position{p}).value * width);
  return ordered;
}

/// Fills in the weights between a row and all nodes; NaN if the relation has none.
void RelationSurvey::fill(const LearnedRelation& relation, std::span<const float> right, Index row,
                          Row weights) const {
  if (relation.all) return relation.all(row, weights);
  std::fill(weights.begin(), weights.end(), nan_weight);
  if (relation.entries)
    relation.entries(row,
                     [&](Index node, double weight) { weights[static_cast<std::size_t>(node)] = weight; });
  if (!relation.of_factors()) return;
  const Index width = relation.factors.width, n = domain_->nodes();
  std::vector<float> left(static_cast<std::size_t>(width));
  relation.factors.left(row, left);
#pragma omp parallel for schedule(static)
  for (Index j = 0; j < n; ++j) {
    const float* other = right.data() + j * width;
    float sum = 0;
    for (Index c = 0; c < width; ++c) sum += left[static_cast<std::size_t>(c)] * other[c];
    weights[static_cast<std::size_t>(j)] = relation.factors.scale * static_cast<double>(sum);
  }
  if (relation.factors.finish) relation.factors.finish(weights);
}

/// Keeps edges: all weights of a given pattern, or the strongest of a row between all nodes.
void RelationSurvey::keep_strongest(const LearnedRelation& relation, int number, Index row, Row weights) {
  const Index self = domain_->rows[static_cast<std::size_t>(row)].value;
  std::vector<Index> others;
  for (Index j = 0; j < std::ssize(weights); ++j) {
    const double weight = weights[static_cast<std::size_t>(j)];
    if (std::isnan(weight) || (relation.joins_all() && (weight == 0 || j == self))) continue;
    others.push_back(j);
    if (j != self && relation.joins_all())
      acting_[static_cast<std::size_t>(relation.row_acts ? self : j)] += std::abs(weight);
  }
  const Index kept =
      relation.joins_all() ? std::min<Index>(edges_of_node_, std::ssize(others)) : std::ssize(others);
  const auto stronger = [&](Index a, Index b) {
    const double x = std::abs(weights[static_cast<std::size_t>(a)]),
                 y = std::abs(weights[static_cast<std::size_t>(b)]);
    return x != y ? x > y : a < b;
  };
  std::partial_sort(others.begin(), others.begin() + kept, others.end(), stronger);
  for (Index k = 0; k < kept; ++k) {
    const Index j = others[static_cast<std::size_t>(k)];
    found_.push_back({number, relation.row_acts ? self : j, relation.row_acts ? j : self,
                      weights[static_cast<std::size_t>(j)]});
  }
}

/// Adds |weight| and 1 to the bin of each pair of the row, (distance, bearing, {sum, count}).
void RelationSurvey::count(const LearnedRelation& relation, Index row, Row weights,
                           std::vector<double>& sums) const {
  const Index self = domain_->rows[static_cast<std::size_t>(row)].value;
  const double* own = axes_.data() + 9 * self;
  for (Index j = 0; j < std::ssize(weights); ++j) {
    const double weight = weights[static_cast<std::size_t>(j)];
    if (j == self || std::isnan(weight)) continue;
    const double* other = axes_.data() + 9 * j;
    // A bearing is that at which the target sees the source.
    const Seen place = relation.row_acts ? seen(other, own) : seen(own, other);
    if (std::isnan(place.km) || std::isnan(place.bearing)) continue;
    const auto far = std::min(distance_bins - 1, static_cast<Index>(place.km / widest_ * distance_bins));
    const auto around = static_cast<Index>(place.bearing / 360 * bearing_bins + 0.5) % bearing_bins;
    const auto at = static_cast<std::size_t>(2 * (far * bearing_bins + around));
    sums[at] += std::abs(weight);
    sums[at + 1] += 1;
  }
}

/// Gathers all edges of the relation on rank 0, sorted by target and strength.
void RelationSurvey::append_edges(RelationLayout& layout) {
  std::vector<RelationEdge> all = all_of(comm_, found_, false);
  found_.clear();
  if (comm_.rank() != 0) return;
  std::sort(all.begin(), all.end(), [](const RelationEdge& a, const RelationEdge& b) {
    if (a.target != b.target) return a.target < b.target;
    const double x = std::abs(a.weight), y = std::abs(b.weight);
    return x != y ? x > y : a.source < b.source;
  });
  for (const RelationEdge& edge : all) {
    layout.edges.push_back(edge);
    if (!mapped()) continue;
    const Seen place = seen(axes_.data() + 9 * edge.target, axes_.data() + 9 * edge.source);
    layout.edge_distance.push_back(place.km);
    layout.edge_bearing.push_back(edge.source == edge.target ? nan_weight : place.bearing);
  }
}

void RelationSurvey::append_strength(std::vector<double> sums, RelationLayout& layout) {
  reducer_.sum(std::span<double>(sums));
  if (layout.distance.empty()) {
    for (Index k = 0; k < distance_bins; ++k)
      layout.distance.push_back((static_cast<double>(k) + 0.5) * widest_ / distance_bins);
    for (Index k = 0; k < bearing_bins; ++k)
      layout.bearing.push_back(static_cast<double>(k) * 360 / bearing_bins);
  }
  for (std::size_t at = 0; at < sums.size(); at += 2) {
    layout.strength.push_back(sums[at + 1] > 0 ? sums[at] / sums[at + 1] : nan_weight);
    layout.pairs.push_back(sums[at + 1]);
  }
}

void RelationSurvey::add(const LearnedRelation& relation, RelationLayout& layout) {
  const Index rows = std::ssize(domain_->rows), n = domain_->nodes();
  const auto number = static_cast<int>(layout.relations.size());
  const std::vector<float> right = relation.of_factors() ? right_factors(relation) : std::vector<float>();
  const Index step = stride(relation);
  const auto all_pairs = static_cast<double>(n) * static_cast<double>(n);
  const Index counted =
      step *
      std::max<Index>(1, static_cast<Index>(std::ceil(all_pairs / static_cast<double>(step) / most_pairs)));
  std::vector<double> weights(static_cast<std::size_t>(n)),
      sums(mapped() ? static_cast<std::size_t>(2 * distance_bins * bearing_bins) : 0);
  for (Index i = 0; i < rows; ++i) {
    const Index node = domain_->rows[static_cast<std::size_t>(i)].value;
    if (node % step != 0) continue;
    fill(relation, right, i, weights);
    keep_strongest(relation, number, i, weights);
    if (mapped() && (relation.entries || node % counted == 0)) count(relation, i, weights, sums);
  }
  joins_all_ = joins_all_ || relation.joins_all();
  layout.relations.push_back(relation.name);
  layout.searched.push_back((n + step - 1) / step);
  append_edges(layout);
  if (mapped()) append_strength(std::move(sums), layout);
}

Index RelationSurvey::strongest_node() {
  if (!joins_all_) return -1;
  std::vector<double> all = acting_;
  reducer_.ordered_sum(std::span<double>(all));
  return std::max_element(all.begin(), all.end()) - all.begin();
}

void RelationSurvey::add_places(const LearnedRelation& relation, RelationLayout& layout) {
  const Index rows = std::ssize(domain_->rows), n = domain_->nodes(), places = std::ssize(layout.places);
  const std::vector<float> right = relation.of_factors() ? right_factors(relation) : std::vector<float>();
  // NaN cannot be summed: ranks without a weight add 0, and the number of ranks with a weight is summed, too.
  const auto size = static_cast<std::size_t>(places * n);
  std::vector<double> along(2 * size), across(2 * size);
  const auto put = [size](std::vector<double>& sums, Index at, double weight) {
    if (std::isnan(weight)) return;
    sums[static_cast<std::size_t>(at)] = weight;
    sums[size + static_cast<std::size_t>(at)] = 1;
  };
  const bool linear = relation.of_factors() && !relation.factors.finish;
  std::vector<double> weights(static_cast<std::size_t>(n));
  for (Index i = 0; i < rows; ++i) {
    const Index node = domain_->rows[static_cast<std::size_t>(i)].value;
    const auto at = std::find(layout.places.begin(), layout.places.end(), node);
    const bool own = at != layout.places.end();
    if (linear && !own) {
      std::vector<float> left(static_cast<std::size_t>(relation.factors.width));
      relation.factors.left(i, left);
      for (Index k = 0; k < places; ++k) {
        const float* other =
            right.data() + layout.places[static_cast<std::size_t>(k)] * relation.factors.width;
        double sum = 0;
        for (std::size_t c = 0; c < left.size(); ++c) sum += static_cast<double>(left[c] * other[c]);
        put(across, k * n + node, relation.factors.scale * sum);
      }
      continue;
    }
    fill(relation, right, i, weights);
    for (Index k = 0; k < places; ++k)
      put(across, k * n + node,
          weights[static_cast<std::size_t>(layout.places[static_cast<std::size_t>(k)])]);
    for (Index j = 0; own && j < n; ++j)
      put(along, (at - layout.places.begin()) * n + j, weights[static_cast<std::size_t>(j)]);
  }
  for (auto* sums : {&along, &across}) {
    reducer_.sum(std::span<double>(*sums));
    std::vector<double>& to = (sums == &along) != relation.row_acts ? layout.on_place : layout.of_place;
    for (std::size_t at = 0; at < size; ++at) to.push_back((*sums)[size + at] > 0 ? (*sums)[at] : nan_weight);
  }
}

}  // namespace rossby
