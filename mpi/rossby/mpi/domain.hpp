#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

class RowCut;

/// Inputs of window models besides the variables that they forecast.
struct InputVariables {
  std::vector<SeriesVariable> variables;  // of data.inputs, then of data.known_inputs
  Index past = 0, known = 0;              // channels of both
  Index fixed = 0;                        // of data.static
  SeriesInfo series;                      // series of `variables`, without nodes; empty if there are none

  [[nodiscard]] Index channels() const { return past + known; }
};

/// The nodes of a run and their owners: everything about the data but its values. The same on every rank
/// except `rows` and `fixed`.
struct Domain {
  SeriesInfo info;   // of the variables that are forecast
  KnownFiles files;  // opened by this rank, closed until values are read
  InputVariables inputs;
  std::vector<Index> file_node;  // of each global row, ascending
  Grid grid;                     // of gridded files
  std::vector<double> latitude;  // degrees, of each global row; empty if the file has none
  std::vector<double> longitude;
  Split split;
  RowPartition partition;
  bool cut_graph = false;       // whether it was cut as a graph, into several parts
  std::vector<GlobalRow> rows;  // owned by this rank, in local order
  /// Subtracted from values before they become float32, (nodes, m) by global row; empty if nothing is
  /// (centers.hpp).
  std::vector<double> centers;
  std::string graph_remark;   // how its nodes were matched with those of relation.file, a line
  std::string center_remark;  // purpose of `centers`, a line per feature
  std::vector<double> fixed;  // data.static of the rows, (rows, inputs.fixed), original units
  RowCut* cut = nullptr;      // for pretended ranks: source of their relations (whole_graph.hpp)

  /// Forecast variables, then inputs.
  [[nodiscard]] std::vector<SeriesVariable> variables() const {
    std::vector<SeriesVariable> all = info.variables;
    all.insert(all.end(), inputs.variables.begin(), inputs.variables.end());
    return all;
  }
  /// The role of a variable in a model: empty, "input" or "input, known ahead".
  [[nodiscard]] std::string_view role(std::size_t variable) const;
  [[nodiscard]] Index nodes() const { return static_cast<Index>(file_node.size()); }
  /// Memory of the lists on this rank.
  [[nodiscard]] std::size_t bytes() const;
};

/// Opens data.file, picks the nodes (data.nodes), splits the time axis and cuts the nodes into row blocks
/// (parallel.partition). Every rank reads a share of the file to find the observed nodes. All ranks agree on
/// errors. Collective.
[[nodiscard]] Domain make_domain(const Communicator& comm, const Config& config);

/// Notes for the log on the data, one line each: columns of a grid that do not touch, counts of steps that
/// may have been meant as years.
[[nodiscard]] std::string data_remarks(const Config& config, const Domain& domain);

/// parallel.partition with "auto" resolved for this number of parts. Throws UserError for a kind that does
/// not work with a dense relation.
[[nodiscard]] std::string partition_kind(const Config& config, const Domain& domain, int parts);

/// Returns the row blocks for parallel.partition, `parts` of them; rows inside them keep the file's order.
/// Collective.
[[nodiscard]] RowPartition choose_partition(const Communicator& comm, const Config& config,
                                            const Domain& domain, int parts);

/// Reads the values of the rank's rows at all steps in use, original units less `centers`, float32, NaN if
/// missing. Each rank reads its own hyperslabs. Collective (all ranks agree on errors).
[[nodiscard]] Series read_series(const Communicator& comm, const Config& config, const Domain& domain);

/// The same for some steps (ascending): out is (steps, rows, features). Collective.
void read_steps(const Communicator& comm, const Config& config, const Domain& domain,
                std::span<const Index> steps, std::span<float> out);

/// Hashes of 16 hex digits that identify data: the values of nodes and steps, by global indices, before any
/// scaling; times, coordinates and names; edges of the file if relations come from them.
struct DataHash {
  std::string all;       // of all steps in use
  std::string training;  // only of those that a model was trained on: what it may be used with
  std::string frame;     // nodes, variables, centers, edges: all of `training` but the steps
  /// The steps that a model was trained on. For each: a hash of its values and inputs, and the sum and number
  /// of non-missing values of the forecast variables.
  std::vector<Index> steps;
  std::vector<std::uint64_t> step;
  std::vector<double> sum, count;
};
/// The same at every rank count. Collective.
[[nodiscard]] DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                                 const Series& series);
/// The same for some steps only, each on one of the ranks that own its rows. `at` returns a step's (rows,
/// features), followed by the domain's inputs. `trained_on` (ascending) holds the same steps on all ranks,
/// and each of them is on one rank.
[[nodiscard]] DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                                 std::span<const Index> steps, std::span<const Index> trained_on,
                                 const std::function<const float*(Index)>& at);

/// 16 hex digits that identify nodes and their order: coordinates and names. Empty if the file has neither.
[[nodiscard]] std::string node_hash(const Domain& domain);

/// The files that data.file names (series_names), as rank 0 sees them. Collective.
[[nodiscard]] std::vector<std::string> series_names(const Communicator& comm, const Config& config);

/// The configuration with these names as data.file, so that they are kept. Collective.
[[nodiscard]] Config with_series_names(const Communicator& comm, const Config& config);

/// Opens the series that data.* names, without its inputs. With several files each rank reads a share of the
/// headers. Throws UserError if the series cannot be opened or data.file is not set. Collective.
[[nodiscard]] SeriesFile open_series(const Communicator& comm, const Config& config);

/// The same for these variables; if there are none, for the only one that fits. Values equal to `null_value`
/// are missing.
[[nodiscard]] SeriesFile open_variables(const Communicator& comm, const Config& config,
                                        const std::vector<std::string>& variables,
                                        std::optional<double> null_value);

/// Opens the file with the edges for relation.graph = "edges": relation.file, or the first file of data.file
/// if relation.file is empty. Throws UserError if it has no edges, or another number of nodes. Nodes of
/// relation.file are matched by their ids (match_nodes), which `remark` then reports.
[[nodiscard]] GraphFile open_graph(const Config& config, const SeriesInfo& info,
                                   std::string* remark = nullptr);

/// The graph that relation.graph names, with self-loops if relation.self_loops is set, and unchanged weights:
/// this rank's rows under `partition`. Collective.
[[nodiscard]] GlobalEdges build_graph(const Communicator& comm, const Config& config, const Domain& domain,
                                      const RowPartition& partition);

/// Treatment of weights with a negative sum: division by it would reverse their signs.
enum class TurnedSigns { taken, refused };

/// The sparse relations of relation.*, this rank's rows under `partition`; none if relation.graph is none.
/// Throws UserError if `turned` refuses the effect of relation.normalise. Collective.
[[nodiscard]] GlobalEdges build_edges(const Communicator& comm, const Config& config, const Domain& domain,
                                      const RowPartition& partition, TurnedSigns turned = TurnedSigns::taken);

}  // namespace rossby
