#include "rossby/run/asynchronous_run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/train/replayed_updates.hpp"

namespace rossby {
namespace {

AsynchronousOptions asynchronous_options(const Communicator& comm, const Config& config) {
  AsynchronousOptions options;
  options.max_staleness = config.train.max_staleness;
  options.waits = config.train.stale == "wait";
  options.rate = config.train.staleness_lr == "inverse" ? StalenessRate::inverse
                 : config.train.staleness_lr == "power" ? StalenessRate::power
                                                        : StalenessRate::none;
  options.repeats = config.train.uneven == "repeat";
  options.clip = config.optimiser.clip;
  options.save_every = config.checkpoint.keep > 0 ? config.checkpoint.every_steps : 0;
  options.thread = granted_threads() == ThreadLevel::multiple;
  options.patience = config.parallel.watchdog_seconds;
  options.hung = [rank = comm.rank(), limit = options.patience](double seconds) {
    end_hung_job(
        fmt::format("rank {} has waited for {:.0f} s in asynchronous updates, and no rank has finished a "
                    "sub-batch meanwhile. The job ends, because parallel.watchdog_seconds = {:g}. If a "
                    "sub-batch may take longer, raise parallel.watchdog_seconds",
                    rank, seconds, limit));
  };
  return options;
}

/// Returns rates that a training may change when it continues, so that its hash does not cover them.
nlohmann::ordered_json rates_of(const Config& config) {
  return {config.optimiser.lr, config.optimiser.lr_z, config.optimiser.lr_relation,
          static_cast<double>(config.schedule.length)};
}

/// Returns the settings that a training and its replay must share for equal bits. Time groups may differ.
template <class T>
nlohmann::ordered_json head_of(const Config& config, const ModelRun<T>& run) {
  return {{"config_hash", config.hash()},
          {"rates", rates_of(config)},
          {"data_hash", run.data_hash()},
          {"isa", std::string(to_string(run.exec().isa))},
          {"threads", run.exec().threads},
          {"device", run.device() ? run.device()->driver().name() : "cpu"},
          {"row_blocks", run.grid().space().size()},
          {"time_groups", run.grid().groups()},
          {"products", run.training_exec().products == Products::bf16 ? "bf16" : "model"}};
}

nlohmann::ordered_json head_of(const UpdateLog& log, const std::string& path) {
  const auto head = nlohmann::ordered_json::parse(log.head, nullptr, false);
  if (!head.is_object() || !head.contains("time_groups") || !head["time_groups"].is_number_integer() ||
      head["time_groups"].template get<Index>() < 1)
    user_error("{}: the first line of this recording is damaged. Repeat the training with --record", path);
  return head;
}

/// Throws UserError if the recording is of a training with other settings. Earlier versions did not record
/// rates.
void check_settings(const nlohmann::ordered_json& head, const Config& config, const std::string& path,
                    const char* advice) {
  if (head.value("config_hash", "") != config.hash())
    user_error("{}: this recording was made with other settings. {}", path, advice);
  if (head.contains("rates") && head["rates"] != rates_of(config))
    user_error(
        "{}: this recording was made with another optimiser.lr, optimiser.lr_z, optimiser.lr_relation or "
        "schedule.length. {}",
        path, advice);
}

/// Throws UserError if a recording would replace another file or another training's recording, or lie among
/// the files of the run.
void check_record(const Config& config, const TrainOptions& options) {
  namespace fs = std::filesystem;
  const std::string& path = options.record;
  std::error_code code;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path), code).parent_path(),
                 run = fs::weakly_canonical(fs::absolute(options.run), code);
  if (const auto [end, ignored] = std::mismatch(run.begin(), run.end(), folder.begin(), folder.end());
      !options.run.empty() && end == run.end())
    user_error("{}: this recording would lie in the run directory. Name another file with --record", path);
  if (!fs::exists(path, code)) return;
  if (!is_update_log(path))
    user_error(
        "{}: this file exists, and is no recording of updates. Name another file with --record, or remove "
        "this file",
        path);
  std::optional<UpdateLog> log;
  try {
    log = UpdateLog::read(path);
  } catch (const UserError&) {
    return;  // what a killed training left; a resumed one reports it
  }
  check_settings(head_of(*log, path), config, path, "Name another file with --record");
}

/// Returns false if only the row blocks or the device differ. Throws UserError if the recording is of another
/// training.
bool check_replay(const UpdateLog& log, const std::string& head_here, const std::string& path) {
  const auto there = head_of(log, path), here = nlohmann::ordered_json::parse(head_here);
  const auto groups = there["time_groups"].template get<std::size_t>();
  for (const UpdateLeg& leg : log.legs)
    if (leg.events.size() != groups)
      user_error(
          "{}: this recording is incomplete: the training had {} time groups, but the file has the updates "
          "of {}. Repeat the training with --record",
          path, groups, leg.events.size());
  const std::pair<const char*, const char*> alike[] = {
      {"config_hash", "Use the configuration of the recorded training"},
      {"data_hash", "Set data.file to the file of the recorded training"},
      {"isa", "Set parallel.isa to the value of the recording"},
      {"threads", "Set parallel.threads to the value of the recording"}};
  for (const auto& [name, advice] : alike)
    if (!there.contains(name) || there[name] != here[name])
      user_error("{}: {} is {} in this recording, but {} in this training. {}", path, name,
                 there.value(name, nlohmann::ordered_json(nullptr)).dump(), here[name].dump(), advice);
  // Recordings of earlier versions do not name products: there was one kind.
  if (there.value("products", "model") != here["products"])
    user_error("{}: this recording was made with other parallel.products. Set parallel.products = \"{}\"",
               path, there.value("products", "model"));
  // Earlier recordings do not name a device either: all were of the host.
  return there.value("row_blocks", nlohmann::ordered_json()) == here["row_blocks"] &&
         there.value("device", "cpu") == here["device"];
}

nlohmann::ordered_json times_json(const Counts& counts) {
  const Moments m = moments_of(counts);
  nlohmann::ordered_json json = {{"mean", m.mean()}, {"deviation", m.deviation()}};
  json["times"] = nlohmann::ordered_json::array();
  for (const auto& [value, times] : counts) json["times"].push_back({value, times});
  return json;
}

nlohmann::ordered_json spread_json(const Moments& m) {
  return {{"mean", m.mean()},
          {"deviation", m.deviation()},
          {"least", m.count > 0 ? m.least : 0},
          {"most", m.count > 0 ? m.most : 0}};
}

}  // namespace

std::string why_not_asynchronous(const Config& config, Index stages) {
  constexpr const char* asked = "train.updates = \"asynchronous\"";
  if (!config.windows())
    return fmt::format(
        "{} works only with window models, but model.name is \"{}\". Set train.updates = \"synchronous\"",
        asked, config.model.name);
  if (config.window.sampling != "local")
    return fmt::format(
        "{} needs time groups that train on their own windows, but window.sampling is \"{}\". Set "
        "window.sampling = \"local\"",
        asked, config.window.sampling);
  if (stages > 1)
    return fmt::format("{} does not work with parallel.stages = {}. Set parallel.stages = 1", asked, stages);
  if (config.windows()->normalises_batches())
    return fmt::format(
        "{} does not work with model.name = \"{}\", because its batch normalisation needs all time groups. "
        "Set train.updates = \"synchronous\", or choose another model.name",
        asked, config.model.name);
  return "";
}

template <class T>
std::unique_ptr<AsynchronousRun<T>> AsynchronousRun<T>::make(const Communicator& comm, const Config& config,
                                                             const TrainOptions& options, ModelRun<T>& run) {
  if (config.train.updates == "synchronous") {
    if (!options.record.empty() || !options.replay.empty())
      user_error(
          "--record and --replay work only with asynchronous updates. Set train.updates = \"asynchronous\", "
          "or leave these options out");
    return nullptr;
  }
  if (const std::string why = why_not_asynchronous(config, run.grid().stages()); !why.empty())
    user_error("{}", why);
  return std::unique_ptr<AsynchronousRun>(new AsynchronousRun(comm, config, options, run));
}

template <class T>
AsynchronousRun<T>::AsynchronousRun(const Communicator& comm, const Config& config,
                                    const TrainOptions& options, ModelRun<T>& run)
    : comm_(comm),
      options_(asynchronous_options(comm, config)),
      record_(options.record),
      head_(head_of(config, run).dump()),
      replays_(!options.replay.empty()),
      masters_(run.parameters(), run.device()),
      run_(&run),
      all_(run.grid().world().for_thread()),
      groups_(run.grid().time().for_thread()),
      blocks_(run.grid().space().for_thread()),
      workers_(run.grid().space()) {
  options_.records = !record_.empty();
  if (replays_)
    agree(comm, [&] {
      UpdateLog log = UpdateLog::read(options.replay);
      elsewhere_ = !check_replay(log, head_, options.replay);
      replayed_ = std::move(log.legs);
    });
}

template <class T>
void AsynchronousRun<T>::attach(Task<T>& task, Optimiser<T>& optimiser, Trainer<T>& trainer) {
  const ProcessGrid& grid = run_->grid();
  const UpdatePorts ports{&all_,
                          &groups_,
                          &blocks_,
                          &workers_,
                          grid.group(),
                          grid.groups(),
                          grid.space().rank(),
                          grid.space().size()};
  if (replays_) {
    updates_ = std::make_unique<ReplayedUpdates<T>>(options_, ports, std::move(replayed_), task, masters_,
                                                    optimiser, run_->training_exec());
  } else {
    auto updates = std::make_unique<Asynchronous<T>>(options_, ports, task, masters_, optimiser,
                                                     run_->reducer(), run_->training_exec());
    asynchronous_ = updates.get();
    updates_ = std::move(updates);
  }
  trainer.train_by(*this);
}

template <class T>
unsigned AsynchronousRun<T>::run(Tape<T>& tape, double lr, TrainingState& now,
                                 const std::function<unsigned()>& vote, const std::function<void()>& begin) {
  UpdateLeg leg;
  leg.epoch = now.epoch;
  leg.first = now.steps;
  const unsigned votes = updates_->run(tape, lr, now, vote, begin);
  if (!options_.records || !asynchronous_) return votes;
  leg.last = now.steps;
  leg.group_batches = now.group_batches;
  write(std::move(leg), asynchronous_->events());
  return votes;
}

/// Rank 0 collects the events of all groups and appends them to the file.
template <class T>
void AsynchronousRun<T>::write(UpdateLeg leg, const std::vector<UpdateEvent>& events) const {
  const ProcessGrid& grid = run_->grid();
  const std::string mine = pack_events(events, leg.first);
  std::vector<std::string> packed;
  for (int g = 0; g < grid.groups(); ++g) packed.push_back(broadcast(comm_, mine, g * grid.space().size()));
  const Stage stage(comm_, "writing the recording of updates", patience_with_files);
  agree(comm_, [&] {
    if (comm_.rank() != 0) return;
    const bool begins = leg.first == 0;
    if (!begins && !check_replay(UpdateLog::read(record_), head_, record_))
      user_error(
          "{}: this recording was made with other row blocks or on another device. Use the same number of "
          "ranks, parallel.time_groups and parallel.device as before, or name another file with --record",
          record_);
    const std::string text = (begins ? first_line_of_log(head_) : "") + pack_leg(leg, packed);
    std::ofstream file(record_,
                       begins ? std::ios::binary | std::ios::trunc : std::ios::binary | std::ios::app);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file)
      user_error(
          "{}: cannot write the recording of updates: {}. Check the free space and the permissions, or name "
          "another file with --record",
          record_, std::strerror(errno));
  });
}

template <class T>
Traffic AsynchronousRun<T>::sent() const {
  Traffic sent = all_.sent();
  for (const MpiReducer* reducer : {&groups_, &blocks_, &workers_}) sent += reducer->sent();
  return sent;
}

template <class T>
std::string AsynchronousRun<T>::remark() const {
  return fmt::format("updates   asynchronous, {}\n",
                     replays_ && elsewhere_ ? "as recorded, but on other row blocks or another device: sums "
                                              "are added in another order, so that weights differ by rounding"
                     : replays_             ? "as recorded"
                     : options_.thread
                         ? "by a thread of each rank"
                         : "between sub-batches, because MPI does not allow calls from several threads");
}

Index recorded_groups(const Communicator& comm, const Config& config, const TrainOptions& options) {
  if (options.replay.empty() && options.record.empty()) return 0;
  return agree(comm, [&]() -> Index {
    if (options.replay.empty()) {
      if (comm.rank() == 0 && config.train.updates == "asynchronous") check_record(config, options);
      return 0;
    }
    if (!options.record.empty())
      user_error("--record and --replay exclude each other. Give only one of these options");
    const auto head = head_of(UpdateLog::read(options.replay), options.replay);
    check_settings(head, config, options.replay, "Use the configuration of the recorded training");
    const auto groups = head["time_groups"].template get<Index>();
    if (groups % config.parallel.time_groups != 0)
      user_error(
          "{}: this recording has {} time groups, and parallel.time_groups = {} does not divide this "
          "number. Set parallel.time_groups to a divisor of {}",
          options.replay, groups, config.parallel.time_groups, groups);
    return groups;
  });
}

nlohmann::ordered_json updates_json(const UpdateCounts& counts) {
  nlohmann::ordered_json json;
  json["count"] = counts.targets.count;
  json["windows"] = times_json(counts.windows);
  json["targets"] = spread_json(counts.targets);
  json["staleness"] = times_json(counts.staleness);
  json["dropped"] = counts.dropped;
  json["update_seconds"] = spread_json(counts.update_seconds);
  json["worker_seconds"] = spread_json(counts.worker_seconds);
  json["join_seconds"] = spread_json(counts.join_seconds);
  json["sum_seconds"] = spread_json(counts.sum_seconds);
  return json;
}

std::string updates_text(const UpdateCounts& counts) {
  const Moments windows = moments_of(counts.windows), staleness = moments_of(counts.staleness);
  std::string text = fmt::format(
      "{}, with {:.3g} windows each (deviation {:.2g}), staleness {:.3g} (deviation {:.2g}, maximum {:.0f})",
      counts.targets.count, windows.mean(), windows.deviation(), staleness.mean(), staleness.deviation(),
      std::max(0.0, staleness.most));
  if (counts.dropped > 0)
    text += fmt::format("; {} gradients beyond train.max_staleness were dropped", counts.dropped);
  return text;
}

GroupSleep sleep_of(int group) {
  const char* text = std::getenv("ROSSBY_SLOW_GROUPS");
  GroupSleep found;
  for (const char* next = text; next != nullptr; next = std::strchr(next, ',')) {
    if (*next == ',') ++next;
    int named = -1;
    double least = 0, most = 0;
    int read = std::sscanf(next, "*:%lf-%lf", &least, &most);
    const bool all = read >= 1;
    if (!all) read = std::sscanf(next, "%d:%lf-%lf", &named, &least, &most) - 1;
    if (read < 1) return {};
    if (read == 1) most = least;
    if (all || named == group) found = {std::clamp(least, 0.0, 60.0), std::clamp(most, 0.0, 60.0)};
  }
  return found;
}

template class AsynchronousRun<float>;
template class AsynchronousRun<double>;

}  // namespace rossby
