#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

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

/// Σ over this rank's values: order does not matter.
std::uint64_t values_hash(const Domain& domain, std::span<const Index> steps,
                          const std::function<const float*(Index)>& at) {
  std::uint64_t sum = 0;
  const Index m = domain.info.features;
  for (const Index t : steps) {
    const float* x = at(t);
    for (const GlobalRow node : domain.rows)
      for (Index f = 0; f < m; ++f) {
        const Index place = (t * domain.nodes() + node.value) * m + f;
        sum += mix(mix(static_cast<std::uint64_t>(place) + 1) + bits(*x++));
      }
  }
  return sum;
}

std::uint64_t edges_hash(const Communicator& comm, const Config& config, const Domain& domain) {
  const std::string& graph = config.text("relation.graph");
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

}  // namespace

std::string data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                      const Series& series) {
  std::vector<Index> steps(static_cast<std::size_t>(series.steps));
  std::iota(steps.begin(), steps.end(), Index{0});
  const Index width = series.rows * series.features;
  return data_hash(comm, config, domain, steps, [&](Index t) { return series.values.data() + t * width; });
}

std::string data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                      std::span<const Index> steps, const std::function<const float*(Index)>& at) {
  const Stage stage(comm, "reading edges", patience_with_files);
  std::uint64_t sum = values_hash(domain, steps, at) + edges_hash(comm, config, domain);
  {
    const Wait wait(comm, "a hash of the data (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, comm.handle());
  }
  TextHash header;
  header.add_format("{} {} {}; ", domain.info.steps, domain.nodes(), domain.info.features);
  header.add_list(domain.file_node);
  header.add("; ");
  header.add_list(domain.info.time.values());
  header.add("; ");
  header.add_list(domain.latitude);
  header.add("; ");
  header.add_list(domain.longitude);
  for (const SeriesVariable& variable : domain.info.variables) header.add_format("; {}", variable.name);
  return fmt::format("{:016x}", mix(sum) ^ header.value());
}

}  // namespace rossby
