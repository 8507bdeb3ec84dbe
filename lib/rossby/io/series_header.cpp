// Several files as one series: checks of their common properties, and their time axis.
#include "rossby/io/series_header.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/series_part.hpp"

namespace rossby {
namespace {

using detail::SeriesPart;
using Json = nlohmann::json;

constexpr std::uint64_t fnv_prime = 0x100000001B3ull;

/// A hash of coordinates as float32, because files may differ in precision, with one NaN.
std::uint64_t hash_of(const std::vector<double>& degrees) {
  std::uint64_t hash = 0xCBF29CE484222325ull + degrees.size();
  for (const double value : degrees) {
    const auto x = static_cast<float>(value);
    const float one = std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x + 0.0F;
    hash = (hash ^ std::bit_cast<std::uint32_t>(one)) * fnv_prime;
  }
  return hash;
}

std::uint64_t hash_of(const std::vector<std::string>& names) {
  TextHash hash;
  for (const std::string& name : names) hash.add_format("{}:{} ", name.size(), name);
  return hash.value();
}

/// 0 if edges cannot be read: users of the edges report the error.
std::uint64_t hash_of_edges(const ArrayFile& file, Index count) {
  constexpr Index block = Index{1} << 16;
  std::uint64_t hash = 1;
  try {
    for (Index first = 0; first < count; first += block)
      for (const FileEdge& edge :
           detail::read_edges(file, "edge_weight", first, std::min(block, count - first)))
        for (const auto word :
             {static_cast<std::uint64_t>(edge.source), static_cast<std::uint64_t>(edge.destination),
              std::bit_cast<std::uint64_t>(edge.weight)})
          hash = (hash ^ word) * fnv_prime;
  } catch (const UserError&) {
    return 0;
  }
  return hash;
}

std::string shape_text(const SeriesInfo& info) {
  if (info.gridded || info.curvilinear) return fmt::format("{} x {} cells", info.n_lat, info.n_lon);
  return fmt::format("{} nodes", info.file_nodes);
}

std::string unit_text(const std::string& unit) {
  return unit.empty() ? "no unit" : fmt::format("unit \"{}\"", unit);
}

/// A file of the series, and the one that it is compared with.
struct Pair {
  const SeriesHeader &here, &first;
  std::span<const std::string> variables;
  std::optional<double> null_value;

  [[nodiscard]] const std::string& path() const { return here.info.path; }
  [[nodiscard]] const std::string& first_path() const { return first.info.path; }

  [[nodiscard]] std::vector<UnitConversion> check() const {
    check_variables();
    check_nodes();
    return conversions();
  }

  void check_variables() const {
    const auto names = [](const SeriesInfo& info) {
      std::vector<std::string> list;
      for (const SeriesVariable& variable : info.variables) list.push_back(variable.name);
      return fmt::format("{}", fmt::join(list, ", "));
    };
    if (names(here.info) != names(first.info))
      user_error(
          "{}: the variable of this file is {}, but the variable of {} is {}. Set data.variables to "
          "variables that all files have",
          path(), names(here.info), first_path(), names(first.info));
    for (std::size_t v = 0; v < here.info.variables.size(); ++v) {
      const SeriesVariable &a = here.info.variables[v], &b = first.info.variables[v];
      if (a.features != b.features || a.feature_labels != b.feature_labels)
        user_error(
            "{}: variable {} has {} features{}, but in {} it has {}{}. The files of a series need the same "
            "features. Leave this file out of data.file",
            path(), a.name, a.features, label_text(a), first_path(), b.features, label_text(b));
    }
  }

  static std::string label_text(const SeriesVariable& variable) {
    return variable.feature_labels.empty() ? ""
                                           : fmt::format(" ({})", fmt::join(variable.feature_labels, ", "));
  }

  void check_nodes() const {
    const SeriesInfo &a = here.info, &b = first.info;
    if (a.gridded != b.gridded || a.curvilinear != b.curvilinear || a.n_lat != b.n_lat ||
        a.n_lon != b.n_lon || a.file_nodes != b.file_nodes)
      user_error(
          "{}: this file has {}, but {} has {}. The files of a series need the same nodes. Leave this file "
          "out of data.file, or interpolate it to the same grid",
          path(), shape_text(a), first_path(), shape_text(b));
    if (here.latitudes != first.latitudes || here.longitudes != first.longitudes || here.names != first.names)
      refuse_nodes();
    if (a.has_edges != b.has_edges || a.edges != b.edges || here.edges != first.edges)
      user_error(
          "{}: the edges differ from the edges of {} ({} and {} edges). Write the graph into a separate "
          "file, and set relation.file to that file",
          path(), first_path(), a.edges, b.edges);
  }

  /// Reads the files to find the node that differs, because headers have only hashes.
  [[noreturn]] void refuse_nodes() const {
    const auto open = [&](const std::string& of) {
      return SeriesPart::open(of, variables, null_value).describe(false).info;
    };
    const SeriesInfo a = open(path()), b = open(first_path());
    for (std::size_t i = 0; i < std::min(a.node_labels.size(), b.node_labels.size()); ++i)
      if (a.node_labels[i] != b.node_labels[i])
        user_error(
            "{}: node {} is \"{}\", but it is \"{}\" in {}. The files of a series need the same nodes in the "
            "same order. Sort the nodes with ds.sel({}=names) of xarray",
            path(), i, a.node_labels[i], b.node_labels[i], first_path(), b.column_name);
    if (a.node_labels.size() != b.node_labels.size())
      user_error(
          "{}: {} nodes have names, but in {}, {} nodes have names. Give names to the nodes in all files, or "
          "in none",
          path(), a.node_labels.size(), first_path(), b.node_labels.size());
    const bool axes = a.gridded;
    for (const bool latitude : {true, false}) {
      const auto& x = axes ? (latitude ? a.lat : a.lon) : (latitude ? a.node_lat : a.node_lon);
      const auto& y = axes ? (latitude ? b.lat : b.lon) : (latitude ? b.node_lat : b.node_lon);
      const char* kind = latitude ? "latitude" : "longitude";
      for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
        if (static_cast<float>(x[i]) != static_cast<float>(y[i]) && !(std::isnan(x[i]) && std::isnan(y[i])))
          user_error(
              "{}: {} {} is {:.8g}, but it is {:.8g} in {}. Write all files of the series with the same "
              "nodes in the same order",
              path(), kind, i, x[i], y[i], first_path());
      if (x.size() != y.size())
        user_error(
            "{}: the file has {} {}s, but {} has {}. Write all files of the series with the same nodes",
            path(), x.size(), kind, first_path(), y.size());
    }
    user_error("{}: the nodes differ from the nodes of {}. Write all files of the series with the same nodes",
               path(), first_path());
  }

  [[nodiscard]] std::vector<UnitConversion> conversions() const {
    std::vector<UnitConversion> list;
    bool any = false;
    for (std::size_t v = 0; v < here.info.variables.size(); ++v) {
      const SeriesVariable &a = here.info.variables[v], &b = first.info.variables[v];
      const auto conversion = unit_conversion(a.units, b.units);
      if (!conversion)
        user_error(
            "{}: variable {} has {}, but {} in {}, and no conversion between these units is known. Set the "
            "right units attribute, or convert the values",
            path(), a.name, unit_text(a.units), unit_text(b.units), first_path());
      any = any || !conversion->is_identity();
      list.push_back(*conversion);
    }
    return any ? list : std::vector<UnitConversion>{};
  }
};

/// Time axes of all files.
class Axes {
 public:
  Axes(std::span<const std::string> names, std::span<const SeriesHeader> headers)
      : names_(names), headers_(headers) {
    for (const SeriesHeader& header : headers) axes_.push_back(header.stamps.axis());
    order_.resize(headers.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t k = 1; k < axes_.size(); ++k)
      if (axes_[k].dated() != axes_[0].dated()) {
        const std::size_t dated = axes_[0].dated() ? 0 : k, other = axes_[0].dated() ? k : 0;
        user_error(
            "{}: the time axis has dates ({}), but the time axis of {} has no dates. Write dates into all "
            "files of the series",
            names[dated], headers[dated].stamps.units, names[other]);
      }
    for (std::size_t k = 1; k < axes_.size(); ++k) check_calendars(0, k);  // stamps need one calendar
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return starts_before(a, b); });
    for (std::size_t k = 1; k < order_.size(); ++k) check_disjoint(order_[k - 1], order_[k]);
  }

  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }
  [[nodiscard]] Index steps(std::size_t k) const { return axes_[k].size(); }

  [[nodiscard]] TimeAxis join(const std::string& path) const {
    const TimeAxis& first = axes_[order_[0]];
    const detail::Stamps& known = headers_[order_[0]].stamps;
    detail::Stamps all{
        {}, known.units, known.calendar, fmt::format("{}: variable {}", path, known.variable), ""};
    for (const std::size_t k : order_) {
      const detail::Stamps& stamps = headers_[k].stamps;
      const bool same = stamps.units == known.units && stamps.calendar == known.calendar;
      if (same || !first.dated())
        all.values.insert(all.values.end(), stamps.values.begin(), stamps.values.end());
      else
        for (Index t = 0; t < axes_[k].size(); ++t) all.values.push_back(first.to_value(axes_[k].stamp(t)));
    }
    return all.axis();
  }

 private:
  [[nodiscard]] bool starts_before(std::size_t a, std::size_t b) const {
    return axes_[a].dated() ? axes_[a].stamp(0) < axes_[b].stamp(0)
                            : axes_[a].values().front() < axes_[b].values().front();
  }

  /// Most files' calendars differ only before 1582-10-15.
  void check_calendars(std::size_t a, std::size_t b) const {
    if (!axes_[a].dated()) return;
    const auto calendar = [&](std::size_t k) {
      return TimeAxis::calendar_named(axes_[k].calendar(), names_[k]);
    };
    const auto is_ours = [](Calendar c) { return c == Calendar::standard || c == Calendar::gregorian; };
    constexpr Milliseconds gregorian_from = -12'219'292'800'000;
    if (calendar(a) == calendar(b)) return;
    if (is_ours(calendar(a)) && is_ours(calendar(b)) && axes_[a].stamp(0) >= gregorian_from &&
        axes_[b].stamp(0) >= gregorian_from)
      return;
    user_error(
        "{}: its calendar is {}, but that of {} is {}. The files of a series need the same calendar. "
        "Convert the calendar with ds.convert_calendar(\"{}\") of xarray",
        names_[b], axes_[b].calendar(), names_[a], axes_[a].calendar(), axes_[a].calendar());
  }

  void check_disjoint(std::size_t a, std::size_t b) const {
    const TimeAxis &before = axes_[a], &behind = axes_[b];
    const Index last = before.size() - 1;
    const bool apart = before.dated() ? before.stamp(last) < behind.stamp(0)
                                      : before.values().back() < behind.values().front();
    if (apart) return;
    user_error(
        "{} ({} to {}) and {} ({} to {}) overlap in time. Shorten one of these files, or remove one file "
        "from data.file{}",
        names_[a], before.text(0), before.text(last), names_[b], behind.text(0),
        behind.text(behind.size() - 1),
        before.dated() ? "" : ". Without dates, the step numbers must go on from file to file");
  }

  std::span<const std::string> names_;
  std::span<const SeriesHeader> headers_;
  std::vector<TimeAxis> axes_;
  std::vector<std::size_t> order_;
};

/// Remarks of the first file, and remarks of others that the first lacks.
std::vector<std::string> join_remarks(std::span<const SeriesHeader> headers,
                                      const std::vector<std::size_t>& order) {
  constexpr std::size_t most = 5;
  std::vector<std::string> remarks = headers[order[0]].info.remarks;
  const std::vector<std::string> known = remarks;
  std::size_t more = 0;
  for (const std::size_t k : order)
    for (const std::string& remark : headers[k].info.remarks) {
      if (std::find(known.begin(), known.end(), remark) != known.end()) continue;
      if (++more <= most) remarks.push_back(fmt::format("{}: {}", headers[k].info.path, remark));
    }
  if (more > most) remarks.push_back(fmt::format("{} more remarks on other files", more - most));
  return remarks;
}

Json to_json(const SeriesVariable& variable) {
  return {{"name", variable.name},
          {"units", variable.units},
          {"features", variable.features},
          {"labels", variable.feature_labels}};
}

}  // namespace

SeriesHeader SeriesHeader::read(const std::string& path, std::span<const std::string> variables,
                                std::optional<double> null_value) {
  SeriesHeader header;
  header.part = std::make_shared<SeriesPart>(SeriesPart::open(path, variables, null_value));
  SeriesPart::Contents contents = header.part->describe(false);
  header.stamps = std::move(contents.stamps);
  header.info = std::move(contents.info);
  SeriesInfo& info = header.info;
  // The joined axis may have another one.
  if (const std::string& guess = contents.time.remark(); !guess.empty())
    std::erase(info.remarks, fmt::format("{}: {}", header.stamps.variable, guess));
  header.latitudes = hash_of(info.gridded ? info.lat : info.node_lat);
  header.longitudes = hash_of(info.gridded ? info.lon : info.node_lon);
  header.names = hash_of(info.node_labels);
  if (info.has_edges) header.edges = hash_of_edges(header.part->file(), info.edges);
  header.part->pause();
  for (auto* list : {&info.lat, &info.lon, &info.node_lat, &info.node_lon}) *list = {};
  info.node_labels = {};
  return header;
}

std::string SeriesHeader::pack() const {
  Json json{{"path", info.path},
            {"gridded", info.gridded},
            {"curvilinear", info.curvilinear},
            {"n_lat", info.n_lat},
            {"n_lon", info.n_lon},
            {"nodes", info.file_nodes},
            {"has_edges", info.has_edges},
            {"edges", info.edges},
            {"finer", info.finer},
            {"remarks", info.remarks},
            {"variables", Json::array()},
            {"times", stamps.values},
            {"time_units", stamps.units},
            {"calendar", stamps.calendar},
            {"origin", stamps.origin},
            {"time", stamps.variable},
            {"hashes", {latitudes, longitudes, names, edges}}};
  for (const SeriesVariable& variable : info.variables) json["variables"].push_back(to_json(variable));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SeriesHeader SeriesHeader::unpack(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  require(json.is_object(), "a packed header is JSON");
  SeriesHeader header;
  SeriesInfo& info = header.info;
  json.at("path").get_to(info.path);
  json.at("gridded").get_to(info.gridded);
  json.at("curvilinear").get_to(info.curvilinear);
  json.at("n_lat").get_to(info.n_lat);
  json.at("n_lon").get_to(info.n_lon);
  json.at("nodes").get_to(info.file_nodes);
  json.at("has_edges").get_to(info.has_edges);
  json.at("edges").get_to(info.edges);
  json.at("finer").get_to(info.finer);
  json.at("remarks").get_to(info.remarks);
  json.at("times").get_to(header.stamps.values);
  json.at("time_units").get_to(header.stamps.units);
  json.at("calendar").get_to(header.stamps.calendar);
  json.at("origin").get_to(header.stamps.origin);
  json.at("time").get_to(header.stamps.variable);
  const Json& hashes = json.at("hashes");
  for (std::size_t k = 0; auto* hash : {&header.latitudes, &header.longitudes, &header.names, &header.edges})
    hashes.at(k++).get_to(*hash);
  for (const Json& variable : json.at("variables")) {
    SeriesVariable& added = info.variables.emplace_back();
    variable.at("name").get_to(added.name);
    variable.at("units").get_to(added.units);
    variable.at("features").get_to(added.features);
    variable.at("labels").get_to(added.feature_labels);
    info.features += added.features;
  }
  return header;
}

JoinedSeries join_headers(std::span<const std::string> names, std::span<const SeriesHeader> headers,
                          std::span<const std::string> variables, std::optional<double> null_value) {
  const Axes axes(names, headers);
  const std::vector<std::size_t>& order = axes.order();
  JoinedSeries joined;
  joined.order = order;
  joined.path = fmt::format("{} ... {} ({} files)", names[order.front()], names[order.back()], names.size());
  joined.remarks = join_remarks(headers, order);
  if (!std::is_sorted(order.begin(), order.end()))
    joined.remarks.emplace_back(
        "the files are taken in the order of their first times, not in the order of data.file");
  Index first = 0;
  std::vector<std::string> converted;
  for (const std::size_t k : order) {
    const Pair pair{headers[k], headers[order.front()], variables, null_value};
    SeriesPartInfo part{names[k], first, axes.steps(k), pair.check()};
    first += part.steps;
    joined.finer = joined.finer || headers[k].info.finer || !part.conversions.empty();
    for (std::size_t v = 0; v < part.conversions.size(); ++v)
      if (!part.conversions[v].is_identity())
        converted.push_back(fmt::format("{} from {} to {} in {}", headers[k].info.variables[v].name,
                                        headers[k].info.variables[v].units,
                                        pair.first.info.variables[v].units, names[k]));
    joined.parts.push_back(std::move(part));
  }
  if (!converted.empty())
    joined.remarks.push_back(
        fmt::format("units are converted: {}{}", converted.front(),
                    converted.size() == 1 ? "" : fmt::format(", and {} more", converted.size() - 1)));
  joined.time = axes.join(joined.path);
  if (const std::string& guess = joined.time.remark(); !guess.empty())
    joined.remarks.push_back(fmt::format("{}: {}", headers[order.front()].stamps.variable, guess));
  return joined;
}

}  // namespace rossby
