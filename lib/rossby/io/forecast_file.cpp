#include "rossby/io/forecast_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/hyperslabs.hpp"
#include "rossby/io/node_match.hpp"
#include "rossby/io/node_values.hpp"
#include "rossby/io/series_layout.hpp"
#include "rossby/io/units.hpp"

namespace rossby {
namespace {

constexpr std::string_view key = "a file of forecasts";

bool is_planar(const SeriesInfo& series) {
  return series.gridded || series.curvilinear;
}

std::string shape_text(const std::vector<NetcdfDimension>& dimensions) {
  std::vector<std::string> texts;
  for (const NetcdfDimension& d : dimensions) texts.push_back(fmt::format("{} = {}", d.name, d.length));
  return fmt::format("({})", fmt::join(texts, ", "));
}

std::string wanted_text(const SeriesInfo& series, Index features) {
  const std::string nodes = is_planar(series) ? fmt::format("{} = {}, {} = {}", series.row_name, series.n_lat,
                                                            series.column_name, series.n_lon)
                                              : series.column_name;
  return fmt::format("(init_time, lead, {}{})", nodes,
                     features > 1 ? fmt::format(", feature = {}", features) : "");
}

bool is_called(const ArrayFile& file, const NetcdfDimension& dimension, std::string_view name,
               std::string_view standard_name) {
  if (dimension.name == name) return true;
  const NetcdfVariable* v = detail::coordinate(file, dimension);
  return v != nullptr && file.text(*v, "standard_name") == standard_name;
}

/// True if the dimensions are (init_time, lead, nodes…[, feature]).
bool fits(const ArrayFile& file, const NetcdfVariable& variable, const SeriesInfo& series, Index features) {
  const auto& d = variable.dimensions;
  const std::size_t nodes = is_planar(series) ? 2 : 1;
  if (d.size() != 2 + nodes + (features > 1 ? 1 : 0)) return false;
  if (!is_called(file, d[0], "init_time", "forecast_reference_time") ||
      !is_called(file, d[1], "lead", "forecast_period"))
    return false;
  if (features > 1 && d.back().length != features) return false;
  return !is_planar(series) || (d[2].length == series.n_lat && d[3].length == series.n_lon);
}

void check_units(const ArrayFile& file, const NetcdfVariable& variable, const SeriesInfo& series,
                 const std::string& wanted) {
  const std::string units = file.text(variable, "units").value_or("");
  if (units.empty() || wanted.empty()) return;
  const auto conversion = unit_conversion(units, wanted);
  if (!conversion || !conversion->is_identity())
    user_error(
        "{}: variable {} has units \"{}\", but the data have units \"{}\" ({}). Convert the forecasts to the "
        "units of the data",
        file.path(), variable.name, units, wanted, series.path);
}

/// Converts a lead, in the units of its coordinate, to steps of the axis; none if it is not a whole number of
/// steps.
class LeadSteps {
 public:
  LeadSteps(const TimeAxis& axis, std::string_view units, const std::string& origin) {
    const std::string name = lower_case(units);
    if (name.empty() || name == "1" || name == "step" || name == "steps") return;
    const bool months = name.starts_with("month"), years = name.starts_with("year");
    if (axis.spacing() == TimeAxis::Spacing::months && (months || years)) {
      steps_ = (years ? 12.0 : 1.0) / static_cast<double>(axis.step_months());
      return;
    }
    std::string time(units);
    if (name == "weeks" || name == "week") time = "7 days";
    const auto seconds = unit_conversion(time, "s");
    if (axis.spacing() != TimeAxis::Spacing::duration || months || years || !seconds)
      user_error(
          "{} has units \"{}\", in which a step of the data ({}) has no fixed length. Remove the attribute "
          "units, and write lead times in steps: 1 is the first step after init_time",
          origin, units, axis.step_text());
    steps_ = 1000 * seconds->factor / static_cast<double>(axis.step_milliseconds());
  }

  [[nodiscard]] std::optional<Index> of(double lead) const {
    const double steps = lead * steps_, whole = std::round(steps);
    if (!(std::abs(steps - whole) <= 1e-6 * std::max(1.0, std::abs(steps))) || std::abs(whole) > 1e9)
      return std::nullopt;
    return static_cast<Index>(whole);
  }

 private:
  double steps_ = 1;
};

/// True if stamps of two calendars with equal numbers are the same date.
bool same_dates(const std::string& a, const std::string& b) {
  const auto usual = [](const std::string& name) {
    return name.empty() || name == "standard" || name == "gregorian" || name == "proleptic_gregorian";
  };
  return a == b || (usual(a) && usual(b));
}

}  // namespace

ForecastFile ForecastFile::open(const std::string& path, const SeriesInfo& series) {
  ForecastFile file;
  file.path_ = path;
  file.file_ = ArrayFile::open(path);
  file.planar_ = is_planar(series);
  file.features_ = series.features;
  Index features = 0;
  for (const SeriesVariable& variable : series.variables) {
    file.add_variable(series, variable, features);
    features += variable.features;
  }
  const NetcdfVariable& variable = *file.columns_.front().variable;
  const auto& dimensions = variable.dimensions;
  if (file.planar_) {
    check_axes(*file.file_, series, {dimensions[2], dimensions[3]}, key);
    file.place_.resize(as_size(series.file_nodes));
    std::iota(file.place_.begin(), file.place_.end(), Index{0});
  } else {
    file.place_ = places_of_nodes(*file.file_, series, dimensions[2], variable.name, key);
    if (matched_by_position(*file.file_, series, dimensions[2]))
      file.remark_ =
          fmt::format("warning   {}: its nodes have no ids: they are matched by position with those of {}\n",
                      path, series.path);
  }
  file.grid_columns_ = dimensions[file.planar_ ? 3 : 2].length;
  file.match_inits(series);
  file.match_leads(series);
  for (std::size_t i = 0; i < file.place_.size(); ++i)
    if (file.place_[i] < 0) file.missing_[static_cast<Index>(i)] = node_text(series, static_cast<Index>(i));
  return file;
}

void ForecastFile::add_variable(const SeriesInfo& series, const SeriesVariable& wanted, Index first) {
  const NetcdfVariable* v = file_->find(wanted.name);
  if (v == nullptr) {
    std::vector<std::string> there;
    for (const NetcdfVariable& other : file_->variables()) there.push_back(other.name);
    user_error(
        "{}: there is no variable {}, but {} has this variable. Add the variable to the forecast file, or "
        "rename "
        "one of the variables of the forecast file: {}",
        path_, wanted.name, series.path, fmt::join(there, ", "));
  }
  if (v->type == NetcdfType::text || !fits(*file_, *v, series, wanted.features))
    user_error(
        "{}: variable {} has dimensions {}, but forecasts need {} in this order. Transpose the variable, or "
        "write it with these dimensions",
        path_, v->name, shape_text(v->dimensions), wanted_text(series, wanted.features));
  if (!columns_.empty() && (columns_.front().variable->dimensions[0].name != v->dimensions[0].name ||
                            columns_.front().variable->dimensions[1].name != v->dimensions[1].name ||
                            columns_.front().variable->dimensions[2].name != v->dimensions[2].name))
    user_error(
        "{}: variables {} and {} have different dimensions. Write all variables with the same dimensions "
        "init_time, lead and nodes",
        path_, columns_.front().variable->name, v->name);
  file_->check_claim(*v);
  check_units(*file_, *v, series, wanted.units);
  std::vector<std::string> remarks;
  if (!file_->chunks(*v).empty()) file_->cache_chunks(*v, Index{64} << 20);
  columns_.push_back({v, detail::Decoder(*file_, *v, std::nullopt, remarks), first, wanted.features});
}

void ForecastFile::match_inits(const SeriesInfo& series) {
  detail::VariableLayout layout;
  layout.variable = columns_.front().variable;
  layout.time = 0;
  std::vector<std::string> remarks;
  const TimeAxis axis = detail::read_stamps(*file_, layout, remarks).axis();
  const TimeAxis& own = series.time;
  if (axis.dated() != own.dated() || (own.dated() && !same_dates(axis.calendar(), own.calendar())))
    user_error("{}: init_time is {}, but the time of {} is {}. Write init_time with the calendar of the data",
               path_, axis.dated() ? fmt::format("in the calendar \"{}\"", axis.calendar()) : "not dated",
               series.path,
               own.dated() ? fmt::format("in the calendar \"{}\"", own.calendar()) : "not dated");
  inits_ =
      axis.size() == 1 ? axis.text(0) : fmt::format("{} to {}", axis.text(0), axis.text(axis.size() - 1));
  const double near = own.dated() ? 1000 : 1e-6 * std::max(std::abs(own.step_count()), 1e-6);
  const auto stamp = [](const TimeAxis& of, Index t) {
    return of.dated() ? static_cast<double>(of.stamp(t)) : of.values()[as_size(t)];
  };
  init_of_.assign(as_size(series.steps), -1);
  Index k = 0;
  for (Index t = 0; t < series.steps; ++t) {
    while (k < axis.size() && stamp(axis, k) < stamp(own, t) - near) ++k;
    if (k < axis.size() && stamp(axis, k) <= stamp(own, t) + near) init_of_[as_size(t)] = k;
  }
}

void ForecastFile::match_leads(const SeriesInfo& series) {
  const NetcdfDimension& dimension = columns_.front().variable->dimensions[1];
  const NetcdfVariable* v = detail::coordinate(*file_, dimension);
  if (v == nullptr)
    user_error(
        "{}: dimension {} has no coordinate variable {}({}) with the lead times. Add this coordinate "
        "variable",
        path_, dimension.name, dimension.name, dimension.name);
  const LeadSteps steps(series.time, file_->text(*v, "units").value_or(""),
                        fmt::format("{}: variable {}", path_, v->name));
  const std::vector<double> leads = file_->read_all(*v);
  for (std::size_t k = 0; k < leads.size(); ++k) {
    const std::optional<Index> horizon = steps.of(leads[k]);
    if (!horizon || *horizon < 1 || *horizon > std::max<Index>(series.steps, std::ssize(leads))) continue;
    if (std::ssize(lead_of_) < *horizon) lead_of_.resize(as_size(*horizon), -1);
    if (lead_of_[as_size(*horizon - 1)] >= 0)
      user_error("{}: variable {} has the lead time {:g} twice. Give each lead time once", path_, v->name,
                 leads[k]);
    lead_of_[as_size(*horizon - 1)] = static_cast<Index>(k);
  }
  if (horizons() == 0)
    user_error(
        "{}: {} has no forecast of the first step after init_time ({}). The lead times are {:g} to {:g}. Add "
        "forecasts of the first step",
        path_, v->name, series.time.step_text(), leads.empty() ? 0 : leads.front(),
        leads.empty() ? 0 : leads.back());
}

Index ForecastFile::horizons() const {
  return std::find(lead_of_.begin(), lead_of_.end(), -1) - lead_of_.begin();
}

void ForecastFile::expect_nodes(std::span<const Index> file_nodes) const {
  for (const Index node : file_nodes)
    if (place_[as_size(node)] < 0)
      user_error(
          "{}: there are no forecasts of {}, but the run has this node. Write forecasts of this node, or NaN",
          path_, missing_.at(node));
}

void ForecastFile::read(std::span<const Index> file_nodes, std::span<const Index> origins, Index horizons,
                        std::span<const double> centers, float* out) const {
  expect_nodes(file_nodes);
  require(horizons <= this->horizons(), "leads that the file has");
  std::vector<Index> cells;
  for (const Index node : file_nodes) cells.push_back(place_[as_size(node)]);
  for (const Column& column : columns_)
    if (column.variable->type == NetcdfType::float32)
      read_variable<float>(column, cells, origins, horizons, centers, out);
    else
      read_variable<double>(column, cells, origins, horizons, centers, out);
}

/// Reads one hyperslab per origin and rectangle of nodes, with all leads.
template <class Raw>
void ForecastFile::read_variable(const Column& column, std::span<const Index> cells,
                                 std::span<const Index> origins, Index horizons,
                                 std::span<const double> centers, float* out) const {
  const Index nodes = std::ssize(cells), count = std::ssize(origins), m = column.features;
  std::vector<Index> order(as_size(nodes)), ascending;
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return cells[as_size(a)] < cells[as_size(b)]; });
  for (const Index k : order) ascending.push_back(cells[as_size(k)]);
  constexpr Index free_cells = 64;
  const auto rectangles = detail::cover(ascending, grid_columns_, free_cells);
  const auto [low, high] = std::minmax_element(lead_of_.begin(), lead_of_.begin() + horizons);
  const Index first_lead = *low, leads = *high - *low + 1;
  std::vector<Raw> piece;
  for (const detail::Rectangle& rectangle : rectangles) {
    std::vector<Index> start{0, first_lead}, length{1, leads};
    if (planar_) start.push_back(rectangle.row), length.push_back(rectangle.rows);
    start.push_back(rectangle.column), length.push_back(rectangle.columns);
    if (column.variable->dimensions.size() > start.size()) start.push_back(0), length.push_back(m);
    const Index plane = rectangle.area() * m;
    check_memory(leads * plane, sizeof(Raw), fmt::format("{}: variable {}", path_, column.variable->name));
    piece.resize(as_size(leads * plane));
    for (Index o = 0; o < count; ++o) {
      start[0] = init_of_[as_size(origins[as_size(o)])];
      require(start[0] >= 0, "origins that the file has");
      file_->read(*column.variable, start, length, piece.data());
      for (Index h = 0; h < horizons; ++h) {
        const Raw* from = piece.data() + (lead_of_[as_size(h)] - first_lead) * plane;
        for (const auto& node : rectangle.nodes)
          for (Index f = 0; f < m; ++f) {
            const Index at = order[as_size(node.position)] * features_ + column.first + f;
            out[(h * count + o) * nodes * features_ + at] =
                column.decoder.value(from[node.cell * m + f], centers.empty() ? 0 : centers[as_size(at)]);
          }
      }
    }
  }
}

}  // namespace rossby
