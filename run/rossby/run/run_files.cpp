#include "rossby/run/run_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/cycle.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/checkpoints.hpp"
#include "rossby/run/external_program.hpp"
#include "rossby/run/planning.hpp"

namespace rossby {

namespace {

/// The metadata of a state on its training.
struct TrainedWith {
  /// Settings of the parts as counts of steps: of a longer file, a share would be another number of steps.
  std::vector<std::string> parts;
  Index steps = 0;      // of the file; 0: unknown
  std::string config;   // configuration of the training; empty: unknown
  std::string cut_off;  // a line, if the state was written before the training had ended
  Index epochs = -1;    // -1: unknown
  std::string cycle;    // that data.cycle = "auto" chose; empty: unknown
  std::string base;     // name and choices of model.base_forecast; empty: none
  std::string training_hash;

  explicit TrainedWith(const std::string& metadata) {
    const auto json = nlohmann::json::parse(metadata, nullptr, false);
    if (!json.is_object()) return;
    const auto is_count = [&](const char* name) {
      return json.contains(name) && json[name].is_number_integer();
    };
    for (const auto& [member, key] :
         {std::pair{"training_steps", "split.train"}, std::pair{"validation_steps", "split.validation"}})
      if (is_count(member)) parts.push_back(fmt::format("{}={}", key, json[member].template get<Index>()));
    if (is_count("steps")) steps = json["steps"].get<Index>();
    if (is_count("epochs")) epochs = json["epochs"].get<Index>();
    if (is_count("epochs") && is_count("epochs_asked"))
      cut_off = fmt::format("the training was cut off after {} of {} epochs\n", json["epochs"].get<Index>(),
                            json["epochs_asked"].get<Index>());
    if (json.contains("config") && json["config"].is_string()) config = json["config"].get<std::string>();
    if (json.contains("training_hash") && json["training_hash"].is_string())
      training_hash = json["training_hash"].get<std::string>();
    if (json.contains("cycle") && json["cycle"].is_string()) cycle = json["cycle"].get<std::string>();
    if (json.contains("base_forecast") && json["base_forecast"].is_string())
      base = json["base_forecast"].get<std::string>();
  }
};

/// True if a part is a share of the file's steps, such as "0.2".
bool is_share(const std::string& part) {
  double share = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), share);
  return error == std::errc() && end == part.data() + part.size() && share > 0 && share < 1;
}

}  // namespace

bool same_files(const PathList& a, const PathList& b) {
  std::error_code code;
  return std::equal(a.paths.begin(), a.paths.end(), b.paths.begin(), b.paths.end(),
                    [&](const std::string& x, const std::string& y) {
                      return x == y || std::filesystem::equivalent(x, y, code);
                    });
}

bool names_file(const std::string& difference) {
  return difference.starts_with("data.file:") || difference.starts_with("relation.file:");
}

bool cuts_batches(const Config& config, const std::string& difference) {
  return difference.starts_with("window.micro_batches:") &&
         !(config.windows() && config.windows()->normalises_batches());
}

void keep_choices(Config& config, const std::string& decided, const std::string& base) {
  const bool known = std::any_of(std::begin(all_cycle_kinds), std::end(all_cycle_kinds),
                                 [&](CycleKind kind) { return decided == name_of(kind); });
  if (config.data.cycle == "auto" && known) config.data.cycle_decided = decided;
  if (const std::string begin = config.model.base_forecast + ": "; base.starts_with(begin))
    config.model.base_chosen = base.substr(begin.size());
}

std::string state_file_of(const std::string& run) {
  return run + "/checkpoints/state.h5";
}

std::string chosen_run_of(const std::string& run) {
  return run + "/chosen";
}

std::string OpenRun::output(const std::string& asked, const std::string& usual) const {
  if (!asked.empty()) {
    const std::string folder = std::filesystem::path(asked).parent_path().string();
    if (const char* place = folder.empty() ? "." : folder.c_str(); ::access(place, W_OK) != 0)
      user_error("{}: cannot write into the folder {}: {}. Name a file in another folder", asked, place,
                 std::strerror(errno));
    std::vector<std::string> inputs{config.relation.file,
                                    trained_graph,
                                    state,
                                    directory->config_file(),
                                    directory->metrics_file(),
                                    plan_file_of(directory->path())};
    for (const PathList& files : {config.data.file, trained_on})
      inputs.insert(inputs.end(), files.paths.begin(), files.paths.end());
    refuse_to_replace(asked, inputs);
    const std::string checkpoints = std::filesystem::path(state).parent_path().string();
    if (std::error_code code; std::filesystem::equivalent(folder.empty() ? "." : folder, checkpoints, code))
      user_error("{}: the run keeps its checkpoints in this folder. Name a file elsewhere with -o", asked);
    return asked;
  }
  if (!directory->writable() || ::access(directory->path().c_str(), W_OK) != 0)
    user_error("{}: you cannot write into this run directory. Name a file in another folder with --output",
               directory->path());
  return usual;
}

OpenRun open_run(const Communicator& comm, const std::string& path, std::span<const std::string> asked,
                 const std::string& device, bool accepts) {
  OpenRun run;
  run.accepts = accepts;
  std::vector<std::string> sets(asked.begin(), asked.end());
  if (!device.empty()) sets.push_back("parallel.device=" + device);
  run.state = state_file_of(path);
  const std::string metadata = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    run.directory = RunDirectory::look_into(path);
    if (!std::filesystem::exists(run.state)) {
      if (!CheckpointFolder(checkpoint_folder_of(path)).newest_first().empty())
        user_error(
            "{}: the training has not ended, and there is no {}. Start the training again, or write the "
            "state of the newest checkpoint: rossby train {} --run {} --write-state",
            path, run.state, quoted(path + "/config.toml"), quoted(path));
      user_error("{} has no trained state ({} is missing). Train this run first with 'rossby train'", path,
                 run.state);
    }
    return read_state_metadata(run.state);
  });
  const TrainedWith state(broadcast(comm, metadata));
  run.epochs = state.epochs;
  run.remark = state.cut_off;
  std::vector<std::string> all = sets;
  const std::string config_file = path + "/config.toml";
  bool names_test = false;
  run.config = agree(comm, [&] {
    const std::string& file = config_file;
    const Config trained = Config::load(file, {});
    const Config changed = Config::load(file, sets);
    if (!state.config.empty()) {
      auto edited = trained.differences(Config::parse(state.config, run.state, {}), "now", "trained with");
      std::erase_if(edited, [&](const std::string& difference) {
        return names_file(difference) || cuts_batches(trained, difference);
      });
      if (!edited.empty())
        user_error("{} was changed after the training: {}. Restore the earlier values, or train a new run",
                   file, fmt::join(edited, "; "));
    }
    run.trained_on = trained.data.file;
    run.trained_graph = trained.relation.file;
    // If training and validation parts are counts of steps, only the evaluation uses the test part.
    const auto of_evaluation = [&](const std::string& difference) {
      return names_file(difference) || cuts_batches(trained, difference) ||
             (difference.starts_with("split.test:") && !state.parts.empty());
    };
    for (const std::string& difference : changed.differences(trained, "asked for", "trained with"))
      if (!of_evaluation(difference))
        user_error("--set would change the model of {}: {}. Leave this --set out", path, difference);
    all.insert(all.end(), state.parts.begin(), state.parts.end());
    const bool names_device = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
      return set.starts_with("parallel.device") && !set.starts_with("parallel.device_");
    });
    if (!names_device && changed.parallel.device == "cuda") all.emplace_back("parallel.device=auto");
    names_test = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
      return set.starts_with("split.test") || set.starts_with("split.folds");
    });
    return Config::load(file, all);
  });
  agree_same(comm, run.config.to_toml(), "the configuration in " + path);
  run.config = with_series_names(comm, run.config);
  run.other_file = !same_files(run.config.data.file, run.trained_on);
  if (accepts) run.record = read_record(comm, data_record_of(path), state.training_hash);
  if (run.record) begin_as_trained(comm, run.config, *run.record);
  if (!accepts && run.other_file)
    if (const auto record = read_record(comm, data_record_of(path), state.training_hash))
      require_training_part(comm, run.config, *record);
  // A share of the longer file would leave its newest steps out.
  const std::string share = run.config.split.test;
  if (run.other_file && !state.parts.empty() && !names_test && is_share(share) &&
      open_series(comm, run.config).info().steps != state.steps) {
    const std::string rest = "split.test=rest";
    const DataSettings begun = run.config.data;
    run.config = run.config.with({&rest, 1});
    run.config.data = begun;
    run.remark += fmt::format(
        "split.test = \"{}\" is a share of another file: all steps after the validation part are the test "
        "part\n",
        share);
  }
  keep_choices(run.config, state.cycle, state.base);
  return run;
}

}  // namespace rossby
