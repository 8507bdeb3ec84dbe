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
                                                        : value + 0.0);  // one NaN, and no −0
}

/// Sums of hashes over this rank's values, in any order: for each training step, for the other steps, and for
/// values without steps.
struct Sums {
  std::vector<std::uint64_t> training;
  std::uint64_t other = 0, fixed = 0;
  std::vector<double> value, count;  // by training step
};

void add_values(std::span<const float> values, double& sum, double& count) {
  for (const float value : values)
    if (!std::isnan(value)) {
      sum += static_cast<double>(value);
      count += 1;
    }
}

Sums values_hash(const Domain& domain, std::span<const Index> steps, std::span<const Index> trained_on,
                 const std::function<const float*(Index)>& at) {
  Sums sums;
  sums.training.assign(trained_on.size(), 0);
  sums.value.assign(trained_on.size(), 0);
  sums.count.assign(trained_on.size(), 0);
  const Index m = domain.info.features;
  const InputVariables& inputs = domain.inputs;
  // Hash of an input or a static value, distinct from the hashes of forecast values.
  const auto further = [&](std::uint64_t kind, Index place, double value) {
    return mix(mix(mix(kind) + static_cast<std::uint64_t>(place) + 1) + bits(value));
  };
  for (const Index t : steps) {
    const auto found = std::lower_bound(trained_on.begin(), trained_on.end(), t);
    const bool trains = found != trained_on.end() && *found == t;
    const auto k = static_cast<std::size_t>(found - trained_on.begin());
    std::uint64_t& sum = trains ? sums.training[k] : sums.other;
    const float* x = at(t);
    if (trains)
      add_values(std::span(x, domain.rows.size() * static_cast<std::size_t>(m)), sums.value[k],
                 sums.count[k]);
    for (const GlobalRow node : domain.rows)
      for (Index f = 0; f < m; ++f) {
        const Index place = (t * domain.nodes() + node.value) * m + f;
        sum += mix(mix(static_cast<std::uint64_t>(place) + 1) + bits(*x++));
      }
    for (const bool known : {false, true})
      for (const GlobalRow node : domain.rows)
        for (Index f = 0, c = known ? inputs.known : inputs.past; f < c; ++f)
          sum += further(known ? 2 : 1, (t * domain.nodes() + node.value) * c + f, *x++);
    // Only once: among the ranks with these rows, by the one with the first training step.
    if (trained_on.empty() || t != trained_on.front()) continue;
    const double* fixed = domain.fixed.data();
    for (const GlobalRow node : domain.rows)
      for (Index f = 0; f < inputs.fixed; ++f)
        sums.fixed += further(3, node.value * inputs.fixed + f, *fixed++);
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

/// 16 hex digits from sums over values and edges, and from what every rank knows.
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
  Sums values = values_hash(domain, steps, trained_on, at);
  const std::uint64_t edges = edges_hash(comm, config, domain);
  std::uint64_t rest[] = {values.other, values.fixed + edges};
  const auto sum_over_ranks = [&](auto& sums, MPI_Datatype type) {
    MPI_Allreduce(MPI_IN_PLACE, std::data(sums), static_cast<int>(std::size(sums)), type, MPI_SUM,
                  comm.handle());
  };
  {
    const Wait wait(comm, "a hash of the data (allreduce)");
    sum_over_ranks(rest, MPI_UINT64_T);
    sum_over_ranks(values.training, MPI_UINT64_T);
    sum_over_ranks(values.value, MPI_DOUBLE);
    sum_over_ranks(values.count, MPI_DOUBLE);
  }
  const std::uint64_t trained = std::accumulate(values.training.begin(), values.training.end(), rest[1]);
  TextHash all;
  all.add_format("{} {} {}; ", domain.info.steps, domain.nodes(), domain.info.features);
  all.add_list(domain.file_node);
  all.add("; ");
  all.add_list(domain.info.time.values());
  add_nodes(all, domain);
  // A longer file may count time from another day, in other units.
  TextHash training, frame;
  for (TextHash* hash : {&training, &frame}) {
    hash->add_format("{} x {}, {}; ", domain.info.n_lat, domain.info.n_lon, domain.info.features);
    hash->add_list(domain.file_node);
    hash->add("; ");
  }
  const TimeAxis& time = domain.info.time;
  for (const Index t : trained_on)
    time.dated() ? training.add_format("{} ", std::llround(1e-3 * static_cast<double>(time.stamp(t))))
                 : training.add_format("{} ", time.values()[static_cast<std::size_t>(t)]);
  add_nodes(training, domain);
  add_nodes(frame, domain);
  return {text_of(trained + rest[0], all), text_of(trained, training),
          text_of(rest[1], frame),         {trained_on.begin(), trained_on.end()},
          std::move(values.training),      std::move(values.value),
          std::move(values.count)};
}

}  // namespace rossby
