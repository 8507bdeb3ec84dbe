#include "rossby/io/series_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/io/array_file.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/series_header.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/io/series_part.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

using detail::ReadRequest;
using detail::ReadScratch;
using detail::SeriesPart;

/// Values scanned at once for observed ones.
constexpr Index observed_values = Index{1} << 22;
/// Files that stay open: steps are mostly requested in order, and each open file keeps chunks.
constexpr std::size_t most_open = 2;

/// Uses steps [first, last) of the file or files, whose whole axis is `time`.
void use_steps(SeriesInfo& info, const TimeAxis& time, Index first, Index last) {
  info.all_steps = time.size();
  const Index end = last == -1 ? time.size() : last;
  if (first < 0 || end > time.size() || first >= end)
    user_error(
        "{}: steps {} to {} do not exist: the file has {} steps. Set data.first_step and data.last_step to "
        "steps of the file",
        info.path, first, last == -1 ? "the end" : std::to_string(last), time.size());
  info.first_step = first;
  info.steps = end - first;
  info.time = time.slice(first, info.steps);
}

/// Inserts a step of missing values for each step that the time axis lacks.
void fill_gaps(SeriesInfo& info) {
  if (info.time.regular() && info.time.gaps().empty()) return;
  info.filled_gaps = std::ssize(info.time.gaps());
  info.time = info.time.filled(info.present);
  info.filled_steps = std::exchange(info.steps, info.time.size());
  info.filled_steps = info.steps - info.filled_steps;
}

}  // namespace

struct SeriesFile::State {
  SeriesInfo info;
  std::vector<std::string> names;  // of the variables
  std::optional<double> null_value;
  mutable KnownFiles parts;
  /// The open ones of these parts, the last one read at the end.
  mutable std::vector<std::size_t> open_parts;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { pause(); }

  const SeriesPart& part(std::size_t p) const;
  void pause() const;
  template <class Out>
  void read_steps(const ReadRequest<Out>& request) const;
  template <class Out>
  void read_present(const ReadRequest<Out>& request) const;
};

/// Returns the part, opening it if necessary. Its header was checked before.
const SeriesPart& SeriesFile::State::part(std::size_t p) const {
  if (const auto at = std::find(open_parts.begin(), open_parts.end(), p); at != open_parts.end()) {
    std::rotate(at, at + 1, open_parts.end());
    return *parts[p];
  }
  if (open_parts.size() == most_open) {
    parts[open_parts.front()]->pause();
    open_parts.erase(open_parts.begin());
  }
  if (parts[p] != nullptr) {
    parts[p]->resume();
  } else {
    const SeriesPartInfo& about = info.parts[p];
    SeriesPart part = SeriesPart::open(about.path, names, null_value);
    if (part.steps() != about.steps || part.nodes() != info.file_nodes || part.features() != info.features)
      user_error(
          "{}: the file changed while it was read: {} steps, {} nodes and {} features instead of {}, {} and "
          "{}. Start again when the file is complete",
          about.path, part.steps(), part.nodes(), part.features(), about.steps, info.file_nodes,
          info.features);
    part.convert(about.conversions);
    parts[p] = std::make_shared<SeriesPart>(std::move(part));
  }
  open_parts.push_back(p);
  return *parts[p];
}

void SeriesFile::State::pause() const {
  for (const std::size_t p : open_parts) parts[p]->pause();
  open_parts.clear();
}

std::string units_of(const SeriesInfo& info) {
  const std::string& units = info.variables.front().units;
  for (const SeriesVariable& variable : info.variables)
    if (variable.units != units) return "mixed";
  return units.empty() ? "1" : units;
}

SeriesInfo SeriesInfo::of_variables(std::size_t first, std::size_t count) const {
  const auto keep = [&](auto& list) {
    if (list.empty()) return;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(first + count), list.end());
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first));
  };
  SeriesInfo some = *this;
  keep(some.variables);
  for (SeriesPartInfo& part : some.parts) keep(part.conversions);
  some.features = 0;
  for (const SeriesVariable& variable : some.variables) some.features += variable.features;
  return some;
}

std::optional<double> parse_null_value(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    user_error(
        "data.null_value = \"{}\" is not a finite number. Give a number such as \"0\" or \"-999\", or leave "
        "the value empty",
        text);
  return value;
}

SeriesFile::SeriesFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SeriesFile::SeriesFile(SeriesFile&&) noexcept = default;
SeriesFile& SeriesFile::operator=(SeriesFile&&) noexcept = default;
SeriesFile::~SeriesFile() = default;

SeriesFile SeriesFile::open(const std::string& path, std::span<const std::string> variables, Index first_step,
                            Index last_step, std::optional<double> null_value, bool fill_steps) {
  return open(std::span(&path, 1), variables, first_step, last_step, null_value, fill_steps);
}

SeriesFile SeriesFile::open(std::span<const std::string> entries, std::span<const std::string> variables,
                            Index first_step, Index last_step, std::optional<double> null_value,
                            bool fill_steps) {
  if (entries.empty() || (entries.size() == 1 && entries[0].empty()))
    user_error(
        "no data file is given. Set data.file to a NetCDF file, for example --set data.file=series.nc");
  const std::vector<std::string> names = series_names(entries);
  std::vector<SeriesHeader> headers;
  if (names.size() > 1)
    for (const std::string& name : names) headers.push_back(SeriesHeader::read(name, variables, null_value));
  return join(names, std::move(headers), variables, first_step, last_step, null_value, fill_steps);
}

SeriesFile SeriesFile::join(std::span<const std::string> names, std::vector<SeriesHeader> headers,
                            std::span<const std::string> variables, Index first_step, Index last_step,
                            std::optional<double> null_value, bool fill_steps) {
  require(!names.empty() && (names.size() == 1 || headers.size() == names.size()), "every file has a header");
  auto state = std::make_unique<State>();
  state->null_value = null_value;
  std::optional<JoinedSeries> joined;
  if (names.size() > 1) joined = join_headers(names, headers, variables, null_value);
  state->parts.resize(names.size());
  for (std::size_t p = 0; joined && p < names.size(); ++p) {
    state->parts[p] = std::move(headers[joined->order[p]].part);
    if (state->parts[p] != nullptr) state->parts[p]->convert(joined->parts[p].conversions);
  }
  std::shared_ptr<SeriesPart>& first = state->parts.front();
  if (first != nullptr)
    first->resume();
  else
    first = std::make_shared<SeriesPart>(
        SeriesPart::open(joined ? joined->parts.front().path : names.front(), variables, null_value));
  state->open_parts.push_back(0);
  SeriesPart::Contents contents = first->describe(true);
  state->info = std::move(contents.info);
  for (const SeriesVariable& variable : state->info.variables) state->names.push_back(variable.name);
  if (joined) {
    state->info.path = joined->path;
    state->info.parts = std::move(joined->parts);
    state->info.remarks = std::move(joined->remarks);
    state->info.finer = joined->finer;
    contents.time = std::move(joined->time);
  } else {
    state->info.parts = {{names.front(), 0, contents.time.size(), {}}};
  }
  use_steps(state->info, contents.time, first_step, last_step);
  if (fill_steps) fill_gaps(state->info);
  return SeriesFile(std::move(state));
}

SeriesFile SeriesFile::reopen(const SeriesInfo& info, std::optional<double> null_value, KnownFiles parts) {
  require(parts.empty() || parts.size() == info.parts.size(), "what is known of each file");
  auto state = std::make_unique<State>();
  state->info = info;
  state->null_value = null_value;
  state->parts = std::move(parts);
  state->parts.resize(info.parts.size());
  for (const SeriesVariable& variable : info.variables) state->names.push_back(variable.name);
  return SeriesFile(std::move(state));
}

KnownFiles SeriesFile::pause() const {
  state_->pause();
  return state_->parts;
}

void SeriesFile::begin_with(std::span<const double> instants) {
  if (instants.empty()) return;
  SeriesInfo& info = state_->info;
  if (info.present.empty()) {
    info.present.resize(static_cast<std::size_t>(info.steps));
    std::iota(info.present.begin(), info.present.end(), Index{0});
  }
  info.present.insert(info.present.begin(), instants.size(), Index{-1});
  info.time = info.time.behind(instants);
  info.steps = info.time.size();
}

std::vector<std::string> SeriesFile::candidates(const std::string& path) {
  const auto file = ArrayFile::open(path);
  std::vector<std::string> names;
  for (const detail::VariableLayout& layout : detail::fitting(*file)) names.push_back(layout.variable->name);
  return names;
}

const SeriesInfo& SeriesFile::info() const {
  return state_->info;
}

template <class Out>
void SeriesFile::State::read_steps(const ReadRequest<Out>& request) const {
  require(request.first >= 0 && request.count >= 0 && request.first + request.count <= info.steps,
          "the steps are in use");
  if (request.nodes.empty() || request.count == 0) return;
  const auto [low, high] = std::minmax_element(request.nodes.begin(), request.nodes.end());
  require(*low >= 0 && *high < info.file_nodes, "the nodes are in the file");
  const auto width = static_cast<Index>(request.nodes.size()) * info.features;
  require(request.centers.empty() || static_cast<Index>(request.centers.size()) == width,
          "every node and feature has a center");
  if (info.present.empty()) return read_present(request);
  for (Index t = 0; t < request.count;) {  // stretches of steps that the files have or lack
    const auto* step = info.present.data() + request.first + t;
    Index count = 1;
    while (t + count < request.count && (step[count] < 0) == (*step < 0)) ++count;
    ReadRequest<Out> stretch = request;
    stretch.first = *step;
    stretch.count = count;
    stretch.out = request.out + t * width;
    if (*step < 0)
      std::fill_n(stretch.out, count * width, std::numeric_limits<Out>::quiet_NaN());
    else
      read_present(stretch);
    t += count;
  }
}

template <class Out>
void SeriesFile::State::read_present(const ReadRequest<Out>& request) const {
  const auto width = static_cast<Index>(request.nodes.size()) * info.features;
  ReadScratch scratch;
  const Index begin = info.first_step + request.first, end = begin + request.count;
  const auto behind = std::upper_bound(info.parts.begin(), info.parts.end(), begin,
                                       [](Index step, const SeriesPartInfo& p) { return step < p.first; });
  for (auto p = static_cast<std::size_t>(behind - info.parts.begin() - 1);
       p < info.parts.size() && info.parts[p].first < end; ++p) {
    const Index offset = info.parts[p].first;
    const Index from = std::max(begin, offset), to = std::min(end, offset + info.parts[p].steps);
    ReadRequest<Out> piece = request;
    piece.first = from - offset;
    piece.count = to - from;
    piece.out = request.out + (from - begin) * width;
    piece.scratch = &scratch;
    part(p).read_steps(piece);
  }
}

void SeriesFile::read(std::span<const Index> file_nodes, float* out, std::span<const double> centers) const {
  read_steps(file_nodes, 0, state_->info.steps, out, centers);
}

void SeriesFile::read_steps(std::span<const Index> file_nodes, Index first, Index count, float* out,
                            std::span<const double> centers) const {
  state_->read_steps(ReadRequest<float>{file_nodes, first, count, centers, out});
}

void SeriesFile::read_numbers(std::span<const Index> file_nodes, Index first, Index count,
                              double* out) const {
  state_->read_steps(ReadRequest<double>{file_nodes, first, count, {}, out});
}

bool SeriesFile::finer_than_float() const {
  return state_->info.finer;
}

std::vector<std::uint8_t> SeriesFile::observed(Index first, Index count) const {
  const SeriesInfo& series = state_->info;
  require(first >= 0 && count >= 0 && first + count <= series.file_nodes, "the nodes are in the file");
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(count), 0);
  const Index part = std::min<Index>(count, Index{1} << 22);
  for (Index begin = 0; begin < count; begin += part) {
    std::vector<Index> nodes(static_cast<std::size_t>(std::min(part, count - begin)));
    std::iota(nodes.begin(), nodes.end(), first + begin);
    const auto n = static_cast<Index>(nodes.size());
    const Index most = std::clamp<Index>(observed_values / (n * series.features), 1, series.steps);
    Buffer<float> values(most * n * series.features);  // its memory goes back to the system
    Index unseen = n;                                  // mostly none after a few steps, so pieces begin small
    for (Index t = 0, steps = std::min<Index>(most, 16); t < series.steps && unseen > 0;
         t += steps, steps = std::min(8 * steps, most)) {
      steps = std::min(steps, series.steps - t);
      read_steps(nodes, t, steps, values.data());
      for (Index k = 0; k < steps * n * series.features; ++k) {
        std::uint8_t& flag = seen[static_cast<std::size_t>(begin + k / series.features % n)];
        if (flag == 0 && !std::isnan(values[k])) {
          flag = 1;
          --unseen;
        }
      }
    }
  }
  return seen;
}

std::vector<FileEdge> SeriesFile::edges(Index first, Index count) const {
  const State& s = *state_;
  require(first >= 0 && count >= 0 && first + count <= s.info.edges, "the edges are in the file");
  return detail::read_edges(s.part(0).file(), "edge_weight", first, count);
}

}  // namespace rossby
