#include "rossby/model/stnn/calibration.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace rossby {
namespace {

/// An STNN on a grid. Few `slabs` in its training part stay in a cache; many do not.
struct Sizes {
  Index lat, lon, latent, slab, slabs;
};
CalibrationCase stnn(const Sizes& s, std::string_view relation, std::string_view more = "",
                     std::string_view model = "") {
  constexpr Index horizons = 5, values_at_once = Index{1} << 22;
  const Index nodes = s.lat * s.lon;
  const Index per_column = relation.find("dense") == std::string_view::npos ? 16 * nodes : nodes * nodes;
  return {.lat = s.lat,
          .lon = s.lon,
          .steps = s.slabs * s.slab + 2,
          .settings = fmt::format(
              "[model]\nname = \"stnn\"\nlatent = {}\n{}\n[train]\nslab_steps = {}\n{}\n[relation]\n{}\n"
              "[evaluate]\nhorizons = {}\n",
              s.latent, model, s.slab, more, relation, horizons),
          .horizons = horizons,
          .most_columns = std::max<Index>(values_at_once / per_column, 1)};
}

constexpr const char *given_grid = "graph = \"grid8\"",
                     *refined_grid = "graph = \"grid8\"\nmode = \"refine\"",
                     *grid_and_low_rank = "graph = \"grid8\"\ndiscover = \"low_rank\"",
                     *dense_relation = "discover = \"dense\"";

// Widths are powers of two and others, which leave vectors partly empty.
void add_sparse(std::vector<CalibrationCase>& cases) {
  const Sizes sizes[] = {{16, 30, 3, 5, 20}, {40, 64, 1, 8, 6},    {40, 64, 32, 2, 6},  {50, 80, 12, 3, 12},
                         {50, 80, 3, 8, 8},  {100, 101, 5, 4, 10}, {160, 250, 2, 6, 5}, {130, 190, 1, 10, 5}};
  for (const Sizes& s : sizes) {
    cases.push_back(stnn(s, given_grid));
    cases.push_back(stnn(s, refined_grid));
  }
  for (const int k : {0, 3, 5}) cases.push_back(stnn(sizes[k], grid_and_low_rank));
  for (const int k : {0, 4}) {
    cases.push_back(stnn(sizes[k], given_grid, "joint = true"));
    cases.push_back(stnn(sizes[k], given_grid, "", "layers = 2\nhidden = 20"));
    // Most losses are one pass over memory; these are built of several ops.
    cases.push_back(stnn(sizes[k], given_grid, "", "l2_z = 0.1"));
    cases.push_back(stnn(sizes[k], given_grid, "", "dropout_z = 0.1"));
    cases.push_back(stnn(sizes[k], refined_grid, "", "activation = \"tanh\""));
  }
}

void add_dense(std::vector<CalibrationCase>& cases) {
  for (const Sizes& s : {Sizes{10, 20, 8, 8, 4},
                         {20, 30, 3, 5, 8},
                         {25, 40, 1, 1, 20},
                         {40, 60, 5, 3, 8},
                         {40, 60, 1, 8, 6},
                         {50, 70, 2, 2, 8},
                         {60, 80, 4, 8, 3}})
    cases.push_back(stnn(s, dense_relation));
  for (const Sizes& s : {Sizes{10, 20, 1, 8, 6}, {30, 30, 2, 5, 6}})
    cases.push_back(stnn(s, std::string(refined_grid) + "\nstorage = \"dense\""));
}

/// Batches of pairs on few steps, so that an epoch's two passes are short.
void add_pairs(std::vector<CalibrationCase>& cases) {
  const char* pairs = "sampling = \"pairs\"";
  for (const Sizes& s : {Sizes{16, 32, 1, 8, 2}, {40, 60, 4, 8, 1}}) {
    cases.push_back(stnn(s, given_grid, pairs));
    cases.push_back(stnn(s, refined_grid, pairs));
    cases.push_back(stnn(s, dense_relation, pairs));
  }
  cases.push_back(stnn({30, 40, 3, 8, 1}, grid_and_low_rank, pairs));
}

}  // namespace

std::vector<CalibrationCase> stnn_calibration() {
  std::vector<CalibrationCase> cases;
  add_sparse(cases);
  add_dense(cases);
  add_pairs(cases);
  return cases;
}

std::vector<CalibrationCase> quick_stnn_calibration() {
  return {stnn({6, 8, 1, 4, 4}, "graph = \"grid8\"", "", "l2_z = 0.1\ndropout_z = 0.1"),
          stnn({6, 8, 2, 2, 4}, "graph = \"grid8\"\nmode = \"refine\""),
          stnn({4, 6, 2, 4, 4}, "discover = \"dense\"")};
}

}  // namespace rossby
