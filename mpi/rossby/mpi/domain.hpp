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

/// What models of windows read beside the variables that they forecast.
struct InputVariables {
  std::vector<SeriesVariable> variables;  // of data.inputs, then of data.known_inputs
  Index past = 0, known = 0;              // channels of both
  Index fixed = 0;                        // of data.static
  SeriesInfo series;                      // of `variables`, without nodes; of none if there are none

  [[nodiscard]] Index channels() const { return past + known; }
};

/// The nodes of a run and who owns them: everything about the data but its values. The same on every rank
/// except `rows` and `fixed`.
struct Domain {
  SeriesInfo info;   // of the variables that are forecast
  KnownFiles files;  // that this rank has opened, closed until values are read
  InputVariables inputs;
  std::vector<Index> file_node;  // of each global row, ascending
  Grid grid;                     // of gridded files
  std::vector<double> latitude;  // degrees, of each global row; empty where the file has none
  std::vector<double> longitude;
  Split split;
  RowPartition partition;
  bool cut_graph = false;       // whether it was cut as a graph, into several parts
  std::vector<GlobalRow> rows;  // owned by this rank, in local order
  /// Subtracted from values before they become float32, (nodes, m) by global row; empty: nothing
  /// (centers.hpp).
  std::vector<double> centers;
  std::string graph_remark;   // how its nodes were matched with those of relation.file, a line
  std::string center_remark;  // what `centers` are for, a line a feature
  std::vector<double> fixed;  // data.static of the rows, (rows, inputs.fixed), original units
  RowCut* cut = nullptr;      // of pretended ranks: where their relations come from (whole_graph.hpp)

  /// Variables that are forecast, then inputs.
  [[nodiscard]] std::vector<SeriesVariable> variables() const {
    std::vector<SeriesVariable> all = info.variables;
    all.insert(all.end(), inputs.variables.begin(), inputs.variables.end());
    return all;
  }
  /// What the variable of that number is to a model: empty, "input" or "input, known ahead".
  [[nodiscard]] std::string_view role(std::size_t variable) const;
  [[nodiscard]] Index nodes() const { return static_cast<Index>(file_node.size()); }
  /// Memory of its lists on this rank.
  [[nodiscard]] std::size_t bytes() const;
};

/// Opens data.file, picks the nodes (data.nodes), splits the time axis and cuts the nodes into row blocks
/// (parallel.partition). Every rank reads a share of the file to find the observed nodes. Errors are agreed
/// on by all ranks. Collective.
[[nodiscard]] Domain make_domain(const Communicator& comm, const Config& config);

/// What a reader of the log should know of how the data were taken, a line each: columns of a grid that do
/// not touch, counts of steps that may have been meant as years.
[[nodiscard]] std::string data_remarks(const Config& config, const Domain& domain);

/// parallel.partition with "auto" resolved for so many parts. Throws UserError for what does not go with a
/// dense relation.
[[nodiscard]] std::string partition_kind(const Config& config, const Domain& domain, int parts);

/// The row blocks that parallel.partition asks for, `parts` of them; rows inside them in the file's order.
/// Collective.
[[nodiscard]] RowPartition choose_partition(const Communicator& comm, const Config& config,
                                            const Domain& domain, int parts);

/// The values of the rank's rows at all steps in use, original units less `centers`, float32, NaN where
/// missing. Each rank reads its own hyperslabs. Collective (errors are agreed on).
[[nodiscard]] Series read_series(const Communicator& comm, const Config& config, const Domain& domain);

/// The same for some steps (ascending): out is (steps, rows, features). Collective.
void read_steps(const Communicator& comm, const Config& config, const Domain& domain,
                std::span<const Index> steps, std::span<float> out);

/// 16 hex digits each that tell data from other data: the values of nodes and steps, by global indices,
/// before any scaling; times, coordinates and names; edges of the file where relations come from them.
struct DataHash {
  std::string all;       // of all steps in use
  std::string training;  // of those alone that a model was trained on: what it may be used with
  std::string frame;     // of nodes, variables, centers and edges: what `training` names beside steps
  /// The steps that a model was trained on, and of each of them: what its values and inputs are, and the sum
  /// and number of those that are not missing of what is forecast.
  std::vector<Index> steps;
  std::vector<std::uint64_t> step;
  std::vector<double> sum, count;
};
/// The same at every rank count. Collective.
[[nodiscard]] DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                                 const Series& series);
/// Of some steps alone, each of them on one of the ranks that own its rows: `at` gives a step's (rows,
/// features), and behind these the domain's inputs. `trained_on` (ascending) are the same steps on all ranks,
/// and each is among those of one.
[[nodiscard]] DataHash data_hash(const Communicator& comm, const Config& config, const Domain& domain,
                                 std::span<const Index> steps, std::span<const Index> trained_on,
                                 const std::function<const float*(Index)>& at);

/// 16 hex digits that tell nodes, and their order, from others: coordinates and names. Empty if the file has
/// neither.
[[nodiscard]] std::string node_hash(const Domain& domain);

/// The files that data.file names (series_names), as rank 0 sees them. Collective.
[[nodiscard]] std::vector<std::string> series_names(const Communicator& comm, const Config& config);

/// The configuration with these names as data.file, so that they are kept. Collective.
[[nodiscard]] Config with_series_names(const Communicator& comm, const Config& config);

/// The series that data.* names, without its inputs. Of several files each rank reads the headers of a share.
/// Throws UserError where it cannot be opened, or data.file is not set. Collective.
[[nodiscard]] SeriesFile open_series(const Communicator& comm, const Config& config);

/// The same of these variables; of none, the only one that fits. Values that equal `null_value` are missing.
[[nodiscard]] SeriesFile open_variables(const Communicator& comm, const Config& config,
                                        const std::vector<std::string>& variables,
                                        std::optional<double> null_value);

/// Opens the file with the edges for relation.graph = "edges": relation.file, or the first file of data.file
/// if relation.file is empty. Throws UserError if it has no edges, or another number of nodes. Nodes of
/// relation.file are matched by their ids (match_nodes), which `remark` then reports.
[[nodiscard]] GraphFile open_graph(const Config& config, const SeriesInfo& info,
                                   std::string* remark = nullptr);

/// The graph that relation.graph names, with self-loops where relation.self_loops asks for them and weights
/// as they are: this rank's rows under `partition`. Collective.
[[nodiscard]] GlobalEdges build_graph(const Communicator& comm, const Config& config, const Domain& domain,
                                      const RowPartition& partition);

/// What becomes of weights whose sum is negative, so that dividing by it turns their signs around.
enum class TurnedSigns { taken, refused };

/// The sparse relations that relation.* asks for, this rank's rows under `partition`; no relations where
/// relation.graph is none. Throws UserError where `turned` refuses what relation.normalise would do.
/// Collective.
[[nodiscard]] GlobalEdges build_edges(const Communicator& comm, const Config& config, const Domain& domain,
                                      const RowPartition& partition, TurnedSigns turned = TurnedSigns::taken);

}  // namespace rossby
