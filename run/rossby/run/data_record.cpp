#include "rossby/run/data_record.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"

namespace rossby {
namespace {

/// A list of a record as a state file holds it, in double. Hashes are split into halves, which double holds.
using RecordList = std::pair<std::string, std::vector<double>>;

std::vector<double> numbers(const auto& list, const auto& number) {
  std::vector<double> all;
  std::transform(list.begin(), list.end(), std::back_inserter(all), number);
  return all;
}

StateArray<double> list_array(const std::string& name, std::vector<double>& list) {
  return {name, Placement::replicated, 1, std::ssize(list), list.data()};
}

/// Fitted values as a state file holds them: (outer, rows, inner).
struct FittedList {
  std::string name;
  Index outer = 1, inner = 1;
  std::vector<double> values;

  [[nodiscard]] StateArray<double> array() { return {name, Placement::rows, outer, inner, values.data()}; }
};
using FittedLists = std::vector<FittedList>;

/// Returns the lists of a run, with room for values that are not read yet. Names are the same on all ranks,
/// whatever rows they own.
FittedLists lists_of(const FittedValues& fitted, const Domain& domain) {
  constexpr const char* of[] = {"target", "past", "known"};
  FittedLists lists;
  for (std::size_t k = 0; k < fitted.scalers.size(); ++k) {
    const Scaler& scaler = fitted.scalers[k];
    if (scaler.features() == 0) continue;
    for (const auto& [what, list] : {std::pair{"center", scaler.center()}, {"spread", scaler.spread()}})
      lists.push_back({fmt::format("{}_{}", of[k], what), 1, scaler.features(), {list.begin(), list.end()}});
  }
  const Index m = domain.info.features;
  const auto& [cycle, slope] = fitted.anomalies;
  if (fitted.phases > 0) lists.push_back({"cycle", fitted.phases, m, {cycle.begin(), cycle.end()}});
  if (fitted.trend) lists.push_back({"slope", 1, m, slope});
  for (FittedList& list : lists)
    list.values.resize(static_cast<std::size_t>(list.outer * list.inner) * domain.rows.size());
  return lists;
}

/// Moves lists into the record. Throws UserError if a list is missing or contradicts another.
void take_lists(DataRecord& record, std::vector<RecordList> lists) {
  const auto take = [&](std::string_view name) {
    for (auto& [have, list] : lists)
      if (have == name) return std::move(list);
    return std::vector<double>();
  };
  record.instants = take("instants");
  const std::vector<double> steps = take("steps"), high = take("step_high"), low = take("step_low");
  const auto within = [](const std::vector<double>& list, double end) {
    return std::all_of(list.begin(), list.end(), [&](double x) { return x >= 0 && x < end; });
  };
  const bool numbers = within(steps, static_cast<double>(record.instants.size())) && within(high, 0x1p32) &&
                       within(low, 0x1p32) && std::is_sorted(steps.begin(), steps.end());
  if (numbers)
    for (const double t : steps) record.steps.push_back(static_cast<Index>(t));
  record.sum = take("sum");
  record.count = take("count");
  record.centers = take("centers");
  const std::size_t count = record.steps.size();
  if (count == 0 || high.size() != count || low.size() != count || record.sum.size() != count ||
      record.count.size() != count)
    user_error("{}: the file is damaged: the lists of training steps contradict each other", record.path);
  for (std::size_t k = 0; k < count; ++k)
    record.step.push_back(static_cast<std::uint64_t>(high[k]) << 32 | static_cast<std::uint64_t>(low[k]));
}

std::string numbered(Index count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Describes how the mean and the number of values changed.
std::string change_text(const double (&then)[2], const double (&now)[2], const std::string& units) {
  if (now[1] == 0) return "they no longer have a value";
  if (then[1] == 0) return fmt::format("they have {} values, and had none", now[1]);
  std::string text = fmt::format("their mean changed by {:+.4g}{}", now[0] / now[1] - then[0] / then[1],
                                 units == "1" ? "" : " " + units);
  if (now[1] != then[1]) text += fmt::format(", their number of values from {} to {}", then[1], now[1]);
  return text;
}

/// Returns by how much stamps of one step may differ between files with other origins or units of time.
double rounding_of(const DataRecord& record, const TimeAxis& time) {
  const std::vector<double>& instants = record.instants;
  return time.dated() && instants.size() > 1 ? std::min(500.0, 0.25 * (instants[1] - instants[0])) : 0;
}

}  // namespace

bool DataRecord::goes_with(const DataHash& hash, const TimeAxis& time) const {
  if (frame != hash.frame || steps != hash.steps || steps.back() >= time.size()) return false;
  const double rounding = rounding_of(*this, time);
  return std::all_of(steps.begin(), steps.end(), [&](Index t) {
    return std::abs(instants[static_cast<std::size_t>(t)] - time.instant(t)) <= rounding;
  });
}

std::string data_record_of(const std::string& run) {
  return run + "/checkpoints/data.h5";
}

void write_record(const Communicator& comm, const std::string& path, const Domain& domain,
                  const DataHash& hash, const FittedValues& fitted) {
  std::vector<double> instants;
  for (Index t = 0; t < domain.info.steps; ++t) instants.push_back(domain.info.time.instant(t));
  RecordList lists[] = {
      {"instants", std::move(instants)},
      {"steps", numbers(hash.steps, [](Index t) { return static_cast<double>(t); })},
      {"step_high", numbers(hash.step, [](std::uint64_t h) { return static_cast<double>(h >> 32); })},
      {"step_low", numbers(hash.step, [](std::uint64_t h) { return static_cast<double>(h & 0xffffffffU); })},
      {"sum", hash.sum},
      {"count", hash.count},
      {"centers", domain.centers}};
  std::vector<StateArray<double>> arrays;
  for (auto& [name, list] : lists)
    if (!list.empty()) arrays.push_back(list_array(name, list));
  FittedLists values = lists_of(fitted, domain);
  for (FittedList& list : values) arrays.push_back(list.array());
  const nlohmann::ordered_json metadata{
      {"format", 1}, {"kind", "data"}, {"training_hash", hash.training}, {"frame_hash", hash.frame}};
  write_state<double>(comm, path, domain.partition, arrays, metadata.dump());
}

std::shared_ptr<const DataRecord> read_record(const Communicator& comm, const std::string& path,
                                              const std::string& training_hash) try {
  const auto record = std::make_shared<DataRecord>();
  record->path = path;
  std::vector<RecordList> lists;
  const bool there = agree(comm, [&] {
    if (!std::filesystem::exists(path)) return false;
    const StoredState stored = list_state(path);
    const auto metadata = nlohmann::json::parse(stored.metadata, nullptr, false);
    const auto text = [&](const char* name) {
      return metadata.is_object() && metadata.contains(name) && metadata[name].is_string()
                 ? metadata[name].get<std::string>()
                 : std::string();
    };
    if (training_hash.empty() || text("training_hash") != training_hash) return false;
    record->training = training_hash;
    record->frame = text("frame_hash");
    for (const StoredArray& array : stored.arrays)
      if (array.placement == Placement::replicated &&
          array.extents[2] <= stored.bytes / Index{sizeof(double)})
        lists.emplace_back(array.name, std::vector<double>(static_cast<std::size_t>(array.extents[2])));
    return true;
  });
  agree_same(comm, there ? "there" : "", path);
  if (!there) return nullptr;
  std::vector<StateArray<double>> arrays;
  for (auto& [name, list] : lists) arrays.push_back(list_array(name, list));
  read_state<double>(comm, path, RowPartition::blocks(0, comm.size()), arrays);
  agree(comm, [&] { take_lists(*record, std::move(lists)); });
  return record;
} catch (const UserError& error) {  // of all ranks
  user_error("{}. The command that trained this run writes this file again, without training", error.what());
}

FittedValues read_fitted(const Communicator& comm, const DataRecord& record, const Domain& domain,
                         FittedValues like) {
  FittedLists lists = lists_of(like, domain);
  std::vector<StateArray<double>> arrays;
  for (FittedList& list : lists) arrays.push_back(list.array());
  read_state<double>(comm, record.path, domain.partition, arrays);
  auto list = lists.begin();
  for (Scaler& scaler : like.scalers) {
    if (scaler.features() == 0) continue;
    std::vector<double> center = std::move((list++)->values), spread = std::move((list++)->values);
    scaler = Scaler(scaler.rows(), scaler.features(), std::move(center), std::move(spread), scaler.factor());
  }
  if (like.phases > 0) {
    const std::vector<double> cycle = std::move((list++)->values);
    like.anomalies.cycle.assign(cycle.begin(), cycle.end());
  }
  if (like.trend) like.anomalies.slope = std::move((list++)->values);
  return like;
}

void begin_as_trained(const Communicator& comm, Config& config, const DataRecord& record) {
  Config whole = config;
  whole.data.first_step = 0;
  whole.data.last_step = -1;
  const SeriesInfo info = open_series(comm, whole).info();
  agree(comm, [&] {
    const TimeAxis& time = info.time;
    const double rounding = rounding_of(record, time);
    const auto first_from = [&](double instant) {
      Index t = 0;
      while (t < time.size() && time.instant(t) < instant) ++t;
      return t;
    };
    const double end = record.instants[static_cast<std::size_t>(record.steps.back())];
    const Index first = first_from(record.instants.front() - rounding);
    if (first == time.size() || time.instant(first) > end + rounding)
      user_error(
          "{}: this file ({} to {}) has no step of the training part, so that it cannot be compared with {}. "
          "Use a file that goes further back, or train a new run",
          info.path, time.text(0), time.text(time.size() - 1), record.path);
    config.data.first_step = first;
    if (config.data.last_step != -1)
      config.data.last_step = first_from(std::nextafter(record.instants.back() + rounding, 1e300));
    config.data.earlier.clear();
    for (const double instant : record.instants)
      if (instant < time.instant(first) - rounding) config.data.earlier.push_back(instant);
  });
}

void require_training_part(const Communicator& comm, const Config& config, const DataRecord& record) {
  SeriesInfo info;
  try {
    info = open_series(comm, config).info();
  } catch (const UserError&) {
    return;  // where the series is read, this error is reported
  }
  const TimeAxis& time = info.time;
  const double first = record.instants[static_cast<std::size_t>(record.steps.front())];
  if (time.dated() && time.instant(0) > first + rounding_of(record, time))
    user_error(
        "{}: this file ({} to {}) begins after the training part of {}. Use a file that goes further back, "
        "or accept missing steps of the training part with --accept-changed-data",
        info.path, time.text(0), time.text(time.size() - 1), record.path);
}

DataChanges changes_of(const DataRecord& record, const DataHash& hash, const Config& config,
                       const Domain& domain) {
  const TimeAxis& time = domain.info.time;
  DataChanges changes;
  double then[2] = {0, 0}, now[2] = {0, 0};
  Index first = -1, last = -1;
  for (std::size_t k = 0; k < record.steps.size(); ++k) {
    const Index t = record.steps[k];
    if (t < std::ssize(config.data.earlier)) {
      ++changes.gone;
      continue;
    }
    if (record.step[k] == hash.step[k]) continue;
    ++changes.changed;
    if (first < 0) first = t;
    last = t;
    then[0] += record.sum[k], then[1] += record.count[k];
    now[0] += hash.sum[k], now[1] += hash.count[k];
  }
  const std::string& path = domain.info.path;
  if (changes.gone > 0)
    changes.text +=
        fmt::format("accepted  {}: the first {} of the training, {} to {}, {} gone\n", path,
                    numbered(changes.gone, "step"), time.text(record.steps.front()),
                    time.text(std::ssize(config.data.earlier) - 1), changes.gone == 1 ? "is" : "are");
  if (changes.changed > 0)
    changes.text += fmt::format(
        "accepted  {}: {} of {} changed, {}: {}\n", path, changes.changed,
        numbered(std::ssize(record.steps), "training step"),
        first == last ? time.text(first) : fmt::format("from {} to {}", time.text(first), time.text(last)),
        change_text(then, now, units_of(domain.info)));
  return changes;
}

}  // namespace rossby
