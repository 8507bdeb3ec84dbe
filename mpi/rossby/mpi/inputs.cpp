#include "rossby/mpi/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>

#include "rossby/base/release.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/float_loss.hpp"
#include "rossby/io/node_values.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

std::vector<std::string> names_of_inputs(const Config& config) {
  std::vector<std::string> names = config.data.inputs;
  names.insert(names.end(), config.data.known_inputs.begin(), config.data.known_inputs.end());
  return names;
}

std::vector<Index> file_nodes_of_rows(const Domain& domain) {
  std::vector<Index> nodes;
  for (const GlobalRow row : domain.rows)
    nodes.push_back(domain.file_node[static_cast<std::size_t>(row.value)]);
  return nodes;
}

/// Reads values of `series` at steps. In `out`, each step has `width` values, and the values read begin at
/// `first`.
void read_part(const SeriesInfo& series, const Domain& domain, std::span<const Index> steps, Index first,
               Index width, std::span<float> out) {
  constexpr Index piece = Index{1} << 18;  // values at once
  const SeriesFile file = SeriesFile::reopen(series, {});
  const std::vector<Index> nodes = file_nodes_of_rows(domain);
  const Index values = static_cast<Index>(nodes.size()) * file.info().features;
  if (values == 0) return;
  const auto most = static_cast<std::size_t>(std::max<Index>(1, piece / values));
  std::vector<float> read;
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin + 1;
    while (end < steps.size() && end - begin < most && steps[end] == steps[end - 1] + 1) ++end;
    read.resize((end - begin) * static_cast<std::size_t>(values));
    file.read_steps(nodes, steps[begin], static_cast<Index>(end - begin), read.data());
    for (std::size_t k = begin; k < end; ++k)
      std::copy_n(read.data() + static_cast<Index>(k - begin) * values, values,
                  out.data() + static_cast<Index>(k) * width + first);
    begin = end;
  }
}

/// The index in `axis` of each stamp of `times`. Throws UserError if a stamp is missing.
std::vector<Index> places_of(const TimeAxis& axis, const TimeAxis& times, const std::string& path) {
  const auto days = [](const TimeAxis& of) {
    const std::string& name = of.calendar();
    return name == "gregorian" || name == "proleptic_gregorian" ? std::string("standard") : name;
  };
  if (axis.dated() != times.dated() || days(axis) != days(times))
    user_error(
        "{}: its calendar is \"{}\", but that of the data is \"{}\". Convert the times of this file "
        "(--inputs)",
        path, axis.calendar(), times.calendar());
  std::vector<Index> places;
  Index k = 0;
  const auto before = [&](Index a, Index b) {
    return axis.dated()
               ? axis.stamp(a) < times.stamp(b)
               : axis.values()[static_cast<std::size_t>(a)] < times.values()[static_cast<std::size_t>(b)];
  };
  const auto same = [&](Index a, Index b) {
    return axis.dated()
               ? axis.stamp(a) == times.stamp(b)
               : axis.values()[static_cast<std::size_t>(a)] == times.values()[static_cast<std::size_t>(b)];
  };
  for (Index h = 0; h < times.size(); ++h) {
    while (k < axis.size() && before(k, h)) ++k;
    if (k == axis.size() || !same(k, h))
      user_error(
          "{}: there are no values for {}, which is forecast. The file has the times {} to {}. Add the "
          "missing times (--inputs)",
          path, times.text(h), axis.text(0), axis.text(axis.size() - 1));
    places.push_back(k);
  }
  return places;
}

/// The file nodes of `other` that correspond to these file nodes of the series.
std::vector<Index> match_nodes_of(const SeriesInfo& other, const SeriesInfo& series,
                                  std::vector<Index> nodes) {
  const auto refuse = [&](const std::string& why) {
    user_error("{}: {}, so the nodes are not those of {} (--inputs). Use a file with the nodes of the data",
               other.path, why, series.path);
  };
  if (!other.node_labels.empty() && !series.node_labels.empty()) {
    std::unordered_map<std::string, Index> places;
    for (const std::string& label : other.node_labels)
      if (!places.emplace(label, static_cast<Index>(places.size())).second)
        refuse(fmt::format("two nodes are called \"{}\"", label));
    for (Index& node : nodes) {
      const auto place = places.find(series.node_labels[static_cast<std::size_t>(node)]);
      if (place == places.end()) refuse("the file has no " + node_text(series, node));
      node = place->second;
    }
    return nodes;
  }
  if (other.file_nodes != series.file_nodes || other.gridded != series.gridded ||
      other.n_lat != series.n_lat || other.n_lon != series.n_lon)
    refuse(fmt::format("the file has {} nodes instead of {}", other.file_nodes, series.file_nodes));
  if (series.gridded && !series.node_lat.empty() && other.node_lat.empty())
    user_error(
        "{}: the file has no latitudes and longitudes, so that its order cannot be compared with that of {} "
        "(--inputs). Add the coordinates of the data to the file",
        other.path, series.path);
  if (other.node_lat.size() == series.node_lat.size())
    for (const Index node : nodes) {
      const auto i = static_cast<std::size_t>(node);
      if (i >= series.node_lat.size()) break;
      const double north = std::abs(other.node_lat[i] - series.node_lat[i]),
                   east = std::abs(std::remainder(other.node_lon[i] - series.node_lon[i], 360.0));
      if (north > 0.01 || east > 0.01)
        refuse(fmt::format("{} lies at {:.6g}, {:.6g}", node_text(series, node), other.node_lat[i],
                           other.node_lon[i]));
    }
  return nodes;
}

void check_variables(const SeriesInfo& other, const Domain& domain) {
  const std::size_t count = other.variables.size();
  const std::size_t first = domain.inputs.variables.size() - count;
  for (std::size_t v = 0; v < count; ++v) {
    const SeriesVariable &theirs = other.variables[v], &ours = domain.inputs.variables[first + v];
    if (theirs.units != ours.units)
      user_error(
          "{}: variable {} has units \"{}\", but units \"{}\" in {}. Convert the variable to these units "
          "(--inputs)",
          other.path, theirs.name, theirs.units, ours.units, domain.info.path);
    if (theirs.features != ours.features)
      user_error(
          "{}: variable {} has {} features instead of {} (--inputs). Use a variable with the same features",
          other.path, theirs.name, theirs.features, ours.features);
  }
}

void check_fixed(const DataSettings& data) {
  for (std::size_t k = 0; k < data.fixed.size(); ++k)
    if (std::count(data.fixed.begin(), data.fixed.end(), data.fixed[k]) > 1)
      user_error("data.static: {} is named twice. Name each variable once", data.fixed[k]);
  if (data.fixed.empty() && !data.fixed_file.empty())
    user_error("data.static_file = \"{}\" is not used. Name its columns or variables in data.static",
               data.fixed_file);
}

}  // namespace

std::vector<std::string> forecast_variables(const Config& config) {
  const std::vector<std::string> inputs = names_of_inputs(config);
  const std::vector<std::string>& named = config.data.variables;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (std::count(named.begin(), named.end(), inputs[k]) > 0)
      user_error(
          "data.inputs, data.known_inputs: {0} is also forecast (data.variables), and the past of a forecast "
          "variable is always an input. Remove {0} from data.inputs or data.known_inputs",
          inputs[k]);
    if (std::count(inputs.begin(), inputs.end(), inputs[k]) > 1)
      user_error("data.inputs, data.known_inputs: {} is named twice. Name each variable once", inputs[k]);
  }
  if (!named.empty() || inputs.empty()) return named;
  std::vector<std::string> left;
  for (std::string& name : SeriesFile::candidates(series_names(config.data.file.paths).front()))
    if (std::count(inputs.begin(), inputs.end(), name) == 0) left.push_back(std::move(name));
  if (left.size() == 1) return left;
  return named;
}

InputVariables input_variables(const Communicator& comm, const Config& config) {
  InputVariables inputs;
  inputs.fixed = std::ssize(config.data.fixed);
  agree(comm, [&] { check_fixed(config.data); });
  const std::vector<std::string> names = names_of_inputs(config);
  if (names.empty()) return inputs;
  std::vector<std::string> all = agree(comm, [&] { return forecast_variables(config); });
  const std::size_t targets = all.size();
  all.insert(all.end(), names.begin(), names.end());
  // data.null_value does not apply to inputs, because 0 may be a valid input.
  inputs.series = open_variables(comm, config, all, {}).info().of_variables(targets, names.size());
  for (auto* of_nodes : {&inputs.series.node_lat, &inputs.series.node_lon}) release(*of_nodes);
  release(inputs.series.node_labels);
  inputs.variables = inputs.series.variables;
  for (std::size_t v = 0; v < inputs.variables.size(); ++v)
    (v < config.data.inputs.size() ? inputs.past : inputs.known) += inputs.variables[v].features;
  return inputs;
}

void check_input_precision(const Communicator& comm, const Domain& domain) {
  if (domain.inputs.variables.empty()) return;
  const RowPartition shares = RowPartition::blocks(domain.nodes(), comm.size());
  const auto begin = static_cast<std::size_t>(shares.begin(comm.rank())),
             count = static_cast<std::size_t>(shares.size(comm.rank()));
  const FloatLoss loss = agree(comm, [&] {
    return float_loss(SeriesFile::reopen(domain.inputs.series, {}),
                      std::span(domain.file_node).subspan(begin, count), domain.split.train.first,
                      domain.split.train.last);
  });
  std::vector<double> counts(loss.varying);
  counts.insert(counts.end(), loss.lost.begin(), loss.lost.end());
  MpiReducer reducer(comm);
  reducer.sum(std::span<double>(counts));
  std::size_t f = 0;
  const std::size_t half = counts.size() / 2;
  for (const SeriesVariable& variable : domain.inputs.variables)
    for (Index k = 0; k < variable.features && f < half; ++k, ++f)
      if (needs_center(counts[f], counts[half + f]))
        user_error(
            "{}: variable {} varies by less than the precision of float32 for its values. Subtract a "
            "constant from the variable, or remove the variable from data.inputs",
            domain.info.path, variable.name);
}

std::vector<double> read_fixed(const Config& config, const Domain& domain) {
  const auto channels = config.data.fixed.size();
  const std::vector<Index> nodes = file_nodes_of_rows(domain);
  std::vector<double> fixed(nodes.size() * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const std::string& name = config.data.fixed[c];
    const std::vector<double> all = read_node_values(domain.info, name, config.data.fixed_file);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const double value = all[static_cast<std::size_t>(nodes[i])];
      if (std::isnan(value))
        user_error("{}: {} has no value of {}. Add the value, or leave {} out of data.static",
                   config.data.fixed_file.empty() ? domain.info.path : config.data.fixed_file,
                   node_text(domain.info, nodes[i]), name, name);
      fixed[i * channels + c] = value;
    }
  }
  return fixed;
}

void read_with_inputs(const Communicator& comm, const Config& config, const Domain& domain,
                      std::span<const Index> steps, std::span<float> out) {
  const InputVariables& inputs = domain.inputs;
  if (inputs.channels() == 0) return read_steps(comm, config, domain, steps, out);
  const auto rows = static_cast<Index>(domain.rows.size());
  const Index m = domain.info.features, width = rows * (m + inputs.channels());
  require(std::ssize(out) == std::ssize(steps) * width, "room for the steps that are read");
  // Read the target separately: read_steps subtracts the centers before the conversion to float32.
  constexpr Index piece = Index{1} << 22;  // values per rank at once, roughly; the same steps on all ranks
  const auto most = static_cast<std::size_t>(
      std::max<Index>(1, piece / std::max<Index>(1, domain.nodes() / comm.size() * m)));
  std::vector<float> target;
  for (std::size_t first = 0; first < steps.size(); first += most) {
    const auto some = steps.subspan(first, std::min(most, steps.size() - first));
    target.resize(some.size() * static_cast<std::size_t>(rows * m));
    read_steps(comm, config, domain, some, target);
    for (std::size_t k = 0; k < some.size(); ++k)
      std::copy_n(target.data() + static_cast<Index>(k) * rows * m, rows * m,
                  out.data() + static_cast<Index>(first + k) * width);
  }
  const Stage stage(comm, "reading the inputs", patience_with_files);
  agree(comm, [&] {
    const std::size_t past = config.data.inputs.size(), known = config.data.known_inputs.size();
    if (past > 0) read_part(inputs.series.of_variables(0, past), domain, steps, rows * m, width, out);
    if (known > 0)
      read_part(inputs.series.of_variables(past, known), domain, steps, rows * (m + inputs.past), width, out);
  });
}

std::string read_known_ahead(const Communicator& comm, const Config& config, const Domain& domain,
                             const std::string& path, const TimeAxis& times, std::span<float> out) {
  const Stage stage(comm, "reading what is known ahead", patience_with_files);
  const Index known = domain.inputs.known;
  const auto rows = static_cast<Index>(domain.rows.size());
  std::vector<double> seen(static_cast<std::size_t>(times.size() * known), 0.0);
  std::string remark;
  agree(comm, [&] {
    const SeriesFile file = SeriesFile::open(path, config.data.known_inputs);
    const SeriesInfo& data = domain.info;
    if (file.info().node_labels.empty() && file.info().node_lat.empty() &&
        !(data.node_labels.empty() && data.node_lat.empty()))
      remark =
          fmt::format("{}: its nodes have no ids: they are matched by position with those of {} (--inputs)",
                      path, data.path);
    check_variables(file.info(), domain);
    const std::vector<Index> nodes = match_nodes_of(file.info(), domain.info, file_nodes_of_rows(domain));
    const std::vector<Index> places = places_of(file.info().time, times, path);
    for (std::size_t h = 0; h < places.size(); ++h)
      file.read_steps(nodes, places[h], 1, out.data() + static_cast<Index>(h) * rows * known);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const Index h = static_cast<Index>(k) / (rows * known), f = static_cast<Index>(k) % known;
      if (!std::isnan(out[k])) seen[static_cast<std::size_t>(h * known + f)] = 1;
    }
  });
  MpiReducer reducer(comm);
  reducer.sum(std::span<double>(seen));
  for (std::size_t k = 0; k < seen.size(); ++k)
    if (seen[k] == 0)
      user_error(
          "{}: no node has a value of data.known_inputs at {}, which is forecast. Add values for this time "
          "(--inputs)",
          path, times.text(static_cast<Index>(k) / known));
  return remark;
}

}  // namespace rossby
