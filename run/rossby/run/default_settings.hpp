#pragma once

#include <string>
#include <vector>

#include "rossby/io/series_file.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Whether what a user names is a series (NetCDF, a Zarr store, a pattern, or a list of files) instead of a
/// configuration. A name that ends with .toml is none.
[[nodiscard]] bool names_series(const std::string& argument);

/// Settings ("key=value") for a series of which nothing but the file is known: windows that suit its time
/// step, 70, 10 and 20 % of the steps for training, validation and test, and a model of nodes and times
/// (stid) on anomalies from a cycle. Throws UserError if it is too short for them.
[[nodiscard]] std::vector<std::string> default_settings(const SeriesInfo& info);

/// The same of the series that `sets` name with data.file; of them keys of data.* tell how it is read. A
/// series that is too short throws UserError if `checks_length`. Collective.
[[nodiscard]] std::vector<std::string> settings_suiting(const Communicator& comm,
                                                        const std::vector<std::string>& sets,
                                                        bool checks_length = true);

}  // namespace rossby
