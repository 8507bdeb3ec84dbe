#pragma once

#include <optional>
#include <string>

#include "rossby/data/split.hpp"
#include "rossby/run/train.hpp"

namespace rossby {

/// Trains twice (train.refit): first `config` as it is into <run>/chosen, whose validation part chooses the
/// number of epochs (and, with data.cycle = "auto", the cycle); then anew on training and validation part
/// together into <run>, for as many epochs at the rates of the first training. Either is gone on with if it
/// was paused. Throws UserError as train does, and if there is no validation part that could choose.
/// Collective.
Trained refit(const Communicator& comm, const Config& config, const TrainOptions& options);

/// The split by which the run, of this configuration and split, chose its epochs: the last steps of its
/// training part were the validation part. None if it was not refit, or its first training is gone.
/// Collective.
[[nodiscard]] std::optional<Split> split_before_refit(const Communicator& comm, const Config& config,
                                                      const Split& split, const std::string& run);

}  // namespace rossby
