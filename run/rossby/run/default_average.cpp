#include "rossby/run/default_average.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/average.hpp"
#include "rossby/run/average_file.hpp"

namespace rossby {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// The first one is the best of them on most data. On data near to a random walk, or that change after the
/// training part, the others are.
const Names baselines = {"direct_ridge", "direct_ar", "cycle", "persistence"};
const Names few_baselines = {"direct_ridge"};

/// Weights of all members need that many windows of the validation part that do not overlap. From fewer, the
/// weights fit to chance.
constexpr Index fewest_windows = 5;

/// True if an average has the run and these baselines as members.
bool has_members(const Average& average, const std::string& run, const Names& names) {
  const AverageMember& first = average.members.front();
  std::error_code code;
  return first.kind == AverageMember::Kind::run && fs::equivalent(first.name, run, code) &&
         std::equal(average.members.begin() + 1, average.members.end(), names.begin(), names.end(),
                    [](const AverageMember& member, const std::string& name) { return member.name == name; });
}

enum class There { none, current, others };

/// Moves an average of an earlier state of the run away.
There make_room(const std::string& run, const std::string& directory) {
  if (!is_average(directory)) return There::none;
  const Average average = read_average(directory);
  if (!has_members(average, run, baselines) && !has_members(average, run, few_baselines))
    return There::others;
  const AverageMember& first = average.members.front();
  if (hash_of({first.kind, run, ""}) == first.hash) return There::current;
  std::error_code code;
  const fs::path target = fs::path(run) / "earlier_state" / "average";
  fs::remove_all(target, code);
  fs::create_directories(target.parent_path(), code);
  fs::rename(directory, target, code);
  if (code)
    user_error(
        "{}: cannot move the average of the earlier state to this path: {}. Check the permissions of "
        "the run directory",
        target.string(), code.message());
  return There::none;
}

nlohmann::ordered_json json_of(const std::string& directory) {
  return nlohmann::ordered_json::parse(read_text(average_file_of(directory)));
}

/// Returns the members, and errors as text: means over all leads.
std::string errors_text(const std::string& directory) {
  const auto json = json_of(directory);
  const std::vector<AverageMember> members = read_average(directory).members;
  const auto mean = [&](const auto& of) {
    double sum = 0;
    for (const auto& horizon : json.at("horizons")) sum += of(horizon.at("validation_rmse"));
    return sum / static_cast<double>(json.at("horizons").size());
  };
  const auto name_of = [&](std::size_t k) { return k == 0 ? std::string("the run") : members[k].name; };
  std::string names, errors;
  for (std::size_t k = 0; k < members.size(); ++k) {
    names += (k == 0 ? "" : k + 1 == members.size() ? " and " : ", ") + name_of(k);
    errors += fmt::format(
        "{}{:.4g} {}", k == 0 ? "" : ", ",
        mean([&](const auto& rmse) { return rmse.at("members").at(k).template get<double>(); }), name_of(k));
  }
  const std::string units = json.at("data").at("units");
  if (units == "mixed") return fmt::format("of {}: weights that are best in the validation part", names);
  return fmt::format("of {}: validation rmse {:.4g}{}; {}", names,
                     mean([](const auto& rmse) { return rmse.at("average").template get<double>(); }),
                     units == "1" ? "" : " " + units, errors);
}

void make_average(const Communicator& comm, const std::string& run, const std::string& directory,
                  const Names& names) {
  AverageOptions options;
  options.members = {run};
  options.members.insert(options.members.end(), names.begin(), names.end());
  options.output = directory;
  options.weighting = "stacking";
  average(comm, options);
}

/// Returns false, without an average, if a baseline cannot be had or windows are few.
bool make_large_average(const Communicator& comm, const std::string& run, const std::string& directory) {
  try {
    make_average(comm, run, directory, baselines);
  } catch (const UserError&) {  // on all ranks
    return false;
  }
  const std::string kept = broadcast(comm, agree(comm, [&]() -> std::string {
                                       if (comm.rank() != 0) return "";
                                       const auto json = json_of(directory);
                                       const Index origins = json.at("data").at("origins");
                                       const Index leads = std::ssize(json.at("horizons"));
                                       if (origins >= fewest_windows * leads) return "yes";
                                       std::error_code code;
                                       fs::remove_all(directory, code);
                                       return "no";
                                     }));
  return kept == "yes";
}

}  // namespace

void average_with_baselines(const Communicator& comm, const std::string& run) {
  const std::string directory = run + "/average";
  std::string text;
  try {
    // Rank 0 alone looks at the file.
    const std::string there =
        broadcast(comm, agree(comm, [&]() -> std::string {
                    if (comm.rank() != 0) return "";
                    const There found = make_room(run, directory);
                    return found == There::others ? "others" : found == There::current ? "current" : "none";
                  }));
    if (there == "others") return;
    if (there == "none" && !make_large_average(comm, run, directory))
      make_average(comm, run, directory, few_baselines);
    if (comm.rank() == 0)
      text = fmt::format("average   {}\naverage   score this average with: rossby evaluate {}\n",
                         errors_text(directory), directory);
  } catch (const UserError& error) {  // on all ranks
    text =
        fmt::format("average   the average of the run and baselines could not be made: {}\n", error.what());
  }
  if (comm.rank() == 0) fmt::print("{}", text);
}

}  // namespace rossby
