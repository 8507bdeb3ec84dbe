#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace rossby {

/// Interpolation between scattered noisy values of a function: the mean of a Gaussian process with Matérn's
/// covariance of smoothness 3/2 and a length for each coordinate, given them (Matheron, "Principles of
/// geostatistics", Economic Geology 1963; Rasmussen, Williams, "Gaussian Processes for Machine Learning", MIT
/// Press 2006, sections 2.2 and 4.2). Lengths, amplitude and noise are those under which the values are most
/// likely, with what is expected of them beforehand (section 5.4.1); searched for over some of the values
/// where there are many, and of more than most_kept some are left out, evenly. Coordinates that make no
/// difference get long lengths: values then count for each other however far apart they are in them.
class Kriging {
 public:
  static constexpr int dimensions = 9;
  static constexpr std::size_t most_kept =
      400;  // values: their factor takes time and memory in each training
  using Point = std::array<double, dimensions>;

  /// What is expected before any value is known. Each is searched for by factors of 2 around these.
  struct Expected {
    Point lengths = {};      // distance in a coordinate over which the function changes
    double amplitude = 0.5;  // by how much it does
    double noise = 0.12;     // standard deviation of a value around it
  };

  /// `values` with a mean of about 0, which is what is said far from all of them. Throws BugError for no
  /// values or as many points as there are not.
  Kriging(const std::vector<Point>& points, const std::vector<double>& values, const Expected& expected);

  [[nodiscard]] double operator()(const Point& at) const;

  /// What would be said of each kept value by the others (with the same lengths), minus it: K⁻¹y over the
  /// diagonal of K⁻¹, with the opposite sign (Rasmussen, Williams, section 5.4.2).
  [[nodiscard]] std::vector<double> left_out() const;

  [[nodiscard]] const Expected& found() const { return found_; }

 private:
  std::vector<Point> points_;
  Expected found_;
  std::vector<double> weights_;
};

}  // namespace rossby
