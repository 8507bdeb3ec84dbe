#pragma once

#include <optional>
#include <string>

#include "rossby/data/split.hpp"
#include "rossby/run/train.hpp"

namespace rossby {

/// Trains twice (train.refit). The first training, `config` unchanged, goes to <run>/chosen. Its validation
/// part chooses the number of epochs and, with data.cycle = "auto", the cycle. The second training, in <run>,
/// uses training and validation parts together, for as many epochs at the learning rates of the first. A
/// paused training resumes. Throws UserError as train does, and if no validation part can choose. Collective.
Trained refit(const Communicator& comm, const Config& config, const TrainOptions& options);

/// Returns the split by which the run of this configuration and split chose its epochs: the last steps of its
/// training part were the validation part. Returns none if the run was not refit, or its first training is
/// gone. Collective.
[[nodiscard]] std::optional<Split> split_before_refit(const Communicator& comm, const Config& config,
                                                      const Split& split, const std::string& run);

}  // namespace rossby
