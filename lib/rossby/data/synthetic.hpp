#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/base/random.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {

/// A simulated field on a (lat, lon) grid, generated step by step with memory for a few fields. Every random
/// number is a function of (seed, cell, step). The values therefore depend only on the settings, not on ranks
/// or threads, and two runs are bitwise equal. Cells are numbered lat·n_lon + lon.
class SyntheticField {
 public:
  virtual ~SyntheticField() = default;

  [[nodiscard]] Index n_lat() const { return n_lat_; }
  [[nodiscard]] Index n_lon() const { return n_lon_; }
  [[nodiscard]] Index cells() const { return n_lat_ * n_lon_; }

  /// By cell: 1 = land, 0 = sea.
  [[nodiscard]] std::span<const std::uint8_t> land() const { return land_; }
  [[nodiscard]] Index sea_cells() const;

  /// Cell centres, degrees north and degrees east. The basin spans 30S–30N, 123E–69W at every size, as does
  /// the Pacific file with its 30 × 84 cells.
  [[nodiscard]] double latitude(Index lat) const;
  [[nodiscard]] double longitude(Index lon) const;

  /// Writes the field of the next time step to `field` (cells()), NaN on land.
  virtual void next(std::span<float> field) = 0;

  /// Number of steps generated so far.
  [[nodiscard]] Index step() const { return step_; }

 protected:
  SyntheticField(Index n_lat, Index n_lon);
  Index n_lat_;
  Index n_lon_;
  Index step_ = 0;
  std::vector<std::uint8_t> land_;
};

struct HeatSpec {
  Index n_lat = 1;  // 1: a rod
  Index n_lon = 41;
  double conductivity = 0.4;  // share of a cell's heat replaced from its neighbours per step, 0 to 1
  double noise = 0;           // standard deviation of noise per cell and step
  int sources = 1;            // initial hot boxes
  std::uint64_t seed = 1;
};

/// Heat diffusion with known relations, x_{t+1} = (1 − k)·x_t + k·W·x_t + noise, where W is the
/// row-normalised adjacency of the eight grid neighbours (two on a rod). It generates the toy data of Ziat et
/// al. (ICDM 2017, section V), a rod with k = 0.4 inside. The ends are insulated: without noise Σ_i
/// neighbours(i)·x_i is conserved. Starts from hot boxes of height 1 on 0.
class HeatField final : public SyntheticField {
 public:
  /// Throws UserError if a size is below 1, the conductivity outside 0…1 or the noise negative.
  explicit HeatField(const HeatSpec& spec);
  void next(std::span<float> field) override;

  /// The non-zeros of W, by destination, then source.
  [[nodiscard]] std::vector<Edge> edges() const;

 private:
  HeatSpec spec_;
  Random noise_;
  std::vector<double> state_;
  std::vector<double> next_;
};

struct PacificSpec {
  Index n_lat = 30;
  Index n_lon = 84;
  bool land = true;  // continents east and west, islands
  double mean = 26;  // °C, basin mean of the time mean; warmest in the west and at the equator
  double seasonal =
      0.6;  // °C, amplitude of the seasonal cycle (12 steps) at 30 degrees, opposite across the equator
  double oscillation = 0.7;   // °C, largest standard deviation of the basin oscillation
  double period = 48;         // steps, of that oscillation
  double anomaly = 0.5;       // °C, approximate standard deviation of the advected anomalies
  double noise = 0.05;        // °C, standard deviation of measurement noise, white
  double current = 0.55;      // cells per step, largest speed; 0 to 0.6 (stability of the upwind scheme)
  double diffusivity = 0.02;  // cells² per step; 0 to 0.08
  double teleconnection =
      0;  // share of the difference to a distant cell that two cells get per step; 0 to 0.3
  std::uint64_t seed = 1;
};

/// A cell that acts on a distant one: a_target += weight (a_source − a_target) in each step.
struct Teleconnection {
  Index source = 0, target = 0;
  double weight = 0;
};

/// A Pacific-like sea surface temperature, one step per month: time mean + seasonal cycle + basin oscillation
/// + anomalies + measurement noise. Anomalies a follow a_{t+1} = a − u·∇a + κ∇²a − a/40 + smooth random
/// forcing (upwind differences, no flux over coasts) in a steady current. The current is westward at the
/// equator and eastward towards 30 degrees, so that changes appear upstream first. The basin oscillation is a
/// damped, randomly driven rotation between an eastern equatorial and a western pattern (the recharge picture
/// of ENSO: Burgers, Jin and van Oldenborgh, GRL 2005), and is therefore predictable, too.
///
/// With spec.teleconnection two cells act on two distant ones. White noise drives the two sources besides the
/// smooth forcing. The current brings more to the targets from the next cell (κ + u(1 + u)/2 per step, 0.35
/// and more) than they get from the distant cell.
class PacificField final : public SyntheticField {
 public:
  /// Throws UserError if a size is below 1 or a setting outside its range.
  explicit PacificField(const PacificSpec& spec);
  void next(std::span<float> field) override;
  /// The cells of spec.teleconnection; none if it is 0.
  [[nodiscard]] std::span<const Teleconnection> teleconnections() const { return teleconnections_; }

 private:
  void draw_land();
  void draw_patterns();
  void plant_teleconnections();
  [[nodiscard]] Index sea_near(double lat, double lon) const;
  void force();    // sets forcing_ to the smooth random forcing of the current internal step
  void advance();  // advances anomalies and oscillation by one step

  PacificSpec spec_;
  Random forcing_random_;
  Random basin_random_;
  Random source_random_;  // for cells that act on distant ones
  Random noise_random_;
  std::uint64_t internal_step_ = 0;  // includes the spin-up
  double east_ = 0, west_ = 0;       // phase of the oscillation, unit variance
  std::vector<double> anomaly_, next_, forcing_;
  std::vector<Teleconnection> teleconnections_;
  std::vector<float> u_, v_;                               // cells per step, eastward and northward
  std::vector<float> mean_, pattern_east_, pattern_west_;  // °C
};

}  // namespace rossby
