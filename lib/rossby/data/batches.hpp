#pragma once

#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/base/random.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// The losses that a batch is for.
enum class Pass {
  decoder,   // reconstruction of x at the batch's steps or pairs
  dynamics,  // prediction of z at t from t − 1
  joint      // both, for the same steps
};

/// The work of one optimiser step: a slab (all nodes of some steps), or pairs (time, node). A rank holds the
/// pairs whose node and step it owns. Counts are global, because means run over the whole batch.
struct Batch {
  Pass pass = Pass::decoder;
  bool pairs = false;
  Index steps = 0;                     // slab: its steps in all time groups
  std::vector<Index> times;            // slab: this group's steps t; pairs: t of each pair on this rank
  std::vector<Index> rows;             // pairs: their local rows
  std::vector<Index> predicted_times;  // joint: steps whose predecessor is a training step
  double observed = 0;                 // decoder: observed entries (node, step, feature) of the batch
  double targets = 0;                  // dynamics: (node, step) pairs of the batch
  double walks = 0;                    // pairs: network passes that every rank makes to draw all pairs
  bool borrows = false;  // dynamics, joint: the first predicted step's predecessor is in the previous group
  bool lends = false;    // the next group predicts its first step from this group's last
};

struct BatchOptions {
  bool pairs = false;
  Index pairs_per_batch = 1000;
  Index slab_steps = 8;  // 0: all steps in one slab
  bool joint = false;    // slabs only: both losses in one step
  std::uint64_t seed = 1;
  Index lanes = 1;  // slabs only: contiguous parts of training, equally sampled
  int groups = 1;   // time groups, with equally many lanes each
  int group = 0;
};

/// The steps whose latents each group holds: together [0, last training step]. Throws UserError with the key
/// if steps, lanes and groups are incompatible.
[[nodiscard]] std::vector<StepRange> steps_of_groups(const BatchOptions& options,
                                                     std::span<const Index> training_steps);

/// The batches of every epoch, as functions of seed, epoch and global indices: the same at every rank count.
/// An epoch is one pass of decoder batches over all training steps (pairs: all (step, node)), then one pass
/// of dynamics batches over all steps t whose predecessor is a training step, too. A joint epoch is one pass
/// over all training steps. Each pass has a new random permutation (Ziat et al. 2017, reference
/// implementation). With lanes, a slab takes equally many steps from each contiguous part of the series, in
/// the lane's own order. The steps of a slab depend on the lanes, not on the groups.
class BatchPlan {
 public:
  /// `training_steps` and `training_pairs` come from Split. Collective: observed entries are counted once.
  BatchPlan(const BatchOptions& options, const Series& series, std::vector<Index> training_steps,
            std::vector<Index> training_pairs, const RowPartition& partition, int part, Reducer& reducer);

  [[nodiscard]] Index batches() const { return decoder_batches_ + dynamics_batches_; }
  /// Index of one batch of each existing pass.
  [[nodiscard]] std::vector<Index> kinds() const {
    return decoder_batches_ > 0 && dynamics_batches_ > 0 ? std::vector<Index>{0, decoder_batches_}
                                                         : std::vector<Index>{0};
  }

  /// Draws the orders of an epoch. Collective for pairs (sums the counts of observed ones over ranks).
  void start_epoch(Index epoch);

  /// Batch `index` of the started epoch, valid until the next call.
  [[nodiscard]] const Batch& batch(Index index);

 private:
  [[nodiscard]] Index elements(Pass pass) const;
  [[nodiscard]] const std::vector<Index>& steps_of(Pass pass) const {
    return pass == Pass::dynamics ? training_pairs_ : training_steps_;
  }
  /// Places of a lane's steps in steps_of(pass).
  [[nodiscard]] std::pair<Index, Index> lane(Pass pass, Index lane) const;
  [[nodiscard]] Index slabs(Pass pass) const;
  void fill_slab(Pass pass, Index index);
  void add_to_slab(Index t, bool predicts);
  void fill_pairs(Pass pass, Index first, Index last);

  BatchOptions options_;
  const Series* series_;
  const RowPartition* partition_;
  int part_;
  Reducer* reducer_;
  std::vector<Index> training_steps_;
  std::vector<Index> training_pairs_;
  std::vector<bool> is_pair_;     // by step: its predecessor is a training step
  std::vector<double> observed_;  // by step, global
  bool complete_ = false;         // nothing is missing
  Index per_batch_ = 1;           // pairs per batch; slabs: steps per lane
  StepRange held_;                // by this group
  Index decoder_batches_ = 0;
  Index dynamics_batches_ = 0;
  std::vector<Permutation> orders_;     // decoder, then dynamics, by lane
  std::vector<double> batch_observed_;  // pairs: by decoder batch of the epoch
  std::vector<Index> drawn_;            // pairs: the whole batch
  Batch batch_;
};

}  // namespace rossby
