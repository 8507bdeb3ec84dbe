#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rossby/autograd/relation_bank.hpp"
#include "rossby/model/learned_relations.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// The relations of a model on one rank with everything they own: blocks, weights, parameters. Terms are
/// added, then `finish` fixes the numbering of ghosts for all of them together.
template <class T>
class Relations {
 public:
  Relations(const RowPartition& partition, int part) : partition_(&partition), part_(part) {}

  /// Sparse relations with given weights.
  void add_given(GlobalEdges edges);
  /// Sparse relations whose weights on the pattern of `edges` are learned: clamp(M, 0, 1), all M = start.
  void add_refine(GlobalEdges edges, double start, const std::string& name = "relation_weight");
  /// One dense learned relation, clamp(M, 0, 1), all M = start.
  void add_discover(double start, const std::string& name = "discover_weight");
  /// Dense storage of given or refined sparse relations: all n columns are stored.
  void add_dense(const GlobalEdges& edges, bool refine, double start,
                 const std::string& name = "relation_weight");
  /// Dense learned relations that are added after this, and their moments, are held in bf16 (T = float).
  void hold_dense_in_bf16() { bf16_ = true; }
  /// Discovered dense relations that are added after this have addresses alone: they are for a device that
  /// only has those (SimulatedDriver::idle).
  void hold_dense_nowhere() { memory_ = Memory::nowhere; }
  /// Dense learned relations that are added after this are worked on by chunks of about so many bytes of
  /// weights; 0: all at once. Chunks fix the order of sums.
  void work_in_chunks(Index bytes) { chunk_bytes_ = bytes; }
  /// Those added after this, and their moments, lie in files below `folder`, or in the host's memory with a
  /// device before it; at most `budget` bytes of them are in this rank's memory, or its device's, at once.
  /// The other options come with each relation.
  void stream_dense(ChunkStreamOptions options) { stream_ = std::move(options); }
  [[nodiscard]] bool streams() const { return stream_.has_value(); }
  /// One low-rank relation U (Vᵀ z)/n with `rank` columns; values are set by the model's start.
  void add_low_rank(Index rank);
  /// A self relation with one learned weight a node.
  void add_self(double start);

  /// True where a term needs all nodes (dense): the exchange must then gather all positions.
  [[nodiscard]] bool needs_all() const;

  /// Before `finish`: ghosts of the sparse terms, ascending positions; with `needs_all` the sparse columns
  /// refer to all positions instead.
  [[nodiscard]] GhostList ghosts() const;

  /// Builds the local blocks for an exchange over those ghosts. `exchange` and `reducer` must outlive the
  /// bank.
  void finish(Exchange& exchange, Reducer& reducer);

  /// Where dense terms get the factors of other time groups from.
  void gather_over(GroupGather& groups) { bank_.groups = &groups; }

  /// Whose products dense terms use. The same on every rank.
  void set_dense_product(DenseProduct product) { bank_.dense_product = product; }

  [[nodiscard]] const RelationBank<T>& bank() const { return bank_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter<T>>>& parameters() const { return parameters_; }
  [[nodiscard]] Parameter<T>* find(const std::string& name) const;
  /// The entries behind a parameter of placement `entries`: its place in checkpoints.
  [[nodiscard]] const GlobalEdges& edges(const Parameter<T>& parameter) const;
  /// After `finish`: those with learned weights. They read the host's values.
  [[nodiscard]] std::vector<LearnedRelation> learned() const;
  /// After `finish`: non-zeros of all sparse terms on this rank.
  [[nodiscard]] Index entries() const;
  /// Memory of the entries behind parameters.
  [[nodiscard]] std::size_t list_bytes() const;

 private:
  Parameter<T>* make(const std::string& name, Placement placement, std::vector<Index> shape, double start,
                     bool fusable = false, bool narrow = false, std::unique_ptr<ChunkStream> stream = nullptr,
                     Memory memory = Memory::host);

  const RowPartition* partition_;
  int part_;
  bool bf16_ = false;
  Memory memory_ = Memory::host;
  Index chunk_bytes_ = 0;
  std::optional<ChunkStreamOptions> stream_;
  RelationBank<T> bank_;
  std::vector<std::unique_ptr<GlobalEdges>> edges_;  // of each sparse term; after `finish` of learned ones
  std::vector<std::unique_ptr<CsrBlock>> blocks_;
  std::vector<std::unique_ptr<Parameter<T>>> parameters_;
};

}  // namespace rossby
