#include "rossby/run/default_average.hpp"

#include <filesystem>

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
constexpr const char* linear_baseline = "direct_ridge";

enum class There { none, current, others };

/// Moves an average of an earlier state of the run away.
There make_room(const std::string& run, const std::string& directory) {
  if (!is_average(directory)) return There::none;
  const Average average = read_average(directory);
  const AverageMember& first = average.members.front();
  std::error_code code;
  if (average.members.size() != 2 || average.members.back().name != linear_baseline ||
      first.kind != AverageMember::Kind::run || !fs::equivalent(first.name, run, code))
    return There::others;
  if (hash_of({first.kind, run, ""}) == first.hash) return There::current;
  const fs::path target = fs::path(run) / "earlier_state" / "average";
  fs::remove_all(target, code);
  fs::create_directories(target.parent_path(), code);
  fs::rename(directory, target, code);
  if (code)
    user_error("{}: cannot move the average of the earlier state there: {}", target.string(), code.message());
  return There::none;
}

/// Returns the errors as text: means over all leads.
std::string errors_text(const std::string& directory) {
  const auto json = nlohmann::ordered_json::parse(read_text(average_file_of(directory)));
  const std::string units = json.at("data").at("units");
  double errors[3] = {0, 0, 0};
  for (const auto& horizon : json.at("horizons")) {
    const auto& rmse = horizon.at("validation_rmse");
    errors[0] += rmse.at("average").get<double>();
    for (std::size_t k = 0; k < 2; ++k) errors[k + 1] += rmse.at("members").at(k).get<double>();
  }
  for (double& error : errors) error /= static_cast<double>(json.at("horizons").size());
  if (units == "mixed") return "weights that are best in the validation part";
  return fmt::format("validation rmse {:.4g}{}; {:.4g} the run, {:.4g} {}", errors[0],
                     units == "1" ? "" : " " + units, errors[1], errors[2], linear_baseline);
}

}  // namespace

void average_with_baseline(const Communicator& comm, const std::string& run) {
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
    if (there == "none") {
      AverageOptions options;
      options.members = {run, linear_baseline};
      options.output = directory;
      options.weighting = "stacking";
      average(comm, options);
    }
    if (comm.rank() == 0)
      text = fmt::format("average   of the run and {}: {}\naverage   score it with: rossby evaluate {}\n",
                         linear_baseline, errors_text(directory), directory);
  } catch (const UserError& error) {  // on all ranks
    text = fmt::format("average   of the run and {}: not made: {}\n", linear_baseline, error.what());
  }
  if (comm.rank() == 0) fmt::print("{}", text);
}

}  // namespace rossby
