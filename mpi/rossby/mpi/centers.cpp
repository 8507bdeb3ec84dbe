#include "rossby/mpi/centers.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "rossby/io/float_loss.hpp"
#include "rossby/io/suspect_values.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {
namespace {

const SeriesVariable& variable_of(const Domain& domain, Index feature) {
  const SeriesVariable* variable = &domain.info.variables.front();
  Index first = 0;
  for (const SeriesVariable& v : domain.info.variables) {
    if (feature >= first) variable = &v;
    first += v.features;
  }
  return *variable;
}

std::string line_about(const Domain& domain, Index feature, double level, double spread, double spacing) {
  const SeriesVariable* variable = &variable_of(domain, feature);
  const std::string unit = variable->units.empty() ? "" : " " + variable->units;
  return fmt::format(
      "remark    {}: values of {:.3g}{} have a spread of {:.2g}{}, and float32 keeps such values only to "
      "{:.2g}. So the first value of each node is subtracted in double, and added to forecasts. Relative "
      "errors (MAPE) are not given\n",
      variable->name, level, unit, spread, unit, spacing);
}

}  // namespace

std::vector<double> find_centers(const Communicator& comm, const SeriesFile& file, const Domain& domain,
                                 std::string& remark) {
  if (!file.finer_than_float()) return {};
  const auto m = static_cast<std::size_t>(domain.info.features);
  const RowPartition shares = RowPartition::blocks(domain.nodes(), comm.size());
  const auto begin = static_cast<std::size_t>(shares.begin(comm.rank())),
             count = static_cast<std::size_t>(shares.size(comm.rank()));
  const std::span<const Index> nodes = std::span(domain.file_node).subspan(begin, count);
  const StepRange& training = domain.split.train;
  FloatLoss loss = agree(comm, [&] { return float_loss(file, nodes, training.first, training.last); });
  std::vector<double> counts(loss.varying);
  counts.insert(counts.end(), loss.lost.begin(), loss.lost.end());
  MpiReducer reducer(comm);
  reducer.sum(std::span<double>(counts));
  if (std::none_of(counts.begin() + static_cast<std::ptrdiff_t>(m), counts.end(),
                   [](double x) { return x > 0; }))
    return {};
  std::vector<char> wanted(m, 0);
  for (std::size_t f = 0; f < m; ++f) wanted[f] = needs_center(counts[f], counts[m + f]) ? 1 : 0;
  if (std::count(wanted.begin(), wanted.end(), 1) == 0) return {};
  agree(comm, [&] { complete_first(file, nodes, loss.first); });
  std::vector<double> centers(static_cast<std::size_t>(domain.nodes()) * m, 0.0);
  for (std::size_t k = 0; k < loss.first.size(); ++k)
    if (wanted[k % m]) centers[begin * m + k] = loss.first[k];
  reducer.sum(std::span<double>(centers));  // exact: each value comes from one rank
  for (std::size_t f = 0; f < m; ++f) {
    double worst[] = {loss.level[f], loss.spread[f] > 0 ? -loss.spread[f] : -1e300, loss.spacing[f]};
    reducer.max(worst);
    if (!wanted[f]) continue;
    const SeriesVariable& variable = variable_of(domain, static_cast<Index>(f));
    require_float_range(fmt::format("{}: variable {}", domain.info.path, variable.name), variable.units,
                        -worst[1]);
    remark += line_about(domain, static_cast<Index>(f), worst[0], -worst[1], worst[2]);
  }
  return centers;
}

std::vector<double> centers_of_rows(const Domain& domain) {
  std::vector<double> mine;
  if (domain.centers.empty()) return mine;
  const auto m = static_cast<std::size_t>(domain.info.features);
  for (const GlobalRow row : domain.rows) {
    const auto at =
        domain.centers.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row.value) * m);
    mine.insert(mine.end(), at, at + static_cast<std::ptrdiff_t>(m));
  }
  return mine;
}

}  // namespace rossby
