#include "rossby/mpi/observed_steps.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {

Index last_observed_step(const Communicator& comm, const Config& config, const Domain& domain, Index last) {
  constexpr Index most = Index{1} << 20;  // values at once
  const Index width = static_cast<Index>(domain.rows.size()) * domain.info.features;
  double longest = static_cast<double>(std::clamp<Index>(most / std::max<Index>(width, 1), 1, 4096));
  MpiReducer reducer(comm);
  double shortest = -longest;  // all ranks read the same steps
  reducer.max(std::span<double>(&shortest, 1));
  const auto limit = static_cast<Index>(-shortest);
  std::vector<float> values;
  for (Index block = 1; last >= 0; last -= block, block = std::min(2 * block, limit)) {
    block = std::min({block, limit, last + 1});
    std::vector<Index> steps(static_cast<std::size_t>(block));
    std::iota(steps.begin(), steps.end(), last - block + 1);
    values.assign(static_cast<std::size_t>(block * width), 0);
    read_steps(comm, config, domain, steps, values);
    double found = -1;
    for (std::size_t k = 0; k < values.size(); ++k)
      if (!std::isnan(values[k])) found = static_cast<double>(steps[k / static_cast<std::size_t>(width)]);
    reducer.max(std::span<double>(&found, 1));
    if (found >= 0) return static_cast<Index>(found);
  }
  return -1;
}

}  // namespace rossby
