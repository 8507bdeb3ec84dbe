#include "rossby/run/training.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/run/not_finite.hpp"
#include "rossby/run/training_options.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN: numbers that are not finite become null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// Returns the times of an epoch's steps, as means over the ranks.
Json seconds_json(const StepSeconds& seconds, double imbalance) {
  return {{"forward", seconds.forward},     {"backward", seconds.backward}, {"reduction", seconds.reduction},
          {"optimiser", seconds.optimiser}, {"waiting", seconds.waiting},   {"transfer", seconds.transfer},
          {"imbalance", imbalance}};
}

/// Returns the place of a training, to which its times and memory belong. Processor and device are rank 0's.
template <class T>
Json place_json(const Communicator& comm, int hosts, const std::string& processor, const ModelRun<T>& run) {
  Json json = {{"ranks", comm.size()},          {"hosts", hosts},
               {"threads", run.exec().threads}, {"row_blocks", run.grid().space().size()},
               {"stages", run.grid().stages()}, {"time_groups", run.grid().groups()},
               {"processor", processor},        {"rossby", version_short()}};
  if (run.device()) json["device"] = run.device()->driver().name();
  return json;
}

Json epoch_json(const EpochReport& report, std::string_view error, double peak_bytes, double device_bytes,
                Json seconds, std::span<const double> sent, Json place) {
  Json json;
  json["epoch"] = report.epoch;
  json["steps"] = report.steps;
  json["lr"] = report.lr;
  json["loss"] = number(report.loss);
  for (const TermMean& term : report.terms) json["losses"][std::string(term.name)] = number(term.value);
  json[fmt::format("validation_{}", error)] = number(report.validation);
  json["best"] = report.best;
  json["epoch_seconds"] = report.epoch_seconds;
  if (report.validation_seconds > 0 && std::isfinite(report.validation))
    json["validation_seconds"] = report.validation_seconds;
  json["step_seconds"] = std::move(seconds);
  json["sent"] = {{"messages", static_cast<std::int64_t>(sent[0])},
                  {"bytes", static_cast<std::int64_t>(sent[1])},
                  {"whole", report.sent_whole}};
  if (sent[2] + sent[3] > 0)
    json["streamed_bytes"] = {{"brought", static_cast<std::int64_t>(sent[2])},
                              {"home", static_cast<std::int64_t>(sent[3])}};
  json["total_seconds"] = report.total_seconds;
  json["batches_per_second"] = report.batches_per_second;
  json["node_steps_per_second"] = report.node_steps_per_second;
  json["peak_rss_bytes"] = static_cast<std::int64_t>(peak_bytes);
  if (device_bytes > 0) json["peak_device_bytes"] = static_cast<std::int64_t>(device_bytes);
  if (report.updates.any()) json["updates"] = updates_json(report.updates);
  json["rollbacks"] = report.rollbacks;
  json["place"] = std::move(place);
  return json;
}

double stop_after_seconds(const Config& config) {
  const std::string& text = config.train.stop_after;
  if (!text.empty() && config.checkpoint.keep == 0)
    user_error(
        "train.stop_after = \"{}\" (--stop-after) needs a checkpoint, but checkpoint.keep = 0 writes none. "
        "Set checkpoint.keep to at least 1",
        text);
  return text.empty() ? 0 : parse_duration(text, "train.stop_after");
}

}  // namespace

template <class T>
Training<T>::Training(const Communicator& comm, const Config& config, const TrainOptions& options,
                      ModelRun<T>& run)
    : comm_(comm),
      hosts_(hosts_of(comm)),
      processor_(processor()),
      config_(&config),
      start_(&options),
      folder_(checkpoint_folder_of(options.run)),
      run_(&run),
      task_(run.make_task()),
      options_(trainer_options(config, !run.domain().split.validation.empty())),
      asynchronous_(AsynchronousRun<T>::make(comm, config, options, run)),
      optimiser_(optimiser_options(config), asynchronous_ ? asynchronous_->parameters() : run.parameters(),
                 asynchronous_ ? nullptr : run.device()),
      trainer_(options_, schedule_options(config), *task_, optimiser_, run.step_reducer(),
               run.training_exec(), run.time_groups()),
      progress_(options.prints && comm.rank() == 0, config.log.seconds, options_.epochs,
                std::string(task_->validation_name()), units_of(run.domain().info)),
      guard_(stop_after_seconds(config)),
      keeps_checkpoints_(config.checkpoint.keep > 0) {
  if (asynchronous_) asynchronous_->attach(*task_, optimiser_, trainer_);
  if (keeps_checkpoints_ && options.signals) signals_.emplace();
}

template <class T>
std::string Training<T>::validation_text(double error) const {
  return fmt::format("validation {} {:.5g} {}", task_->validation_name(), error,
                     units_of(run_->domain().info));
}

template <class T>
double Training<T>::since_save() const {
  return save_time_.seconds();
}

template <class T>
void Training<T>::use(const RunDirectory* directory) {
  directory_ = directory;
  cut_metrics();
  // Fail now, not at the first checkpoint hours later.
  if (keeps_checkpoints_) run_->check_room(folder_.file(trainer_.steps() + 1), trainer_.arrays(false));
}

template <class T>
void Training<T>::cut_metrics() {
  metrics_.cut(trainer_.state().epoch);
  agree(comm_, [&] {
    if (directory_) rossby::cut_metrics(directory_->metrics_file(), trainer_.state().epoch);
  });
}

template <class T>
void Training<T>::observe(const EpochReport& report) {
  const Device* device = run_->device();
  double peaks[] = {peak_resident_bytes(), device ? static_cast<double>(device->peak_bytes()) : 0};
  run_->reducer().max(peaks);
  double most = report.seconds.total() - report.seconds.waiting;
  run_->reducer().max(std::span<double>(&most, 1));
  const StepSeconds mean = mean_over_ranks(report.seconds);
  const double computing = mean.total() - mean.waiting;
  double sent[] = {static_cast<double>(report.sent.messages), static_cast<double>(report.sent.bytes),
                   report.moved.brought, report.moved.home};
  run_->reducer().sum(sent);
  updates_ += report.updates;
  const Stage stage(comm_, "writing metrics");
  agree(comm_, [&] {
    if (!directory_) return;
    const auto line = epoch_json(report, task_->validation_name(), peaks[0], peaks[1],
                                 seconds_json(mean, computing > 0 ? std::max(1.0, most / computing) : 1),
                                 sent, place_json(comm_, hosts_, processor_, *run_));
    metrics_.write(directory_, report.epoch, line.dump());
  });
  progress_.show(report, report.epoch + 1 == options_.epochs);
  if (signals_) warn_of_short_grace(1 / std::max(report.batches_per_second, 1e-9));
}

/// A step longer than the time that mpirun allows after SIGTERM ends without a checkpoint.
template <class T>
void Training<T>::warn_of_short_grace(double step_seconds) {
  const double grace = mpirun_grace_seconds();
  if (std::exchange(looked_at_grace_, true) || grace < 0 || step_seconds + save_seconds_ < 0.5 * grace)
    return;
  progress_.say(fmt::format(
      "warning   a step takes {:.3g} s, but mpirun kills its ranks {:g} s after SIGTERM or Ctrl-C. To get a "
      "checkpoint, send SIGUSR1 to mpirun, or start mpirun with --mca odls_base_sigkill_timeout 60",
      step_seconds, grace));
}

template <class T>
unsigned Training<T>::vote() {
  unsigned votes = 0;
  if (signals_ && StopSignals::received() != 0) votes |= vote_pause;
  if (start_->pause && start_->pause()) votes |= vote_pause;
  // The requested step is still made.
  if (start_->pause_at > 0 && trainer_.steps() + 1 >= start_->pause_at && trainer_.steps() + 1 < all_steps())
    votes |= vote_pause;
  if (comm_.rank() != 0) return votes;  // one clock decides
  if (guard_.over(save_seconds_)) votes |= vote_pause;
  const double minutes = config_->checkpoint.every_minutes;
  // Unless the user set an interval, checkpoints take at most 2 % of the time.
  const double least = config_->given("checkpoint.every_minutes") ? 0 : 50 * save_seconds_;
  if (minutes > 0 && since_save() >= std::max(60 * minutes, least)) votes |= vote_save;
  return votes;
}

template <class T>
std::string Training<T>::why_paused() {
  double number = signals_ ? StopSignals::received() : 0;  // may have come to one rank only
  run_->reducer().max(std::span<double>(&number, 1));
  std::string reason = guard_.reason();  // rank 0's
  if (reason.empty())
    reason = number > 0 ? fmt::format("{} was received", signal_name(static_cast<int>(number)))
                        : "the caller asked for a stop";
  return broadcast(comm_, reason);
}

template <class T>
std::string Training<T>::doubts() const {
  std::string lines = launcher_mismatch(comm_.size());
  if (!lines.empty()) lines = fmt::format("warning   {}\n", lines);
  if (keeps_checkpoints_ && !guard_.doubt().empty())
    lines += fmt::format("warning   {}. This time is not used\n", guard_.doubt());
  return lines;
}

template <class T>
Json Training<T>::metadata(const TrainingState& state) const {
  Json json;
  json["format"] = 1;
  json["kind"] = "checkpoint";
  json["rossby"] = version_short();
  json["model"] = config_->model.name;
  json["precision"] = config_->model.precision;
  json["config_hash"] = config_->hash();
  json["data_hash"] = run_->data_hash();
  json["training_hash"] = run_->training_hash();
  json["isa"] = std::string(to_string(run_->exec().isa));
  if (!run_->device()) json["blas"] = blas_core();
  run_->add_metadata(json);
  json["ranks"] = comm_.size();
  json["nodes"] = run_->domain().nodes();
  json["steps"] = run_->domain().info.steps;
  json["epochs"] = state.epoch;
  json["optimiser_steps"] = state.steps;
  json["config"] = config_->to_toml();
  json["training"] = to_json(state);
  return json;
}

/// Throws NotFinite before a checkpoint with values that are not finite is written.
template <class T>
void Training<T>::check_finite() {
  const std::string found = describe_not_finite(comm_, *run_, false);
  if (!found.empty()) throw NotFinite("a step left values that are not finite");
}

template <class T>
void Training<T>::log_save(double seconds) {
  std::error_code code;
  const double bytes = static_cast<double>(std::filesystem::file_size(saved_, code));
  progress_.say(fmt::format("checkpoint {}, {} in {:.3f} s ({:.3g} GB/s)", saved_, bytes_text(bytes), seconds,
                            bytes / std::max(seconds, 1e-9) / 1e9));
}

template <class T>
StepSeconds Training<T>::mean_over_ranks(const StepSeconds& mine) {
  double means[] = {mine.forward, mine.backward, mine.reduction, mine.optimiser, mine.waiting, mine.transfer};
  run_->reducer().sum(means);
  for (double& mean : means) mean /= comm_.size();
  return {means[0], means[1], means[2], means[3], means[4], means[5]};
}

template <class T>
void Training<T>::save(SaveReason reason) {
  const Stage stage(comm_, "writing a checkpoint", patience_with_files);
  check_finite();
  const Stopwatch begin;
  TrainingState state = trainer_.state_of_groups();
  state.step_seconds = mean_over_ranks(state.step_seconds);
  const std::string text = broadcast(comm_, comm_.rank() == 0 ? metadata(state).dump() : "");
  const std::string path = folder_.file(state.steps);
  const auto arrays = trainer_.arrays(state.has_best);
  try {
    run_->write(path, arrays, text);
    saved_ = path;
    if (comm_.rank() == 0) folder_.prune(config_->checkpoint.keep);
  } catch (const UserError& error) {  // the same on all ranks
    if (reason == SaveReason::pause)
      user_error("{}; {}", error.what(),
                 saved_.empty() ? "this start has written no checkpoint before"
                                : "the last good checkpoint is " + saved_);
    if (comm_.rank() == 0) fmt::print(stderr, "rossby: warning: {}; training goes on\n", error.what());
  }
  save_time_.restart();
  save_seconds_ = save_time_.since(begin);
  all_save_seconds_ += save_seconds_;
  if (saved_ != path) return;
  ++saves_;
  if (comm_.rank() == 0) log_save(save_seconds_);
}

template <class T>
bool Training<T>::last_trained_here(const std::string& metrics) const {
  if (!std::filesystem::exists(metrics)) return false;
  const std::string text = read_text(metrics);
  const std::size_t end = text.find_last_not_of('\n'), begin = text.find_last_of('\n', end);
  const Json line = Json::parse(text.substr(begin == std::string::npos ? 0 : begin + 1), nullptr, false);
  if (!line.is_object() || !line.contains("place")) return false;
  Json here = place_json(comm_, hosts_, processor_, *run_), there = line.at("place");
  for (Json* place : {&here, &there})
    if (place->is_object())
      for (const char* told_alone : {"processor", "rossby"}) place->erase(told_alone);
  return here == there;
}

template <class T>
std::string Training<T>::checkpoint_summary(double seconds) const {
  if (saves_ == 0) return "";
  const double share = 100 * all_save_seconds_ / std::max(seconds, all_save_seconds_);
  return fmt::format("{} in {:.3f} s, {} % of the time", saves_, all_save_seconds_,
                     share < 10 ? fmt::format("{:.2g}", share) : fmt::format("{:.0f}", share));
}

template <class T>
void Training<T>::load(const Checkpoint& checkpoint) {
  if (const std::string hash = checkpoint.metadata->value("data_hash", ""); hash != run_->data_hash())
    throw BadContinuation(
        fmt::format("{} was written with other data: its data_hash is {}, that of {} is {}. Restore the "
                    "data, or start a new run from its weights (--from {})",
                    checkpoint.path, hash, run_->domain().info.path, run_->data_hash(), start_->run));
  // The training hash covers grid shapes and the meaning of times; older checkpoints only have the other
  // hash.
  if (const std::string hash = checkpoint.metadata->value("training_hash", run_->training_hash());
      hash != run_->training_hash())
    throw BadContinuation(
        fmt::format("{} was written with other data: the training part of {} has other times, or a grid of "
                    "another shape. Restore the data, or choose another --run directory",
                    checkpoint.path, run_->domain().info.path));
  const auto arrays = trainer_.arrays(checkpoint.training.has_best);
  run_->read(checkpoint.path, arrays);
  TrainingState state = checkpoint.training;
  state.rollbacks = std::max(state.rollbacks, rollbacks_);
  agree(comm_, [&] { trainer_.restore(state); });
}

template <class T>
void Training<T>::resume(Checkpoint first, std::vector<std::string> candidates) {
  std::optional<Checkpoint> next = std::move(first);
  const std::string tried = next ? next->path : "";
  while (next) {
    try {
      load(*next);
      break;
    } catch (const BadContinuation&) {
      throw;
    } catch (const UserError& error) {
      warn_skipped(comm_, next->path, error.what());
    }
    next = next_checkpoint(comm_, candidates);
  }
  if (!next)
    user_error("{}: all checkpoints are damaged. Remove these checkpoints to start anew",
               std::filesystem::path(tried).parent_path().string());
  saved_ = next->path;
  cut_metrics();
}

/// Goes back to the last good checkpoint with a lower rate if the settings ask for it; otherwise ends the
/// run.
template <class T>
void Training<T>::recover(const NotFinite& error) {
  const TrainingState at = trainer_.state();
  std::string found = describe_op(comm_, *run_, trainer_.tape().check());
  if (found.empty()) found = describe_not_finite(comm_, *run_, true);
  std::vector<std::string> candidates;
  if (comm_.rank() == 0) candidates = folder_.newest_first();
  const std::string last = broadcast(comm_, candidates.empty() ? "" : candidates.front());
  const std::string what = fmt::format("training: {} in step {} (epoch {}){}{}", error.what(), at.steps + 1,
                                       at.epoch + 1, found.empty() ? "" : ": ", found);
  const Index most = config_->train.rollbacks;
  const bool may = config_->train.on_nan == "rollback" && at.rollbacks < most;
  // If the error returns within an epoch, the checkpoint already had it: go further back than before.
  if (rollbacks_ > 0 && at.steps < failed_step_ + task_->batches())
    while (candidates.size() > 1 && CheckpointFolder::steps(candidates.front()) >= rolled_back_to_)
      candidates.erase(candidates.begin());
  auto checkpoint = may ? next_checkpoint(comm_, candidates) : std::nullopt;
  if (!checkpoint)
    user_error("{}. {}. Lower optimiser.lr, or set optimiser.clip", what,
               last.empty() ? fmt::format("There is no checkpoint{}",
                                          may ? " to roll back to. Set checkpoint.every_steps" : "")
                            : "The last good checkpoint is " + last);
  rollbacks_ = at.rollbacks + 1;
  resume(std::move(*checkpoint), std::move(candidates));
  failed_step_ = at.steps;
  rolled_back_to_ = trainer_.state().steps;
  if (comm_.rank() == 0) {
    folder_.drop_after(rolled_back_to_);
    fmt::print(
        stderr, "rossby: warning: {}; rolled back to {} with learning rate x {:.3g} (rollback {} of {})\n",
        what, saved_, std::pow(options_.rollback_lr, static_cast<double>(rollbacks_)), rollbacks_, most);
  }
}

template <class T>
TrainingResult Training<T>::fit() {
  const TrainingState at = trainer_.state();
  if (start_->pause_at > 0 && at.steps >= start_->pause_at && at.steps < all_steps()) {
    TrainingResult result;
    result.reason = StopReason::paused;
    result.epochs = at.epoch;
    result.steps = at.steps;
    result.best_epoch = at.best_epoch;
    result.best_metric = at.schedule.best;
    result.seconds = at.seconds;
    return result;
  }
  TrainerHooks hooks;
  hooks.observe = [&](const EpochReport& report) { observe(report); };
  const int group = run_->grid().group();
  hooks.begin = [&, sleep = sleep_of(group), drawn = Random(1, "sleep").at(static_cast<std::uint64_t>(group)),
                 count = std::uint64_t{0}]() mutable {
    begin_step(comm_, trainer_.steps() + 1);
    if (sleep.most > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep.at(drawn.uniform(count++))));
  };
  hooks.vote = [&] { return keeps_checkpoints_ ? vote() : 0U; };
  if (const Watchdog* watchdog = comm_.watchdog()) hooks.waited = [watchdog] { return watchdog->waited(); };
  hooks.sent = [this] {
    Traffic sent = run_->sent();
    if (asynchronous_) sent += asynchronous_->sent();
    return sent;
  };
  if (keeps_checkpoints_) hooks.save = [&](SaveReason reason) { save(reason); };
  release_unused_memory();  // of graphs, after relations are built: steps allocate next
  while (true) try {
      const TrainingResult result = trainer_.run(hooks);
      agree(comm_, [&] { metrics_.write_last(directory_); });
      return result;
    } catch (const NotFinite& error) {
      recover(error);
    } catch (const UserError& error) {
      // A device may fail this rank in the middle of exchanges, whose values still arrive at their buffers.
      end_unless_all_come(comm_, error.what());
      throw;
    } catch (const std::bad_alloc&) {
      end_out_of_memory(comm_);
    }
}

template class Training<float>;
template class Training<double>;

}  // namespace rossby
