#include "rossby/data/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr double pi = std::numbers::pi;

// Smaller fields take less time per step than a synchronisation of threads, and far less if cores are shared.
[[maybe_unused]] constexpr Index parallel_cells = 50000;

void check_range(std::string_view what, double value, double low, double high) {
  if (!(value >= low && value <= high))
    user_error("synthetic field: {} = {} is out of range. Give a number from {} to {}", what, value, low,
               high);
}

std::uint64_t counter(Index cell) {
  return static_cast<std::uint64_t>(cell);
}

/// Visits the neighbours of a cell on the grid, in ascending cell order.
template <class Visit>
void for_neighbours(Index n_lat, Index n_lon, Index cell, Visit visit) {
  const Index row = cell / n_lon;
  const Index col = cell % n_lon;
  for (Index r = std::max<Index>(row - 1, 0); r <= std::min(row + 1, n_lat - 1); ++r)
    for (Index c = std::max<Index>(col - 1, 0); c <= std::min(col + 1, n_lon - 1); ++c)
      if (r != row || c != col) visit(r * n_lon + c);
}

}  // namespace

SyntheticField::SyntheticField(Index n_lat, Index n_lon) : n_lat_(n_lat), n_lon_(n_lon) {
  if (n_lat < 1 || n_lon < 1)
    user_error("synthetic field: the grid has {} x {} cells. Set --lat and --lon to 1 or more", n_lat, n_lon);
  land_.assign(static_cast<std::size_t>(n_lat * n_lon), 0);
}

Index SyntheticField::sea_cells() const {
  return std::count(land_.begin(), land_.end(), std::uint8_t{0});
}

double SyntheticField::latitude(Index lat) const {
  return -30 + 60 * (static_cast<double>(lat) + 0.5) / static_cast<double>(n_lat_);
}

double SyntheticField::longitude(Index lon) const {
  return 123 + 168 * (static_cast<double>(lon) + 0.5) / static_cast<double>(n_lon_);
}

HeatField::HeatField(const HeatSpec& spec)
    : SyntheticField(spec.n_lat, spec.n_lon),
      spec_(spec),
      noise_(spec.seed, "synthetic.heat.noise"),
      state_(static_cast<std::size_t>(cells())),
      next_(state_.size()) {
  check_range("conductivity", spec.conductivity, 0, 1);
  check_range("noise", spec.noise, 0, 1e30);
  check_range("sources", spec.sources, 0, 1e6);
  const Random boxes(spec.seed, "synthetic.heat.boxes");
  const auto rows = static_cast<double>(n_lat_);
  const auto cols = static_cast<double>(n_lon_);
  for (int s = 0; s < spec.sources; ++s) {
    const Random box = boxes.at(static_cast<std::uint64_t>(s));
    const double row = box.uniform(0, 0.25, 0.75) * rows;
    const double col = box.uniform(1, 0.25, 0.75) * cols;
    const double half_rows = std::max(0.5, box.uniform(2, 0.08, 0.15) * rows);
    const double half_cols = std::max(0.5, box.uniform(3, 0.08, 0.15) * cols);
    for (Index i = 0; i < cells(); ++i) {
      const double y = static_cast<double>(i / n_lon_) + 0.5;
      const double x = static_cast<double>(i % n_lon_) + 0.5;
      if (std::abs(y - row) <= half_rows && std::abs(x - col) <= half_cols)
        state_[static_cast<std::size_t>(i)] = 1;
    }
  }
}

void HeatField::next(std::span<float> field) {
  require(static_cast<Index>(field.size()) == cells(), "a synthetic field has one value a cell");
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<float>(state_[i]);
  const Random noise = noise_.at(static_cast<std::uint64_t>(step_));
  const double k = spec_.conductivity;
#pragma omp parallel for schedule(static) if (cells() >= parallel_cells)
  for (Index i = 0; i < cells(); ++i) {
    const double own = state_[static_cast<std::size_t>(i)];
    double sum = 0;
    int neighbours = 0;
    for_neighbours(n_lat_, n_lon_, i, [&](Index j) {
      sum += state_[static_cast<std::size_t>(j)];
      ++neighbours;
    });
    double value = neighbours > 0 ? (1 - k) * own + k * sum / neighbours : own;
    if (spec_.noise > 0) value += spec_.noise * noise.normal(counter(i));
    next_[static_cast<std::size_t>(i)] = value;
  }
  std::swap(state_, next_);
  ++step_;
}

std::vector<Edge> HeatField::edges() const {
  std::vector<Edge> edges;
  for (Index i = 0; i < cells(); ++i) {
    const auto first = static_cast<std::ptrdiff_t>(edges.size());
    for_neighbours(n_lat_, n_lon_, i, [&](Index j) { edges.push_back({j, i, 0, 1}); });
    const auto neighbours = static_cast<double>(static_cast<std::ptrdiff_t>(edges.size()) - first);
    std::for_each(edges.begin() + first, edges.end(), [&](Edge& edge) { edge.weight = 1 / neighbours; });
  }
  return edges;
}

PacificField::PacificField(const PacificSpec& spec)
    : SyntheticField(spec.n_lat, spec.n_lon),
      spec_(spec),
      forcing_random_(spec.seed, "synthetic.pacific.forcing"),
      basin_random_(spec.seed, "synthetic.pacific.basin"),
      source_random_(spec.seed, "synthetic.pacific.sources"),
      noise_random_(spec.seed, "synthetic.pacific.noise") {
  check_range("current", spec.current, 0, 0.6);
  check_range("diffusivity", spec.diffusivity, 0, 0.08);
  check_range("teleconnection", spec.teleconnection, 0, 0.3);
  check_range("period", spec.period, 4, 1e9);
  check_range("mean", spec.mean, -1e6, 1e6);
  for (const auto& [what, value] :
       {std::pair{"seasonal", spec.seasonal}, std::pair{"oscillation", spec.oscillation},
        std::pair{"anomaly", spec.anomaly}, std::pair{"noise", spec.noise}})
    check_range(what, value, 0, 1e6);
  const auto size = static_cast<std::size_t>(cells());
  for (auto* values : {&anomaly_, &next_, &forcing_}) values->assign(size, 0);
  for (auto* values : {&u_, &v_, &mean_, &pattern_east_, &pattern_west_}) values->assign(size, 0);
  if (spec.land) draw_land();
  draw_patterns();
  if (spec.teleconnection > 0) plant_teleconnections();
  east_ = basin_random_.normal(0);
  west_ = basin_random_.normal(1);
  constexpr int spin_up = 100;  // two and a half damping times: 99 % of the anomalies' variance
  for (int s = 0; s < spin_up; ++s) advance();
}

void PacificField::draw_land() {
  const Random random(spec_.seed, "synthetic.pacific.land");
  double wave[6][3];
  for (int k = 0; k < 6; ++k) {
    wave[k][0] = random.uniform(static_cast<std::uint64_t>(3 * k), 2, 9);
    wave[k][1] = random.uniform(static_cast<std::uint64_t>(3 * k + 1), -4, 4);
    wave[k][2] = random.uniform(static_cast<std::uint64_t>(3 * k + 2), 0, 2 * pi);
  }
  for (Index i = 0; i < cells(); ++i) {
    const double y = latitude(i / n_lon_) / 30;            // −1 … 1
    const double x = (longitude(i % n_lon_) - 123) / 168;  // 0 … 1
    double rough = 0;
    for (const auto& w : wave) rough += std::sin(2 * pi * (w[0] * x + w[1] * y / 2) + w[2]) / std::sqrt(3.0);
    const bool east = x > 0.94 - 0.09 * y * std::abs(y) + 0.012 * rough;
    const bool west = x < 0.02 + 0.03 * std::abs(y) + 0.012 * rough;
    const bool island = x < 0.45 && rough > 2.1 - 1.2 * (0.45 - x);
    land_[static_cast<std::size_t>(i)] = east || west || island;
  }
  if (sea_cells() == 0) land_[0] = 0;
}

void PacificField::draw_patterns() {
  for (Index i = 0; i < cells(); ++i) {
    const auto c = static_cast<std::size_t>(i);
    const double lat = latitude(i / n_lon_);
    const double x = (longitude(i % n_lon_) - 123) / 168;
    const double tropics = std::cos(6 * lat * pi / 180);  // 1 at the equator, −1 at 30 degrees
    u_[c] = static_cast<float>(-spec_.current * tropics);
    v_[c] = static_cast<float>(0.2 * spec_.current * std::sin(2 * pi * x) * std::sin(6 * lat * pi / 180));
    mean_[c] =
        static_cast<float>(spec_.mean + 2 - lat * lat / 150 - 3 * (x - 0.5) * std::exp(-lat * lat / 200));
    pattern_east_[c] =
        static_cast<float>(spec_.oscillation * std::exp(-lat * lat / 72 - (x - 0.75) * (x - 0.75) / 0.06));
    pattern_west_[c] = static_cast<float>(0.7 * spec_.oscillation *
                                          std::exp(-lat * lat / 200 - (x - 0.4) * (x - 0.4) / 0.03));
  }
}

Index PacificField::sea_near(double lat, double lon) const {
  Index nearest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < cells(); ++i) {
    const double dy = latitude(i / n_lon_) - lat, dx = longitude(i % n_lon_) - lon;
    if (const double square = dx * dx + dy * dy; !land_[static_cast<std::size_t>(i)] && square < least)
      least = square, nearest = i;
  }
  return nearest;
}

/// Targets have strong currents: westward at the equator, eastward at 25 degrees north.
void PacificField::plant_teleconnections() {
  constexpr double source_lat[] = {-20, 0}, source_lon[] = {250, 165}, target_lat[] = {0, 25},
                   target_lon[] = {190, 215};
  for (int k = 0; k < 2; ++k) {
    const Index source = sea_near(source_lat[k], source_lon[k]),
                target = sea_near(target_lat[k], target_lon[k]);
    if (source == target)
      user_error("synthetic field: {} x {} cells are too few for teleconnections. Raise --lat and --lon",
                 n_lat_, n_lon_);
    teleconnections_.push_back({source, target, spec_.teleconnection});
  }
}

void PacificField::force() {
  const Random random = forcing_random_.at(internal_step_);
#pragma omp parallel for schedule(static) if (cells() >= parallel_cells)
  for (Index i = 0; i < cells(); ++i) forcing_[static_cast<std::size_t>(i)] = random.normal(counter(i));
  // Binomial smoothing (1, 2, 1)/4 along each axis, twice; edges repeat. next_ is free here and serves as
  // scratch.
  for (int pass = 0; pass < 4; ++pass) {
    const bool along_lon = pass % 2 == 0;
    const Index stride = along_lon ? 1 : n_lon_;
#pragma omp parallel for schedule(static) if (cells() >= parallel_cells)
    for (Index i = 0; i < cells(); ++i) {
      const Index place = along_lon ? i % n_lon_ : i / n_lon_;
      const Index last = (along_lon ? n_lon_ : n_lat_) - 1;
      const auto c = static_cast<std::size_t>(i);
      const double below = place > 0 ? forcing_[static_cast<std::size_t>(i - stride)] : forcing_[c];
      const double above = place < last ? forcing_[static_cast<std::size_t>(i + stride)] : forcing_[c];
      next_[c] = 0.25 * below + 0.5 * forcing_[c] + 0.25 * above;
    }
    std::swap(forcing_, next_);
  }
}

void PacificField::advance() {
  constexpr double damping = 0.025;
  // Compensates the variance lost to smoothing, advection and diffusion: measured at 30 × 84 cells.
  constexpr double forcing_gain = 0.97;
  force();
  const double strength = spec_.anomaly * forcing_gain;
#pragma omp parallel for schedule(static) if (cells() >= parallel_cells)
  for (Index i = 0; i < cells(); ++i) {
    const auto c = static_cast<std::size_t>(i);
    if (land_[c]) continue;
    const Index row = i / n_lon_;
    const Index col = i % n_lon_;
    const double own = anomaly_[c];
    double change = -damping * own;
    const bool south = row > 0 && !land_[c - static_cast<std::size_t>(n_lon_)];
    const bool west = col > 0 && !land_[c - 1];
    const bool east = col + 1 < n_lon_ && !land_[c + 1];
    const bool north = row + 1 < n_lat_ && !land_[c + static_cast<std::size_t>(n_lon_)];
    // Lax–Wendroff has no numerical diffusion. Upwind is stable next to coasts and edges, which have no flux.
    const bool open = south && west && east && north;
    const auto from = [&](bool sea, Index j, double inflow) {
      if (!sea) return;
      const double transport = open ? 0.5 * inflow * (inflow + 1) : std::max(inflow, 0.0);
      change += (spec_.diffusivity + transport) * (anomaly_[static_cast<std::size_t>(j)] - own);
    };
    from(south, i - n_lon_, v_[c]);
    from(west, i - 1, u_[c]);
    from(east, i + 1, -u_[c]);
    from(north, i + n_lon_, -v_[c]);
    next_[c] = own + change + strength * forcing_[c];
  }
  // Sources also vary by themselves, so that their neighbours cannot replace them.
  const Random own = source_random_.at(internal_step_);
  for (const Teleconnection& t : teleconnections_)
    next_[static_cast<std::size_t>(t.source)] += spec_.anomaly * own.normal(counter(t.source));
  for (const Teleconnection& t : teleconnections_)
    next_[static_cast<std::size_t>(t.target)] += t.weight * (anomaly_[static_cast<std::size_t>(t.source)] -
                                                             anomaly_[static_cast<std::size_t>(t.target)]);
  std::swap(anomaly_, next_);

  // A damped rotation, driven by noise to unit variance.
  constexpr double decay = 0.98;
  const Random basin = basin_random_.at(internal_step_ + 1);
  const double angle = 2 * pi / spec_.period;
  const double drive = std::sqrt(1 - decay * decay);
  const double east = decay * (std::cos(angle) * east_ + std::sin(angle) * west_) + drive * basin.normal(0);
  west_ = decay * (std::cos(angle) * west_ - std::sin(angle) * east_) + drive * basin.normal(1);
  east_ = east;
  ++internal_step_;
}

void PacificField::next(std::span<float> field) {
  require(static_cast<Index>(field.size()) == cells(), "a synthetic field has one value a cell");
  const Random noise = noise_random_.at(static_cast<std::uint64_t>(step_));
  const double month = 2 * pi * static_cast<double>(step_ % 12) / 12;
#pragma omp parallel for schedule(static) if (cells() >= parallel_cells)
  for (Index i = 0; i < cells(); ++i) {
    const auto c = static_cast<std::size_t>(i);
    if (land_[c]) {
      field[c] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    // The cycle comes a month later in the east than in the west, so it travels, too.
    const double lag = pi / 6 * (longitude(i % n_lon_) - 123) / 168;
    const double seasonal = spec_.seasonal * latitude(i / n_lon_) / 30 * std::cos(month - lag - pi);
    double value = mean_[c] + seasonal + pattern_east_[c] * east_ + pattern_west_[c] * west_ + anomaly_[c];
    if (spec_.noise > 0) value += spec_.noise * noise.normal(counter(i));
    field[c] = static_cast<float>(value);
  }
  advance();
  ++step_;
}

}  // namespace rossby
