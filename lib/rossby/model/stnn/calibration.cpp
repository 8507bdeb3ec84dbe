#include "rossby/model/stnn/calibration.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace rossby {
namespace {

/// An STNN on a grid. `slabs` of its training part: few and it stays in a cache, many and it does not.
struct Grid {
  Index lat, lon, latent, slab, slabs;
};
CalibrationCase stnn(const Grid& s, std::string_view relation, std::string_view more = "",
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

// Widths are of all kinds: powers of two and others, which leave vectors partly empty.
void add_sparse(std::vector<CalibrationCase>& cases) {
  const char* given = "graph = \"grid8\"";
  const char* refine = "graph = \"grid8\"\nmode = \"refine\"";
  const char* both = "graph = \"grid8\"\ndiscover = \"low_rank\"";
  const Grid sizes[] = {{16, 30, 3, 5, 20},   {16, 32, 8, 4, 6},   {40, 64, 1, 8, 6},   {40, 64, 4, 2, 30},
                        {40, 64, 32, 2, 6},   {50, 80, 12, 3, 12}, {50, 80, 3, 8, 8},   {100, 101, 1, 3, 20},
                        {100, 101, 5, 4, 10}, {160, 250, 2, 6, 5}, {80, 100, 16, 5, 5}, {130, 190, 1, 10, 5}};
  for (const Grid& s : sizes) {
    cases.push_back(stnn(s, given));
    cases.push_back(stnn(s, refine));
  }
  for (const int k : {0, 2, 4, 6, 7, 8}) cases.push_back(stnn(sizes[k], both));
  for (const int k : {3, 6}) cases.push_back(stnn(sizes[k], given, "joint = true"));
  for (const int k : {0, 6, 8}) cases.push_back(stnn(sizes[k], given, "", "layers = 2\nhidden = 20"));
  cases.push_back(stnn(sizes[3], given, "", "layers = 2\nhidden = 40"));
  // Losses of most are one pass over memory; these take the ops that they are made of.
  for (const int k : {1, 6, 9}) {
    cases.push_back(stnn(sizes[k], given, "", "l2_z = 0.1"));
    cases.push_back(stnn(sizes[k], given, "", "dropout_z = 0.1"));
    cases.push_back(stnn(sizes[k], refine, "", "activation = \"tanh\""));
  }
}

void add_dense(std::vector<CalibrationCase>& cases) {
  const char* discover = "discover = \"dense\"";
  for (const Grid& s : {Grid{10, 20, 1, 8, 6},
                        {10, 20, 8, 8, 4},
                        {20, 30, 3, 5, 8},
                        {25, 40, 1, 1, 20},
                        {25, 40, 8, 8, 4},
                        {30, 50, 2, 6, 6},
                        {40, 60, 5, 3, 8},
                        {40, 60, 1, 8, 6},
                        {50, 70, 2, 2, 8},
                        {60, 80, 4, 8, 3},
                        {45, 80, 1, 6, 5},
                        {22, 35, 3, 7, 6}})
    cases.push_back(stnn(s, discover));
  const char* refine = "graph = \"grid8\"\nmode = \"refine\"\nstorage = \"dense\"";
  for (const Grid& s : {Grid{10, 20, 1, 8, 6}, {20, 30, 4, 4, 6}, {30, 30, 2, 5, 6}})
    cases.push_back(stnn(s, refine));
}

/// Batches of pairs, on few steps: an epoch's two passes are short.
void add_pairs(std::vector<CalibrationCase>& cases) {
  const char* pairs = "sampling = \"pairs\"";
  const char* given = "graph = \"grid8\"";
  const char* refine = "graph = \"grid8\"\nmode = \"refine\"";
  for (const Grid& s : {Grid{16, 32, 1, 8, 2}, {40, 60, 4, 8, 1}, {80, 100, 2, 4, 1}}) {
    cases.push_back(stnn(s, given, pairs));
    cases.push_back(stnn(s, refine, pairs));
  }
  cases.push_back(stnn({30, 40, 3, 8, 1}, "graph = \"grid8\"\ndiscover = \"low_rank\"", pairs));
  for (const Grid& s : {Grid{10, 20, 2, 8, 2}, {24, 40, 4, 8, 1}, {50, 70, 3, 2, 1}})
    cases.push_back(stnn(s, "discover = \"dense\"", pairs));
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
