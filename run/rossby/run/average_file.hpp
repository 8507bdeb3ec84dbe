#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/index.hpp"

namespace rossby {

/// A member of an average.
struct AverageMember {
  enum class Kind { run, baseline, file };
  Kind kind = Kind::run;
  std::string name;  // path of a run directory or of a file of forecasts, or name of a baseline
  std::string hash;  // of the run's state or the file's bytes; empty for a baseline
};

/// An average of forecasters, as <directory>/average.json holds it.
struct Average {
  std::string weighting;                     // "equal", "validation" or "stacking"
  std::vector<AverageMember> members;        // two or more; paths are resolved for this process
  std::vector<std::vector<double>> weights;  // [horizon][member]: none negative, sum 1 at each horizon

  [[nodiscard]] Index horizons() const { return static_cast<Index>(weights.size()); }
};

[[nodiscard]] std::string average_file_of(const std::string& directory);

/// True if a directory holds an average.
[[nodiscard]] bool is_average(const std::string& directory);

/// Reads average.json. Throws UserError naming the file if it holds no valid average.
[[nodiscard]] Average read_average(const std::string& directory);

/// Returns the members as JSON. Paths are relative to `directory`, so that both can be moved together.
[[nodiscard]] nlohmann::ordered_json members_json(const std::vector<AverageMember>& members,
                                                  const std::string& directory);

/// Returns 16 hex digits that change if a run is trained or a file is written again; empty for a baseline.
[[nodiscard]] std::string hash_of(const AverageMember& member);

/// Returns the member that a word of the command line names: a baseline, or else a directory or file. Throws
/// UserError if it names none of these.
[[nodiscard]] AverageMember member_named(const std::string& word);

}  // namespace rossby
