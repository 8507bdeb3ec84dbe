#include "rossby/run/scaling_plots.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/run/external_program.hpp"

namespace rossby {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> plots{"speed_up", "efficiency", "regions"}, formats{"svg", "png"};

/// Figures of a row as they are drawn: over the baseline, times the ratio of ranks in weak studies.
struct Point {
  double speed_up = 0, least = 0, most = 0;
  double predicted = 0, predicted_least = 0, predicted_most = 0;  // where the row has a prediction
};

Point point_of(const ScalingRow& row, double band) {
  const double unit = row.speed_up * row.step;  // the speed-up of a step of one second
  Point point{row.speed_up, unit / row.most, unit / row.least};
  if (row.predicted) {
    // The measured baseline: the distance to the measured point is then the error of the prediction. That is
    // predicted / measured - 1 of times: where it is the band's half width, the point lies on the edge.
    point.predicted = unit / *row.predicted;
    point.predicted_least = point.predicted * std::max(0.01, 1 - band);
    point.predicted_most = point.predicted * (1 + band);
  }
  return point;
}

/// The fastest row of each rank count: what lines go through.
std::vector<const ScalingRow*> fastest(const ScalingStudy& study) {
  std::map<int, const ScalingRow*> best;
  for (const ScalingRow& row : study.rows) {
    const ScalingRow*& known = best[row.place.ranks];
    if (known == nullptr || row.step < known->step) known = &row;
  }
  std::vector<const ScalingRow*> rows;
  for (const auto& [ranks, row] : best) rows.push_back(row);
  return rows;
}

std::string data_line(const ScalingRow& row, double band) {
  const Point p = point_of(row, band);
  const double ratio = row.speed_up / row.efficiency;
  std::string text = fmt::format("{} {} {} {} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g}",
                                 row.place.ranks, row.place.hosts, row.row_blocks, row.time_groups,
                                 1e3 * row.step, 1e3 * row.least, 1e3 * row.most, p.speed_up, p.least, p.most,
                                 p.speed_up / ratio, p.least / ratio, p.most / ratio);
  if (!row.predicted) return text + " NaN NaN NaN NaN NaN NaN NaN\n";
  for (const double value : {1e3 * *row.predicted, p.predicted, p.predicted_least, p.predicted_most,
                             p.predicted / ratio, p.predicted_least / ratio, p.predicted_most / ratio})
    text += fmt::format(" {:.6g}", value);
  return text + "\n";
}

/// Two blocks: the fastest row of each rank count, then the other ones.
std::string data_of(const ScalingStudy& study, double band) {
  std::string text =
      "# ranks hosts row_blocks time_groups step_ms min max speed_up min max efficiency min max predicted_ms "
      "speed_up min max efficiency min max\n";
  const std::vector<const ScalingRow*> lines = fastest(study);
  for (const ScalingRow* row : lines) text += data_line(*row, band);
  text += "\n\n";
  for (const ScalingRow& row : study.rows)
    if (std::find(lines.begin(), lines.end(), &row) == lines.end()) text += data_line(row, band);
  return text;
}

/// What tells the bars of regions apart.
struct BarNames {
  explicit BarNames(const ScalingStudy& study) {
    for (const ScalingRow& row : study.rows) {
      grids = grids || row.time_groups > 1 || row.stages > 1;
      stages = stages || row.stages > 1;
      hosts = hosts || row.place.hosts > 1;
    }
  }
  [[nodiscard]] std::string of(const ScalingRow& row) const {
    return fmt::format("{}{}{}", row.place.ranks,
                       !grids   ? ""
                       : stages ? fmt::format(": {}x{}x{}", row.row_blocks, row.stages, row.time_groups)
                                : fmt::format(": {}x{}", row.row_blocks, row.time_groups),
                       hosts ? fmt::format(" on {}", row.place.hosts) : "");
  }
  [[nodiscard]] std::string meaning() const {
    return fmt::format("ranks{}{}",
                       !grids   ? ""
                       : stages ? ": row blocks x stages x time groups"
                                : ": row blocks x time groups",
                       hosts ? " on hosts" : "");
  }
  bool grids = false, stages = false, hosts = false;
};

std::string regions_of(const ScalingStudy& study) {
  const BarNames names(study);
  std::string text =
      "# ranks, then ms a step: forward backward optimiser reduction other, waiting, predicted\n";
  for (const ScalingRow& row : study.rows) {
    text += fmt::format("\"{}\"", names.of(row));
    for (const double share : row.shares) text += fmt::format(" {:.6g}", 1e3 * row.step * share);
    text += fmt::format(" {:.6g}", 1e3 * row.step * row.waiting);
    text += row.predicted ? fmt::format(" {:.6g}\n", 1e3 * *row.predicted) : " NaN\n";
  }
  return text;
}

/// A string of gnuplot's in which nothing is special.
std::string text_for_gnuplot(const std::string& text) {
  std::string quoted_text = "'";
  for (const char c : one_line(text)) quoted_text += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted_text + "'";
}

/// What the axes have to hold: measured points with their bars, predictions, the ideal line.
struct Ranges {
  std::set<int> ranks;
  double low = 1, high = 1;  // of the speed-up
  double best = 1;           // of the efficiency
  bool predictions = false;
};

Ranges ranges_of(const ScalingStudy& study, double band) {
  Ranges r;
  for (const ScalingRow& row : study.rows) {
    const Point p = point_of(row, band);
    const double ratio = row.speed_up / row.efficiency;
    r.ranks.insert(row.place.ranks);
    r.low = std::min(r.low, p.least);
    r.high = std::max({r.high, p.most, ratio});
    r.best = std::max(r.best, p.most / ratio);
    if (!row.predicted) continue;
    r.predictions = true;
    // A wide band runs out of the plot, so that points can still be told from each other.
    const double above = std::min(p.predicted_most, 1.5 * p.predicted);
    r.low = std::min(r.low, std::max(p.predicted_least, p.predicted / 1.5));
    r.high = std::max(r.high, above);
    r.best = std::max(r.best, above / ratio);
  }
  return r;
}

constexpr const char* heading = "# gnuplot NAME.gp, in this folder, draws the plots anew. Change it at will.";
constexpr const char* script_head =
    R"(HEADING
set encoding utf8
set datafile missing 'NaN'
set grid
set key outside right top noenhanced
set linetype 11 linecolor rgb '#d94801' linewidth 2 pointtype 7
set linetype 12 linecolor rgb '#3182bd' dashtype 2 pointtype 4
set linetype 13 linecolor rgb '#9ecae1'
set linetype 14 linecolor rgb '#969696' pointtype 6
set linetype 15 linecolor rgb 'black' dashtype 3
do for [format in 'svg png'] {
if (format eq 'svg') {
  set terminal svg size 800,480 font 'sans,13' background 'white'
} else {
  set terminal pngcairo size 1200,720 font 'sans,18'
}
)";

constexpr const char* script_regions = R"(
set output 'NAME_regions.'.format
unset logscale
set xrange [-0.7:*]
set xtics autofreq
set yrange [0:*]
set xlabel 'XLABEL'
set ylabel 'ms a step'
set style histogram rowstacked
set boxwidth 0.6
set style fill solid 0.9
plot 'NAME.regions.dat' using 2:xtic(1) with histograms linecolor rgb '#3182bd' title 'forward', \
  '' using 3 with histograms linecolor rgb '#9ecae1' title 'backward', \
  '' using 4 with histograms linecolor rgb '#31a354' title 'optimiser', \
  '' using 5 with histograms linecolor rgb '#fd8d3c' title 'reduction', \
  '' using 6 with histograms linecolor rgb '#bdbdbd' title 'other', \
  PREDICTED'' using 0:7 with points linecolor rgb 'black' pointtype 6 title 'of which waiting'
}
)";

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
  return text;
}

/// Curves over ranks; `column` is the first of three columns, `predicted` that of a prediction.
std::string curves(const std::string& name, int column, int predicted, const Ranges& ranges, bool others,
                   double band) {
  std::string text = "plot \\\n";
  const auto add = [&](int block, const std::string& columns, const std::string& how) {
    text += fmt::format("  '{}.dat' index {} using 1:{} with {}, \\\n", name, block, columns, how);
  };
  const std::string bars = fmt::format("{}:{}:{}", column, column + 1, column + 2);
  if (ranges.predictions) {
    add(0, fmt::format("{}:{}", predicted + 1, predicted + 2),
        fmt::format("filledcurves linetype 13 fillstyle solid 0.5 noborder title 'predicted ± {:.1f} %'",
                    100 * band));
    add(0, std::to_string(predicted), "linespoints linetype 12 title 'predicted'");
  }
  if (others) add(1, bars, "yerrorbars linetype 14 title 'other grids'");
  add(0, std::to_string(column), "lines linetype 11 notitle");
  add(0, bars, "yerrorbars linetype 11 title 'measured, min to max'");
  return text;
}

std::string script_of(const ScalingStudy& study, const std::string& name, double band) {
  const Ranges ranges = ranges_of(study, band);
  const int first = *ranges.ranks.begin(), last = *ranges.ranks.rbegin();
  const bool others = fastest(study).size() < study.rows.size();
  const std::string kind = study.weak ? "weak" : "strong";
  const std::string over = fmt::format("over {} rank{}", first, first == 1 ? "" : "s");
  std::string text = replaced(replaced(script_head, "HEADING", heading), "NAME", name);
  text += fmt::format("set title {} noenhanced\n",
                      text_for_gnuplot(fmt::format("{} ({} scaling)", study.label, kind)));
  text += fmt::format("set xlabel 'ranks'\nset logscale x 2\nset xrange [{:.4g}:{:.4g}]\nset xtics ({})\n",
                      first / 1.2, last * 1.2, fmt::join(ranges.ranks, ", "));
  text += fmt::format(
      "\nset output '{}_speed_up.'.format\nset ylabel '{}speed-up {}'\nset logscale y 2\nset yrange "
      "[{:.4g}:{:.4g}]\n",
      name, study.weak ? "scaled " : "", over, ranges.low / 1.2, ranges.high * 1.2);
  text += curves(name, 8, 15, ranges, others, band);
  text += fmt::format("  x / {}.0 with lines linetype 15 title 'ideal'\n", first);
  text += fmt::format(
      "\nset output '{}_efficiency.'.format\nset ylabel 'efficiency {}'\nunset logscale y\nset yrange "
      "[0:{:.4g}]\n",
      name, over, 1.15 * ranges.best);
  text += curves(name, 11, 18, ranges, others, band);
  text += "  1 with lines linetype 15 title 'ideal'\n";
  const char* predicted =
      "'' using 0:8 with points linecolor rgb 'black' pointtype 2 title 'predicted', \\\n  ";
  std::string regions = replaced(script_regions, "PREDICTED", ranges.predictions ? predicted : "");
  regions = replaced(regions, "XLABEL", BarNames(study).meaning());
  return text + replaced(regions, "NAME", name);
}

/// A file name for a label, another one for each study.
std::string name_of(const std::string& label, std::set<std::string>& taken) {
  std::string name;
  for (const char c : label.substr(0, 60))
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '_';
  if (name.empty() || name.front() == '-') name = "study" + name;
  std::string other = name;
  for (int i = 2; !taken.insert(other).second; ++i) other = fmt::format("{}_{}", name, i);
  return other;
}

/// A folder that goes with whoever made it.
struct Workplace {
  explicit Workplace(const std::string& path) : folder(path) {
    fs::remove_all(folder);
    fs::create_directory(folder);
  }
  ~Workplace() {
    std::error_code code;
    fs::remove_all(folder, code);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  std::string folder;
};

/// The plots of a study, as they are named.
std::vector<std::string> plot_files(const std::string& name) {
  std::vector<std::string> files;
  for (const std::string& plot : plots)
    for (const std::string& format : formats) files.push_back(fmt::format("{}_{}.{}", name, plot, format));
  return files;
}

/// Whether a plot ends as its format does: gnuplot ends well on a full disk, too.
bool is_whole(const std::string& file) {
  const std::string text = read_text(file);
  if (file.ends_with(".png")) return text.ends_with(std::string_view("IEND\xae\x42\x60\x82", 8));
  const std::size_t last = text.find_last_not_of(" \r\n\t");
  return last != std::string::npos && text.substr(0, last + 1).ends_with("</svg>");
}

/// Runs the script where its data lie. Returns why there are no plots.
std::string draw(const std::string& folder, const std::string& name) {
  const std::string named = program_named("GNUPLOT", "gnuplot");
  const std::string program = named.find('/') == std::string::npos ? named : fs::absolute(named).string();
  const auto [status, signalled] = run_command(fmt::format(
      "cd {} && {} {}.gp >/dev/null 2>errors", quoted(fs::absolute(folder).string()), quoted(program), name));
  if (signalled != 0) user_error("left by signal {} while {} drew {}.gp", signalled, named, name);
  if (status == 0) {
    for (const std::string& file : plot_files(name)) {
      if (!fs::exists(folder + "/" + file)) return fmt::format("{} has not drawn {}", named, file);
      if (!is_whole(folder + "/" + file))
        return fmt::format("{} has drawn a part of {} alone; is the disk full?", named, file);
    }
    return "";
  }
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
    return fmt::format("there is no program {}: install gnuplot, or name one with GNUPLOT", named);
  std::string errors = fs::exists(folder + "/errors") ? read_text(folder + "/errors") : "";
  errors.erase(
      std::find_if_not(errors.rbegin(), errors.rend(), [](unsigned char c) { return std::isspace(c) != 0; })
          .base(),
      errors.end());
  return fmt::format("{} could not draw {}.gp: {}", named, name, one_line(errors.substr(0, 300)));
}

}  // namespace

std::vector<std::string> plots_of_earlier_report(const std::string& folder) {
  std::vector<std::string> files;
  std::set<std::string> taken;
  std::error_code code;
  if (!fs::is_regular_file(folder + "/scaling.json", code)) return files;
  const auto json = nlohmann::json::parse(read_text(folder + "/scaling.json"), nullptr, false);
  if (!json.is_object() || !json.contains("studies") || !json.at("studies").is_array()) return files;
  for (const auto& study : json.at("studies")) {
    if (!study.is_object() || !study.contains("label") || !study.at("label").is_string()) return files;
    const std::string name = name_of(study.at("label").get<std::string>(), taken);
    const std::string script = name + ".gp";
    if (!fs::is_regular_file(folder + "/" + script, code) ||
        !read_text(folder + "/" + script).starts_with(replaced(heading, "NAME", name)))
      continue;  // not by a report
    for (const std::string& file : plot_files(name)) files.push_back(file);
    for (const char* ending : {".dat", ".regions.dat", ".gp"}) files.push_back(name + ending);
  }
  return files;
}

std::string write_scaling_plots(const ScalingReport& report, const std::string& folder,
                                const std::optional<double>& band, const std::vector<std::string>& earlier) {
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const ScalingStudy& study : report.studies) names.push_back(name_of(study.label, taken));
  // Plots of other data than the table beside them would be worse than none.
  for (const std::string& file : earlier) fs::remove(folder + "/" + file);
  for (const std::string& name : names)
    for (const std::string& file : plot_files(name)) fs::remove(folder + "/" + file);
  std::string why;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ScalingStudy& study = report.studies[i];
    const std::string& name = names[i];
    const double share = band ? *band : study.prediction_error.value_or(0);
    const Workplace work(temporary_name(folder + "/" + name));
    for (const std::string& at : {folder, work.folder}) {
      atomic_write(at + "/" + name + ".dat", data_of(study, share));
      atomic_write(at + "/" + name + ".regions.dat", regions_of(study));
      atomic_write(at + "/" + name + ".gp", script_of(study, name, share));
    }
    if (why.empty()) why = draw(work.folder, name);
    if (why.empty())
      for (const std::string& file : plot_files(name))
        fs::rename(work.folder + "/" + file, folder + "/" + file);
  }
  return why;
}

}  // namespace rossby
