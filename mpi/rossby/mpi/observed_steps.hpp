#pragma once

#include <string>

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// The last step up to `last` at which any node of the run has a value; −1: none. Files may continue into the
/// future without values. Reads backwards from the end. Collective.
[[nodiscard]] Index last_observed_step(const Communicator& comm, const Config& config, const Domain& domain,
                                       Index last);

/// Returns how many steps up to `last` have the same values at every node, as in files that are padded with
/// the last step or with zeros. 0 if they are less than four, or no more than twice as many as ever among the
/// steps before that it looks at: rain is 0 everywhere for a while. 0 for constant series, too. Reads up to
/// 2^20 values a rank. Collective.
[[nodiscard]] Index repeated_steps(const Communicator& comm, const Config& config, const Domain& domain,
                                   Index last);
/// "59 steps up to 2010-01-17T15:00 repeat the values of the step before them at every node".
[[nodiscard]] std::string repetition_text(const TimeAxis& time, Index last, Index repeated);

}  // namespace rossby
