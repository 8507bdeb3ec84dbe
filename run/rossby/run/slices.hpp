#pragma once

#include <span>
#include <string>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/verification.hpp"

namespace rossby {

/// Returns the subsets and weights that evaluate is asked for, for this rank's rows. Throws UserError naming
/// the option.
///
/// * `weights`: "area" (cosine of the latitude), or a variable of the data with a number for each node;
///   empty: none.
/// * `by`: "season", "month" or "hour" of the time that is forecast; empty: none.
/// * `regions`: "NAME=lat_min,lat_max,lon_min,lon_max" in degrees, longitudes of −180…180 or 0…360, or
///   "NAME=VARIABLE": nodes at which a variable of the data is neither 0 nor missing.
[[nodiscard]] Slices make_slices(const Domain& domain, const std::string& weights, const std::string& by,
                                 std::span<const std::string> regions);

/// Throws UserError naming a region that has no node on any rank, or weights that are all 0. Collective.
void expect_nodes(const Communicator& comm, const Slices& slices);

}  // namespace rossby
