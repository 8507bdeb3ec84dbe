#pragma once

#include <gtest/gtest.h>

#include "tests/lib/kernels/harness.hpp"

namespace rossby::test {

inline const std::vector<Shape> small_shapes{{0, 3, 2}, {3, 0, 2}, {3, 2, 0},  {1, 1, 1},
                                             {7, 1, 1}, {5, 3, 2}, {13, 2, 7}, {3, 5, 101}};
/// Enough for several threads and for sums over several blocks of rows.
inline const std::vector<Shape> large_shapes{{523, 5, 13}, {2053, 17, 1}};
inline const std::vector<Layout> layouts{Layout::packed, Layout::gapped, Layout::time_major};

/// Equal in every bit, NaN included.
inline void expect_same(const std::vector<double>& got, const std::vector<double>& expected,
                        const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  Index different = 0;
  for (std::size_t k = 0; k < got.size(); ++k)
    different += got[k] != expected[k] && !(std::isnan(got[k]) && std::isnan(expected[k]));
  EXPECT_EQ(different, 0) << what;
}

/// Relative to 1 + |expected|, and to the size that a sum of `terms` numbers of either sign reaches.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double terms,
                        double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(expected[k]) && std::isnan(got[k])) continue;
    const double error = std::abs(got[k] - expected[k]) / (1 + std::abs(expected[k]) + std::sqrt(terms));
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  EXPECT_LE(worst, tolerance);
}

}  // namespace rossby::test
