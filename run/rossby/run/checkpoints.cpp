#include "rossby/run/checkpoints.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/raw_value.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/kernels/isa.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/stnn_settings.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", suffix = ".h5";

/// Returns the steps in a checkpoint's name; −1 if the name has another form.
Index steps_of(const std::string& name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return -1;
  const std::string digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (digits.size() > 18 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoll(digits);
}

std::string member_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string CheckpointFolder::file(Index steps) const {
  return fmt::format("{}/{}{:012}{}", path_, prefix, steps, suffix);
}

std::vector<std::string> CheckpointFolder::newest_first() const {
  std::vector<std::pair<Index, std::string>> found;
  std::error_code code;
  for (fs::directory_iterator it(path_, code), end; !code && it != end; it.increment(code))
    if (const Index steps = steps_of(it->path().filename().string()); steps >= 0)
      found.emplace_back(steps, it->path().string());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [steps, path] : found) paths.push_back(std::move(path));
  return paths;
}

Index CheckpointFolder::steps(const std::string& path) {
  return steps_of(fs::path(path).filename().string());
}

void CheckpointFolder::prune(Index keep) const {
  const auto paths = newest_first();
  std::error_code code;
  for (auto i = static_cast<std::size_t>(std::max<Index>(keep, 1)); i < paths.size(); ++i)
    fs::remove(paths[i], code);
}

void CheckpointFolder::drop_after(Index steps) const {
  std::error_code code;
  for (const std::string& path : newest_first())
    if (CheckpointFolder::steps(path) > steps) fs::remove(path, code);
}

void CheckpointFolder::sweep() const {
  std::error_code code;
  std::vector<fs::path> halves;
  for (fs::directory_iterator it(path_, code), end; !code && it != end; it.increment(code))
    if (it->path().extension() == ".tmp") halves.push_back(it->path());
  for (const fs::path& half : halves) fs::remove(half, code);
}

Checkpoint read_checkpoint(const std::string& path) {
  Checkpoint checkpoint{path, {}, {}};
  const std::string text = read_state_metadata(path);
  try {
    checkpoint.metadata = std::make_shared<const Json>(Json::parse(text));
    const Json& json = *checkpoint.metadata;
    if (member_text(json, "kind") != "checkpoint" || !json.contains("training"))
      user_error(
          "this file is not a checkpoint. Checkpoints are in the folder checkpoints of a run, as step-N.h5");
    checkpoint.training = training_state(json.at("training"));
  } catch (const Json::exception&) {
    user_error("checkpoint '{}' cannot be used: its metadata is not JSON", path);
  } catch (const UserError& error) {
    user_error("checkpoint '{}' cannot be used: {}", path, error.what());
  }
  return checkpoint;
}

void warn_skipped(const Communicator& comm, const std::string& path, const std::string& why) {
  if (comm.rank() == 0) fmt::print(stderr, "rossby: warning: checkpoint {} is skipped: {}\n", path, why);
}

std::optional<Checkpoint> next_checkpoint(const Communicator& comm, std::vector<std::string>& candidates) {
  Checkpoint found;
  std::string path, text;
  while (comm.rank() == 0 && path.empty() && !candidates.empty()) {
    const std::string candidate = candidates.front();
    candidates.erase(candidates.begin());
    try {
      found = read_checkpoint(candidate);
      path = candidate;
      text = found.metadata->dump();
    } catch (const UserError& error) {
      warn_skipped(comm, candidate, error.what());
    }
  }
  path = broadcast(comm, std::move(path));
  if (path.empty()) return std::nullopt;
  text = broadcast(comm, std::move(text));
  if (comm.rank() != 0) {
    found.path = path;
    found.metadata = std::make_shared<const Json>(Json::parse(text));
    found.training = training_state(found.metadata->at("training"));
  }
  return found;
}

namespace {

/// Keeps the chunks of dense relations, over which sums run. Calls `warn` if the user sets other chunks, or
/// if streamed relations lack memory for the same ones.
template <class Warn>
void keep_chunks(const Checkpoint& checkpoint, const Config& config, std::vector<std::string>& sets,
                 const Warn& warn) {
  const auto stored = checkpoint.metadata->find("chunk_mib");
  if (stored == checkpoint.metadata->end() || !stored->is_number()) return;
  const double before = *stored, now = config.relation.chunk_mib;
  const bool less = now == 0 && config.relation.memory == "streamed" && most_chunk_mib(config) < before;
  if (now == 0 && before > 0 && !less) sets.push_back(fmt::format("relation.chunk_mib={}", before));
  const bool whole = before == 0 && now == 0 && config.relation.memory == "streamed";
  if ((now > 0 && now != before) || whole || less)
    warn(fmt::format("{} was computed with relation.chunk_mib = {}{}", checkpoint.path, before,
                     before == 0 ? " on a device, with all of the relation at once" : ""));
}

/// Warns if slabs or batches of windows change. They consist of as many stretches of time as there are lanes,
/// by default time groups. Slabs of all steps are the same on every grid.
void warn_of_other_batches(const Config& config, const Config& written) {
  const Index before = written.parallel.time_groups, now = config.parallel.time_groups;
  if (now == before) return;
  std::string others;
  if (!config.windows()) {
    if (config.train.sampling == "slabs" && config.train.slab_steps > 0 && config.train.lanes == 0 &&
        written.train.lanes == 0)
      others = "train.lanes = 0: slabs contain other steps";
  } else if (config.window.sampling == "local") {
    others = "window.sampling = \"local\": batches contain other windows";
  } else if (config.window.sampling == "blocked" && config.window.lanes == 0 && written.window.lanes == 0) {
    others = "window.lanes = 0: batches contain other windows";
  }
  if (!others.empty())
    fmt::print(stderr,
               "rossby: warning: {} from here on than before, because parallel.time_groups is {} instead of "
               "{}. Set parallel.time_groups = {} to go on exactly as before\n",
               others, now, before, before);
}

void warn_of_rounding(const Communicator& comm, const std::string& text) {
  if (comm.rank() == 0)
    fmt::print(stderr,
               "rossby: warning: {}. From here on, results equal those of an uninterrupted run only up to "
               "rounding\n",
               text);
}

}  // namespace

Config settle_files(const Communicator& comm, const Config& config,
                    const std::optional<Checkpoint>& checkpoint) {
  Config settled = with_series_names(comm, config);
  if (!checkpoint) return settled;
  const std::vector<std::string> before = agree(comm, [&] {
    return Config::parse(member_text(*checkpoint->metadata, "config"), checkpoint->path, {}).data.file.paths;
  });
  const std::vector<std::string>& now = settled.data.file.paths;
  const std::set<std::string_view> names(now.begin(), now.end());
  const bool longer = !before.empty() && before.size() < now.size() &&
                      std::all_of(before.begin(), before.end(),
                                  [&](const std::string& name) { return names.contains(name); });
  if (!longer) return settled;
  if (comm.rank() == 0)
    fmt::print(stderr,
               "rossby: warning: data.file now names {} files. The run goes on with the {} files that it "
               "started with\n",
               now.size(), before.size());
  const std::string setting = "data.file=" + detail::quoted(before);
  return settled.with({&setting, 1});
}

namespace {

/// Keeps parallel.products of a training on the host. A checkpoint that does not record it used its settings.
void keep_products(const Checkpoint& checkpoint, const Config& config, const Config& written,
                   std::vector<std::string>& sets, const auto& warn) {
  if (member_text(*checkpoint.metadata, "blas").empty()) return;
  const std::string &now = config.parallel.products, &before = written.parallel.products;
  const auto on_host = [](const std::string& name) { return name == "bf16" ? name : "model"; };
  const std::string kept = member_text(*checkpoint.metadata, "products");
  const std::string meant = on_host(kept.empty() ? before : kept);
  if (now == "auto")
    sets.push_back("parallel.products=" + meant);
  else if (on_host(now) != meant)
    warn(fmt::format("{} was computed with parallel.products = \"{}\"", checkpoint.path, meant));
}

}  // namespace

Config settings_to_resume(const Communicator& comm, const Config& config, const Checkpoint& checkpoint) {
  const Config written = agree(
      comm, [&] { return Config::parse(member_text(*checkpoint.metadata, "config"), checkpoint.path, {}); });
  auto differences = config.differences(written);
  // A checkpoint of an earlier version has no hash that tells its data from others.
  if (!member_text(*checkpoint.metadata, "training_hash").empty()) std::erase_if(differences, names_file);
  std::erase_if(differences, [&](const std::string& difference) { return cuts_batches(config, difference); });
  const bool other_default =
      !config.given("optimiser.beta1") && config.optimiser.beta1 != written.optimiser.beta1;
  if (!differences.empty())
    throw BadContinuation(fmt::format(
        "{} was written with other settings: {}. Set these keys back, or choose another directory with "
        "--run{}",
        checkpoint.path, fmt::join(differences, "; "),
        other_default
            ? fmt::format(
                  " (the default of optimiser.beta1 has changed: to go on, give --set optimiser.beta1={})",
                  written.optimiser.beta1)
            : ""));
  std::vector<std::string> sets;
  const auto warn = [&](const std::string& text) { warn_of_rounding(comm, text); };
  const std::string isa = member_text(*checkpoint.metadata, "isa");
  const std::string& asked = config.parallel.isa;
  MpiReducer reducer(comm);
  double lacking = 1;
  for (const Isa known : supported_isas())
    if (isa == to_string(known)) lacking = 0;
  reducer.max(std::span<double>(&lacking, 1));
  const bool doubles = config.model.precision == "double";  // double is computed with the portable set only
  if (!doubles && asked == "auto" && lacking == 0) sets.push_back("parallel.isa=" + isa);
  if (doubles ? isa != to_string(Isa::portable) : asked == "auto" ? lacking != 0 : asked != isa)
    warn(fmt::format("{} was computed with {} instructions", checkpoint.path, isa));
  const auto keep = [&](const char* member, const char* key, const std::string& now,
                        std::initializer_list<std::string_view> known) {
    const std::string meant = member_text(*checkpoint.metadata, member);
    if (std::find(known.begin(), known.end(), meant) == known.end()) return;
    if (now == "auto") sets.push_back(fmt::format("{}={}", key, meant));
    if (now != "auto" && now != meant)
      warn(fmt::format("{} was computed with {} = \"{}\"", checkpoint.path, key, meant));
  };
  const auto measures = [&](const char* key, double now, double before) {
    if (now != before && comm.rank() == 0)
      fmt::print(stderr,
                 "rossby: warning: {} = {} instead of {}: validation errors from here on cannot be compared "
                 "with those of earlier epochs, by which the best state was chosen\n",
                 key, now, before);
  };
  if (!config.windows() && config.split.validation != "0") {
    if (config.validation.kind == "origins")
      measures("evaluate.horizons", static_cast<double>(config.evaluate.horizons),
               static_cast<double>(written.evaluate.horizons));
    measures("evaluate.filter_lambda", config.evaluate.filter_lambda, written.evaluate.filter_lambda);
  }
  keep("dense_kernel", "parallel.dense_kernel", config.parallel.dense_kernel, {"own", "blas"});
  keep_products(checkpoint, config, written, sets, warn);
  keep("update_place", "relation.update", config.relation.update, {"device", "host"});
  keep("sparse_kernel", "parallel.sparse_products", config.parallel.sparse_products, {"own", "cusparse"});
  keep_chunks(checkpoint, config, sets, warn);
  const auto differs = [&](const char* key, const auto& before, const auto& now) {
    if (now != before) warn(fmt::format("{} was computed with {} = {}", checkpoint.path, key, before));
  };
  const auto of_groups = [](const Config& one) { return one.parallel.time_groups > 1; };
  if (config.windows()) {
    differs("window.micro_batches", written.window.micro_batches, config.window.micro_batches);
  } else if (config.relation.discover == "dense" && of_groups(config) && of_groups(written)) {
    // Streamed relations are updated from what groups exchange; relations in memory may sum gradients.
    differs("relation.memory", written.relation.memory, config.relation.memory);
  }
  if (comm.rank() == 0) warn_of_other_batches(config, written);
  Config resumed = Config::parse(config.to_toml(), "configuration", sets);
  keep_choices(resumed, member_text(*checkpoint.metadata, "cycle"),
               member_text(*checkpoint.metadata, "base_forecast"));
  return resumed;
}

void warn_of_other_blas(const Communicator& comm, const Checkpoint& checkpoint) {
  if (const std::string blas = member_text(*checkpoint.metadata, "blas");
      !blas.empty() && blas != blas_core())
    warn_of_rounding(comm, fmt::format("{} was computed with BLAS kernels for {}, not for {}",
                                       checkpoint.path, blas, blas_core()));
}

std::vector<std::string> changes_of_learning(const Config& config, const Checkpoint& checkpoint) {
  const std::string text = member_text(*checkpoint.metadata, "config");
  auto changes = config.changes(Config::parse(text, checkpoint.path, {}));
  std::erase_if(changes, [](const std::string& change) {
    const auto of = [&](const char* name) { return change.starts_with(name); };
    return !(of("optimiser.") || of("schedule.") || of("train.") || of("validation.")) ||
           of("train.stop_after") || of("train.check");
  });
  return changes;
}

void cut_metrics(const std::string& path, Index epochs) {
  if (!fs::exists(path)) return;
  const std::string text = read_text(path);
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;  // the last line is incomplete
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    const bool whole = line.is_object() && line.contains("epoch") && line["epoch"].is_number_integer();
    if (whole && line["epoch"].get<Index>() < epochs) kept += text.substr(at, end + 1 - at);
    at = end + 1;
  }
  if (kept != text) atomic_write(path, kept);
}

}  // namespace rossby
