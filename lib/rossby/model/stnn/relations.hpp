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

/// The relations of a model on one rank with their blocks, weights and parameters. After terms are added,
/// `finish` fixes the numbering of ghosts for all of them.
template <class T>
class Relations {
 public:
  Relations(const RowPartition& partition, int part) : partition_(&partition), part_(part) {}

  /// Adds sparse relations with given weights.
  void add_given(GlobalEdges edges);
  /// Adds sparse relations with learned weights clamp(M, 0, 1) on the pattern of `edges`; all M = start.
  void add_refine(GlobalEdges edges, double start, const std::string& name = "relation_weight");
  /// Adds one dense learned relation, clamp(M, 0, 1); all M = start.
  void add_discover(double start, const std::string& name = "discover_weight");
  /// Adds given or refined sparse relations in dense storage: all n columns are stored.
  void add_dense(const GlobalEdges& edges, bool refine, double start,
                 const std::string& name = "relation_weight");
  /// Holds dense learned relations added later, and their moments, in bf16 (T = float).
  void hold_dense_in_bf16() { bf16_ = true; }
  /// Gives discovered dense relations added later no memory, only addresses. A device must hold no memory
  /// either (SimulatedDriver::idle).
  void hold_dense_nowhere() { memory_ = Memory::nowhere; }
  /// Processes dense learned relations added later in chunks of about this many bytes of weights; 0: all at
  /// once. The chunks determine the order of sums.
  void work_in_chunks(Index bytes) { chunk_bytes_ = bytes; }
  /// Keeps dense relations added later, and their moments, in files below `folder`, or in the host's memory
  /// if there is a device. At most `budget` bytes of them are in this rank's (or its device's) memory at
  /// once. Each relation sets the other options.
  void stream_dense(ChunkStreamOptions options) { stream_ = std::move(options); }
  [[nodiscard]] bool streams() const { return stream_.has_value(); }
  /// Adds one low-rank relation U (Vᵀ z)/n with `rank` columns; the model's start sets its values.
  void add_low_rank(Index rank);
  /// Adds a self relation with one learned weight per node.
  void add_self(double start);

  /// True if a term needs all nodes (dense): the exchange must then gather all positions.
  [[nodiscard]] bool needs_all() const;

  /// Call before `finish`. Returns ghosts of the sparse terms, ascending positions. If `needs_all`, the
  /// sparse columns refer to all positions instead.
  [[nodiscard]] GhostList ghosts() const;

  /// Builds the local blocks for an exchange over these ghosts. `exchange` and `reducer` must outlive the
  /// bank.
  void finish(Exchange& exchange, Reducer& reducer);

  /// Sets the source of other time groups' factors for dense terms.
  void gather_over(GroupGather& groups) { bank_.groups = &groups; }

  /// Sets the library of dense products. The same on every rank.
  void set_dense_product(DenseProduct product) { bank_.dense_product = product; }

  [[nodiscard]] const RelationBank<T>& bank() const { return bank_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Parameter<T>>>& parameters() const { return parameters_; }
  [[nodiscard]] Parameter<T>* find(const std::string& name) const;
  /// Returns the entries behind a parameter of placement `entries`: its layout in checkpoints.
  [[nodiscard]] const GlobalEdges& edges(const Parameter<T>& parameter) const;
  /// Call after `finish`. Returns the relations with learned weights; they read the host's values.
  [[nodiscard]] std::vector<LearnedRelation> learned() const;
  /// Call after `finish`. Returns the number of non-zeros of all sparse terms on this rank.
  [[nodiscard]] Index entries() const;
  /// Returns the memory of the entries behind parameters, in bytes.
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
  std::vector<std::unique_ptr<GlobalEdges>> edges_;  // of sparse terms; after `finish` of learned ones
  std::vector<std::unique_ptr<CsrBlock>> blocks_;
  std::vector<std::unique_ptr<Parameter<T>>> parameters_;
};

}  // namespace rossby
