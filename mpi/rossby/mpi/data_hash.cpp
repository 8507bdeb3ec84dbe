#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/core.h>

#include "rossby/base/error.hpp"
#include "rossby/base/text_hash.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/state_storage.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

using state::mix;

std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN()
                                                        : value + 0.0);  // one NaN, one zero
}

/// Σ over this rank's values of the steps that are trained on, and of the others: order does not matter.
struct Sums {
  std::uint64_t training = 0, other = 0;
};

Sums values_hash(const Domain& domain, std::span<const Index> steps, std::span<const Index> trained_on,
                 const std::function<const float*(Index)>& at) {
  Sums sums;
  const Index m = domain.info.features;
  const InputVariables& inputs = domain.inputs;
  // Of an input or a fixed value: numbered apart from the values that are forecast.
  const auto further = [&](std::uint64_t kind, Index place, double value) {
    return mix(mix(mix(kind) + static_cast<std::uint64_t>(place) + 1) + bits(value));
  };
  for (const Index t : steps) {
    const bool trains = std::binary_search(trained_on.begin(), trained_on.end(), t);
    std::uint64_t& sum = trains ? sums.training : sums.other;
    const float* x = at(t);
    for (const GlobalRow node : domain.rows)
      for (Index f = 0; f < m; ++f) {
        const Index place = (t * domain.nodes() + node.value) * m + f;
        sum += mix(mix(static_cast<std::uint64_t>(place) + 1) + bits(*x++));
      }
    for (const bool known : {false, true})
      for (const GlobalRow node : domain.rows)
        for (Index f = 0, c = known ? inputs.known : inputs.past; f < c; ++f)
          sum += further(known ? 2 : 1, (t * domain.nodes() + node.value) * c + f, *x++);
    // Once: by the one of the ranks with these rows that has the first step that is trained on.
    if (trained_on.empty() || t != trained_on.front()) continue;
    const double* fixed = domain.fixed.data();
    for (const GlobalRow node : domain.rows)
      for (Index f = 0; f < inputs.fixed; ++f) sum += further(3, node.value * inputs.fixed + f, *fixed++);
  }
  return sums;
}

std::uint64_t edges_hash(const Communicator& comm, const Config& config, const Domain& domain) {
  const std::string& graph = config.relation.graph;
  if (!domain.info.has_edges || (graph != "edges" && graph != "auto")) return 0;
  const RowPartition shares = RowPartition::blocks(domain.info.edges, comm.size());
  const Index first = shares.begin(comm.rank());
  const auto edges =
      agree(comm, [&] { return open_graph(config, domain.info).edges(first, shares.size(comm.rank())); });
  std::uint64_t sum = 0;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    std::uint64_t one = mix(static_cast<std::uint64_t>(first) + e + 1);
    one = mix(one + static_cast<std::uint64_t>(edges[e].source));
    one = mix(one + static_cast<std::uint64_t>(edges[e].destination));
    sum += mix(one + bits(edges[e].weight));
  }
  return sum;
}

/// 16 hex digits of sums over values and edges, and of all that every rank knows.
std::string text_of(std::uint64_t sum, const TextHash& header) {
  return fmt::format("{:016x}", mix(sum) ^ header.value());
}

void add_nodes(TextHash& header, const Domain& domain) {
  header.add("; ");
  header.add_list(domain.latitude);
  header.add("; ");
  header.add_list(domain.longitude);
  for (const SeriesVariable& variable : domain.variables()) header.add_format("; {}", variable.name);
  if (domain.centers.empty()) return;
  header.add("; less ");
  header.add_list(domain.centers);
}

}  // namespace

std::string node_hash(const Domain& domain) {
  const std::vector<std::string>& labels = domain.info.node_labels;
  if (domain.latitude.empty() && labels.empty()) return "";
  TextHash hash;
  hash.add_list(domain.latitude);
  hash.add("; ");
  hash.add_list(domain.longitude);
  for (const Index node : domain.file_node)
    if (!labels.empty()) hash.add_format("; {}", labels[static_cast<std::size_t>(node)]);
  return fmt::format("{:016x}", hash.value());
}

DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                   const Series& series) {
  std::vector<Index> steps(static_cast<std::size_t>(series.steps));
  std::iota(steps.begin(), steps.end(), Index{0});
  const Index width = series.rows * series.features;
  return data_hash(comm, config, domain, steps, domain.split.training_steps(),
                   [&](Index t) { return series.values.data() + t * width; });
}

DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                   std::span<const Index> steps, std::span<const Index> trained_on,
                   const std::function<const float*(Index)>& at) {
  const Stage stage(comm, "reading edges", patience_with_files);
  const Sums values = values_hash(domain, steps, trained_on, at);
  const std::uint64_t edges = edges_hash(comm, config, domain);
  std::uint64_t sums[] = {values.training + values.other + edges, values.training + edges};
  {
    const Wait wait(comm, "a hash of the data (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, comm.handle());
  }
  TextHash all;
  all.add_format("{} {} {}; ", domain.info.steps, domain.nodes(), domain.info.features);
  all.add_list(domain.file_node);
  all.add("; ");
  all.add_list(domain.info.time.values());
  add_nodes(all, domain);
  // A longer file may count its time from another day, in other units.
  TextHash training;
  training.add_format("{} x {}, {}; ", domain.info.n_lat, domain.info.n_lon, domain.info.features);
  training.add_list(domain.file_node);
  training.add("; ");
  const TimeAxis& time = domain.info.time;
  for (const Index t : trained_on)
    time.dated() ? training.add_format("{} ", std::llround(1e-3 * static_cast<double>(time.stamp(t))))
                 : training.add_format("{} ", time.values()[static_cast<std::size_t>(t)]);
  add_nodes(training, domain);
  return {text_of(sums[0], all), text_of(sums[1], training)};
}

}  // namespace rossby
