#pragma once

#include "rossby/run/train.hpp"

namespace rossby {

/// Trains twice (train.refit): first `config` as it is into <run>/chosen, whose validation part chooses the
/// number of epochs (and, with data.cycle = "auto", the cycle); then anew on training and validation part
/// together into <run>, for as many epochs at the rates of the first training. Either is gone on with if it
/// was paused. Throws UserError as train does, and if there is no validation part that could choose.
/// Collective.
Trained refit(const Communicator& comm, const Config& config, const TrainOptions& options);

}  // namespace rossby
