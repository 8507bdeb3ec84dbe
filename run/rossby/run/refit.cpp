#include "rossby/run/refit.hpp"

#include <cstdio>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/run_files.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

void check_refit(const Config& config) {
  if (config.split.folds > 0)
    user_error("train.refit does not work with split.folds = {}. Set split.folds = 0 or train.refit = false",
               config.split.folds);
  if (config.split.validation == "0")
    user_error(
        "train.refit needs a validation part to choose the epochs, but split.validation is 0. Set "
        "split.validation (steps, a share or a date)");
  if (config.train.keep == "last" || config.schedule.metric == "train")
    user_error("train.refit uses the epochs of the best state by validation. Leave {} out",
               config.train.keep == "last" ? "train.keep = \"last\"" : "schedule.metric = \"train\"");
  if (config.schedule.name == "plateau")
    user_error(
        "train.refit and schedule.name = \"plateau\": rates that depend on the validation error cannot be "
        "repeated without a validation part. Set schedule.name to \"constant\", \"cosine\", \"linear\" or "
        "\"step\"");
}

/// Returns the settings of the second training, from the metadata of the first one's state.
std::vector<std::string> settings_after(const Config& config, const std::string& state) {
  const Json chosen = Json::parse(read_state_metadata(state));
  const auto count = [&](const char* name) { return chosen.at(name).get<Index>(); };
  const Index best = count("best_epoch") + 1;
  if (best < 1)
    user_error(
        "{}: no epoch has a validation error, so that train.refit cannot choose the epochs. Set "
        "split.validation to steps with observed values",
        state);
  std::vector<std::string> sets = {
      "train.refit=false",
      "train.keep=last",
      "train.early_stop=0",
      "train.max_seconds=0",
      fmt::format("train.epochs={}", best),
      fmt::format("split.train={}", count("training_steps") + count("validation_steps")),
      "split.validation=0"};
  if (config.schedule.length == 0) sets.push_back(fmt::format("schedule.length={}", config.train.epochs));
  if (chosen.contains("cycle")) sets.push_back("data.cycle=" + chosen.at("cycle").get<std::string>());
  return sets;
}

}  // namespace

Trained refit(const Communicator& comm, const Config& config, const TrainOptions& options) {
  agree(comm, [&] { check_refit(config); });
  const bool speaks = options.prints && comm.rank() == 0;
  TrainOptions first = options;
  first.run = chosen_run_of(options.run);
  if (options.resume != "never") first.resume = "auto";
  const std::string once = "train.refit=false", state = state_file_of(first.run);
  if (options.write_state && !agree(comm, [&] { return std::filesystem::exists(state); }))
    user_error(
        "{}: the training that chooses the epochs has not ended. To write its state, run the same "
        "configuration without train.refit with --write-state --run {}",
        options.run, first.run);
  first.write_state = false;
  if (speaks) fmt::print("refit     the epochs are chosen in {}\n", first.run);
  const Trained chosen = train(comm, config.with({&once, 1}), first);
  if (chosen.result.reason == StopReason::paused) return chosen;
  const Config whole = agree(comm, [&] { return config.with(settings_after(config, state)); });
  if (speaks)
    fmt::print("refit     {} epochs on training and validation part together\n", whole.train.epochs);
  return train(comm, whole, options);
}

std::optional<Split> split_before_refit(const Communicator& comm, const Config& config, const Split& split,
                                        const std::string& run) {
  if (config.split.validation != "0") return std::nullopt;
  const std::string text = broadcast(comm, agree(comm, [&]() -> std::string {
                                       const std::string state = state_file_of(chosen_run_of(run));
                                       const bool there = comm.rank() == 0 && std::filesystem::exists(state);
                                       return there ? read_state_metadata(state) : "";
                                     }));
  if (text.empty()) return std::nullopt;
  const auto steps = Json::parse(text).at("validation_steps").get<Index>();
  if (steps < 1 || steps >= split.train.size()) return std::nullopt;
  Split before = split;
  before.train.last -= steps;
  before.validation = {before.train.last, split.train.last};
  for (Index t = before.validation.first; t < before.validation.last; ++t)
    before.role[static_cast<std::size_t>(t)] = Role::validation;
  return before;
}

}  // namespace rossby
