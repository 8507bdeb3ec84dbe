#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/index.hpp"

namespace rossby {

/// Who takes part in an average.
struct AverageMember {
  enum class Kind { run, baseline, file };
  Kind kind = Kind::run;
  std::string name;  // path of a run directory or of a file of forecasts, or name of a baseline
  std::string hash;  // of the run's state or the file's bytes; empty: a baseline
};

/// An average of forecasters, as <directory>/average.json has it.
struct Average {
  std::string weighting;                     // "equal", "validation" or "stacking"
  std::vector<AverageMember> members;        // two or more, paths as this process finds them
  std::vector<std::vector<double>> weights;  // of each horizon, one a member: none negative, their sum 1

  [[nodiscard]] Index horizons() const { return static_cast<Index>(weights.size()); }
};

[[nodiscard]] std::string average_file_of(const std::string& directory);

/// Whether a directory holds an average.
[[nodiscard]] bool is_average(const std::string& directory);

/// Throws UserError naming the file if it is not what write_average writes.
[[nodiscard]] Average read_average(const std::string& directory);

/// The members as average.json names them: paths relative to `directory`, so that both can be moved together.
[[nodiscard]] nlohmann::ordered_json members_json(const std::vector<AverageMember>& members,
                                                  const std::string& directory);

/// What changes if a run is trained again or a file is written again, 16 hex digits; empty: of a baseline.
[[nodiscard]] std::string hash_of(const AverageMember& member);

/// The member that a word of the command line names: a baseline, or else a directory or file. Throws
/// UserError if it is none.
[[nodiscard]] AverageMember member_named(const std::string& word);

}  // namespace rossby
