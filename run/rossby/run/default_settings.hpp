#pragma once

#include <string>
#include <vector>

#include "rossby/io/series_file.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// True if a user names a series (NetCDF, a Zarr store, a pattern, or a list of files) instead of a
/// configuration. False if the name ends with .toml.
[[nodiscard]] bool names_series(const std::string& argument);

/// Returns settings ("key=value") for a series of which only the file is known. Windows suit its time step.
/// Training, validation and test take 70, 10 and 20 % of the steps. The model is one of nodes and times
/// (stid) on anomalies from a cycle. Throws UserError if the series is too short.
[[nodiscard]] std::vector<std::string> default_settings(const SeriesInfo& info);

/// Returns the same for the series that `sets` name with data.file. Other keys data.* in `sets` say how to
/// read it. Throws UserError if `checks_length` and the series is too short. Collective.
[[nodiscard]] std::vector<std::string> settings_suiting(const Communicator& comm,
                                                        const std::vector<std::string>& sets,
                                                        bool checks_length = true);

}  // namespace rossby
