#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "rossby/run/profile_report.hpp"

namespace rossby {
namespace {

constexpr double plot_width = 760, plot_height = 440;
constexpr double plot_left = 70, plot_right = plot_width - 250, plot_top = 30, plot_bottom = plot_height - 50;
constexpr const char* plot_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};

/// Logarithmic axes: share of the complete training, error.
struct Axes {
  double least_share = 1, low = std::numeric_limits<double>::infinity(), high = 0;

  void hold(double error) {
    low = std::min(low, error);
    high = std::max(high, error);
  }
  [[nodiscard]] double x(double share) const {
    const double span = std::log(1 / least_share);
    return plot_left + (plot_right - plot_left) * (span > 0 ? std::log(share / least_share) / span : 1);
  }
  [[nodiscard]] double y(double error) const {
    const double span = std::log(high / low);
    return plot_bottom - (plot_bottom - plot_top) * (span > 0 ? std::log(error / low) / span : 0.5);
  }
};

const ProfiledBaseline* best_baseline(const ProfileState& state) {
  const ProfiledBaseline* least = nullptr;
  for (const ProfiledBaseline& one : state.baselines)
    if (one.chances.predicted > 0 && (!least || one.error < least->error)) least = &one;
  return least;
}

Axes axes_of(const ProfileState& state) {
  Axes axes;
  for (const ProfiledCandidate& one : state.candidates) {
    for (const ProfiledFold& fold : one.folds)
      for (const CurvePoint& point : fold.curve) {
        axes.least_share = std::min(axes.least_share,
                                    static_cast<double>(point.steps) / static_cast<double>(one.cost.steps));
        axes.hold(point.error);
      }
    if (one.chances.predicted > 0) axes.hold(one.chances.low), axes.hold(one.chances.high);
  }
  if (const ProfiledBaseline* least = best_baseline(state)) axes.hold(least->error);
  if (!(axes.high > 0)) axes.low = axes.high = 1;
  axes.low /= 1.02;
  axes.high *= 1.02;
  return axes;
}

std::string curve_of(const Axes& axes, const ProfiledCandidate& one, const char* colour, double strength) {
  std::string text;
  for (const ProfiledFold& fold : one.folds) {
    text += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-opacity=\"{}\" points=\"", colour,
                        strength);
    for (const CurvePoint& point : fold.curve)
      text += fmt::format("{:.1f},{:.1f} ",
                          axes.x(static_cast<double>(point.steps) / static_cast<double>(one.cost.steps)),
                          axes.y(point.error));
    text += "\"/>\n";
  }
  return text;
}

/// Returns ticks at 1, 2 and 5 of each decade.
std::string ticks(const Axes& axes) {
  std::string text;
  const double first = std::pow(10, std::floor(std::log10(axes.low)));
  for (double decade = first; decade <= axes.high; decade *= 10)
    for (const double tick : {decade, 2 * decade, 5 * decade})
      if (tick >= axes.low && tick <= axes.high)
        text += fmt::format(
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" "
            "y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
            plot_left, plot_right, axes.y(tick), plot_left - 6, axes.y(tick) + 4, tick);
  for (const double share : {0.0001, 0.001, 0.01, 0.1, 1.0})
    if (share >= axes.least_share)
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g} %</text>\n", axes.x(share),
                          plot_bottom + 18, 100 * share);
  return text;
}

}  // namespace

std::string profile_plot(const ProfileState& state) {
  const Axes axes = axes_of(state);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}<text x=\"{3}\" "
      "y=\"{4}\">share of the complete training</text>\n<text x=\"{5}\" y=\"18\">validation RMSE; bars: 90 % "
      "intervals of final errors</text>\n",
      plot_width, plot_height, ticks(axes), plot_left, plot_height - 10, plot_left);
  std::vector<const ProfiledCandidate*> shown;
  for (const ProfiledCandidate& one : state.candidates)
    if (one.chances.predicted > 0) shown.push_back(&one);
  std::stable_sort(shown.begin(), shown.end(),
                   [](const auto* a, const auto* b) { return a->chances.regret < b->chances.regret; });
  double place = 0;
  for (const ProfiledCandidate* one : shown) {
    const bool named = place < static_cast<double>(std::size(plot_colours));
    const char* colour = named ? plot_colours[static_cast<std::size_t>(place)] : "#999999";
    text += curve_of(axes, *one, colour, named ? 1 : 0.4);
    const double x = plot_right + 4 + 4 * place;
    if (named)
      text += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
          "stroke-width=\"3\"/><text x=\"{4}\" y=\"{5:.1f}\" fill=\"{3}\">{6}</text>\n",
          x, axes.y(one->chances.low), axes.y(one->chances.high), colour, plot_right + 40,
          plot_top + 14 * (place + 1), one->name);
    ++place;
  }
  if (const ProfiledBaseline* least = best_baseline(state))
    text += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"black\" "
        "stroke-dasharray=\"5 4\"/><text x=\"{3}\" y=\"{4}\">- - {5}</text>\n",
        plot_left, plot_right, axes.y(least->error), plot_right + 40, plot_bottom, least->name);
  return text + "</svg>\n";
}

}  // namespace rossby
