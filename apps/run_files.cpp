#include "apps/run_files.hpp"

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

#include "apps/planning.hpp"
#include "rossby/base/error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"

namespace rossby {

namespace {

/// Settings of the parts that a state was trained with, counted: of a file that has become longer a share is
/// another number of steps.
std::vector<std::string> parts_of(const std::string& metadata) {
  std::vector<std::string> sets;
  const auto json = nlohmann::json::parse(metadata, nullptr, false);
  if (!json.is_object()) return sets;
  for (const auto& [member, key] :
       {std::pair{"training_steps", "split.train"}, std::pair{"validation_steps", "split.validation"}})
    if (json.contains(member) && json[member].is_number_integer())
      sets.push_back(fmt::format("{}={}", key, json[member].template get<Index>()));
  return sets;
}

/// A text of a state's metadata; empty: it has none.
std::string member_of(const std::string& metadata, const char* name) {
  const auto json = nlohmann::json::parse(metadata, nullptr, false);
  const bool has = json.is_object() && json.contains(name) && json[name].is_string();
  return has ? json[name].get<std::string>() : "";
}

/// The steps of the file that a state was trained with; 0: it does not say.
Index steps_of(const std::string& metadata) {
  const auto json = nlohmann::json::parse(metadata, nullptr, false);
  if (!json.is_object() || !json.contains("steps") || !json["steps"].is_number_integer()) return 0;
  return json["steps"].get<Index>();
}

/// Those of the file that is read now.
Index steps_in(const Config& config) {
  return SeriesFile::open(config.text("data.file"), config.texts("data.variables"),
                          config.integer("data.first_step"), config.integer("data.last_step"),
                          parse_null_value(config.text("data.null_value")))
      .info()
      .steps;
}

/// Whether a part is a share of the file's steps, as "0.2".
bool is_share(const std::string& part) {
  double share = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), share);
  return error == std::errc() && end == part.data() + part.size() && share > 0 && share < 1;
}

}  // namespace

std::string state_file_of(const std::string& run) {
  return run + "/checkpoints/state.h5";
}

std::string OpenRun::output(const std::string& asked, const std::string& usual) const {
  if (!asked.empty()) {
    const std::string folder = std::filesystem::path(asked).parent_path().string();
    if (const char* place = folder.empty() ? "." : folder.c_str(); ::access(place, W_OK) != 0)
      user_error("{}: cannot be written: {}: {}", asked, place, std::strerror(errno));
    refuse_to_replace(asked,
                      {config.text("data.file"), trained_on, config.text("relation.file"), state,
                       directory->config_file(), directory->metrics_file(), plan_file_of(directory->path())});
    const std::string checkpoints = std::filesystem::path(state).parent_path().string();
    if (std::error_code code; std::filesystem::equivalent(folder.empty() ? "." : folder, checkpoints, code))
      user_error("{}: the run keeps its checkpoints in this folder; name a file elsewhere with -o", asked);
    return asked;
  }
  if (!directory->writable() || ::access(directory->path().c_str(), W_OK) != 0)
    user_error("{}: you cannot write into this run directory; name a file with --output", directory->path());
  return usual;
}

OpenRun open_run(const Communicator& comm, const std::string& path, std::span<const std::string> asked,
                 const std::string& device) {
  OpenRun run;
  std::vector<std::string> sets(asked.begin(), asked.end());
  if (!device.empty()) sets.push_back("parallel.device=" + device);
  run.state = state_file_of(path);
  const std::string metadata = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    run.directory = RunDirectory::look_into(path);
    if (!std::filesystem::exists(run.state))
      user_error("{} has no trained state ({} is missing): train it first", path, run.state);
    return read_state_metadata(run.state);
  });
  const std::string state = broadcast(comm, metadata);
  const std::vector<std::string> parts = parts_of(state);
  run.config = agree(comm, [&] {
    const std::string file = path + "/config.toml";
    const Config trained = Config::load(file, {});
    const Config changed = Config::load(file, sets);
    if (const std::string text = member_of(state, "config"); !text.empty()) {
      auto edited = trained.differences(Config::parse(text, run.state, {}), "now", "trained with");
      // Files may have moved: what they hold is checked.
      std::erase_if(edited, [](const std::string& difference) {
        return difference.starts_with("data.file:") || difference.starts_with("relation.file:");
      });
      if (!edited.empty())
        user_error("{} was changed after the training: {}; set it back, or train anew", file,
                   fmt::join(edited, "; "));
    }
    std::error_code code;
    const std::string &before = trained.text("data.file"), &now = changed.text("data.file");
    run.trained_on = before;
    run.other_file = now != before && !std::filesystem::equivalent(now, before, code);
    for (const std::string& difference : changed.differences(trained, "asked for", "trained with"))
      if (!difference.starts_with("data.file:"))
        user_error("--set would make another model than the one in {}: {}", path, difference);
    std::vector<std::string> all = sets;
    all.insert(all.end(), parts.begin(), parts.end());
    const bool names_device = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
      return set.starts_with("parallel.device") && !set.starts_with("parallel.device_");
    });
    if (!names_device && changed.text("parallel.device") == "cuda") all.emplace_back("parallel.device=auto");
    // A share of the longer file would leave its newest steps out.
    const bool names_test = std::any_of(sets.begin(), sets.end(), [](const std::string& set) {
      return set.starts_with("split.test") || set.starts_with("split.folds");
    });
    if (run.other_file && !parts.empty() && !names_test) {
      const Config counted = Config::load(file, all);
      const std::string& share = counted.text("split.test");
      const bool other = is_share(share) && steps_in(counted) != steps_of(state);
      if (other) all.emplace_back("split.test=rest");
      if (other && comm.rank() == 0)
        fmt::print(
            "split.test = \"{}\" is a share of another file: all steps behind validation are the test part\n",
            share);
    }
    return Config::load(file, all);
  });
  agree_same(comm, run.config.to_toml(), "the configuration in " + path);
  return run;
}

}  // namespace rossby
