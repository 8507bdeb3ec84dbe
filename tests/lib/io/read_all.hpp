#pragma once

#include <numeric>
#include <vector>

#include "rossby/io/series_file.hpp"

namespace rossby::testing_support {

/// All values of a file, (steps, nodes, features).
inline std::vector<float> read_all(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  std::vector<Index> nodes(static_cast<std::size_t>(info.file_nodes));
  std::iota(nodes.begin(), nodes.end(), Index{0});
  std::vector<float> values(static_cast<std::size_t>(info.steps * info.file_nodes * info.features));
  file.read(nodes, values.data());
  return values;
}

}  // namespace rossby::testing_support
