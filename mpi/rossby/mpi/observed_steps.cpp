#include "rossby/mpi/observed_steps.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {
namespace {

/// Returns how many steps all ranks can read at once.
Index steps_at_once(MpiReducer& reducer, Index width) {
  constexpr Index most = Index{1} << 20;  // values
  double fewest = -static_cast<double>(std::clamp<Index>(most / std::max<Index>(width, 1), 1, 4096));
  reducer.max(std::span<double>(&fewest, 1));
  return static_cast<Index>(-fewest);
}

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

Index last_observed_step(const Communicator& comm, const Config& config, const Domain& domain, Index last) {
  const Index width = static_cast<Index>(domain.rows.size()) * domain.info.features;
  MpiReducer reducer(comm);
  const Index limit = steps_at_once(reducer, width);
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

Index repeated_steps(const Communicator& comm, const Config& config, const Domain& domain, Index last) {
  const auto width = domain.rows.size() * static_cast<std::size_t>(domain.info.features);
  MpiReducer reducer(comm);
  const Index count = std::min(last + 1, steps_at_once(reducer, static_cast<Index>(width)));
  if (count < 1) return 0;
  std::vector<Index> steps(static_cast<std::size_t>(count));
  std::iota(steps.begin(), steps.end(), last + 1 - count);
  std::vector<float> values(steps.size() * width);
  read_steps(comm, config, domain, steps, values);
  std::vector<double> changes(steps.size());  // 1 if some value differs from that of the step before
  for (std::size_t k = width; k < values.size(); ++k)
    if (!same(values[k], values[k - width])) changes[k / width] = 1;
  reducer.max(std::span<double>(changes));
  Index run = 1, longest = 1;  // equal steps up to here; most of them before
  for (std::size_t t = 1; t < changes.size(); ++t) {
    if (changes[t] > 0) longest = std::max(longest, run);
    run = changes[t] > 0 ? 1 : run + 1;
  }
  return run >= 4 && run > 2 * longest && run < count ? run : 0;
}

std::string repetition_text(const TimeAxis& time, Index last, Index repeated) {
  return fmt::format("{} steps up to {} repeat the values of the step before them at every node",
                     repeated - 1, time.text(last));
}

}  // namespace rossby
