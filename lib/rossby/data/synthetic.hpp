#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/base/random.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {

/// A simulated field on a (lat, lon) grid, made step by step with memory for a few fields only. Every random
/// number is a function of (seed, cell, step), so the values depend on the settings alone: not on ranks or
/// threads, and two runs are bit-equal. Cells are numbered lat·n_lon + lon.
class SyntheticField {
 public:
  virtual ~SyntheticField() = default;

  [[nodiscard]] Index n_lat() const { return n_lat_; }
  [[nodiscard]] Index n_lon() const { return n_lon_; }
  [[nodiscard]] Index cells() const { return n_lat_ * n_lon_; }

  /// 1 = land, 0 = sea, of each cell.
  [[nodiscard]] std::span<const std::uint8_t> land() const { return land_; }
  [[nodiscard]] Index sea_cells() const;

  /// Cell centres, degrees north and degrees east; the basin spans 30S–30N, 123E–69W at every size, as the
  /// Pacific file with its 30 × 84 cells does.
  [[nodiscard]] double latitude(Index lat) const;
  [[nodiscard]] double longitude(Index lon) const;

  /// The field of the next time step into `field` (cells()), NaN on land.
  virtual void next(std::span<float> field) = 0;

  /// Steps made so far.
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
  double conductivity = 0.4;  // share of a cell's heat that its neighbours replace in a step, 0 to 1
  double noise = 0;           // standard deviation of what is added to each cell at each step
  int sources = 1;            // hot boxes at the start
  std::uint64_t seed = 1;
};

/// Heat diffusion with known relations, x_{t+1} = (1 − k)·x_t + k·W·x_t + noise, where W is the
/// row-normalised adjacency of the eight grid neighbours (two on a rod): the generator behind the toy data of
/// Ziat et al. (ICDM 2017, section V), whose rod has k = 0.4 inside. The ends are insulated: without noise
/// Σ_i neighbours(i)·x_i is conserved. Starts from hot boxes of height 1 on 0.
class HeatField final : public SyntheticField {
 public:
  /// Throws UserError where a size is below 1, the conductivity outside 0…1 or the noise negative.
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
  double oscillation = 0.7;   // °C, standard deviation of the basin oscillation where it is largest
  double period = 48;         // steps, of that oscillation
  double anomaly = 0.5;       // °C, about the standard deviation of the advected anomalies
  double noise = 0.05;        // °C, standard deviation of measurement noise, white
  double current = 0.55;      // cells a step, largest speed; 0 to 0.6 (stability of the upwind scheme)
  double diffusivity = 0.02;  // cells² a step; 0 to 0.08
  double teleconnection =
      0;  // share of the difference that two distant cells bring to two others a step; 0 to 0.3
  std::uint64_t seed = 1;
};

/// A cell that acts on a distant one: a_target += weight (a_source − a_target) each step.
struct Teleconnection {
  Index source = 0, target = 0;
  double weight = 0;
};

/// A Pacific-like sea surface temperature, one step a month: time mean + seasonal cycle + basin oscillation +
/// anomalies + measurement noise. Anomalies a follow a_{t+1} = a − u·∇a + κ∇²a − a/40 + smooth random forcing
/// (upwind differences, no flux over coasts) in a steady current, westward at the equator and eastward
/// towards 30 degrees, so that what comes is seen upstream first. The basin oscillation is a damped, randomly
/// driven rotation between an eastern equatorial and a western pattern (the recharge picture of ENSO:
/// Burgers, Jin and van Oldenborgh, GRL 2005), so that it too is predictable.
///
/// With spec.teleconnection two cells, which white noise drives beside the smooth forcing, act on two distant
/// ones. The current brings more to these from the next
/// cell (κ + u(1 + u)/2 a step, 0.35 and more) than they get from afar.
class PacificField final : public SyntheticField {
 public:
  /// Throws UserError where a size is below 1 or a setting outside its range.
  explicit PacificField(const PacificSpec& spec);
  void next(std::span<float> field) override;
  /// Those of spec.teleconnection; none if it is 0.
  [[nodiscard]] std::span<const Teleconnection> teleconnections() const { return teleconnections_; }

 private:
  void draw_land();
  void draw_patterns();
  void plant_teleconnections();
  [[nodiscard]] Index sea_near(double lat, double lon) const;
  void force();    // smooth random forcing of the present internal step into forcing_
  void advance();  // anomalies and oscillation by one step

  PacificSpec spec_;
  Random forcing_random_;
  Random basin_random_;
  Random source_random_;  // of cells that act on distant ones
  Random noise_random_;
  std::uint64_t internal_step_ = 0;  // counts the spin-up too
  double east_ = 0, west_ = 0;       // phase of the oscillation, unit variance
  std::vector<double> anomaly_, next_, forcing_;
  std::vector<Teleconnection> teleconnections_;
  std::vector<float> u_, v_;                               // cells a step, eastward and northward
  std::vector<float> mean_, pattern_east_, pattern_west_;  // °C
};

}  // namespace rossby
