#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby::bench {

enum class Mode {
  given,    // eight directional relations, row-normalised
  refine,   // the same pattern, learned
  discover  // one dense learned relation
};

/// One row of the table of whole training steps.
struct StepCase {
  std::string name;
  Index n_lat = 60;
  Index n_lon = 168;
  Mode mode = Mode::refine;
  Index latent = 1;
  Index steps = 200;
  Index low_rank = 0;  // columns of a low-rank relation beside the others; 0: none
  bool pairs = false;
  Index per_batch = 8;  // steps a slab, or pairs
  double beta1 = 0;
  bool l1 = true;          // of learned relations
  bool scattered = false;  // nodes are numbered at random, as in files that follow no neighbourhood
  bool close = false;      // parallel.row_order = "rcm"
  bool bf16 = false;       // the dense learned relation and its moments
  /// The dense learned relation streams to the device: the way, its chunks, and what of the device's memory
  /// they may take, bytes.
  std::optional<Transfer> transfer;
  Index chunk_bytes = 0;
  std::size_t stream_bytes = 0;
  bool host_updates = false;  // of it: gradients travel, not moments
  Index measured = 0;         // batches of each pass that an epoch runs; 0: all

  [[nodiscard]] Index nodes() const { return n_lat * n_lon; }
};

/// All named cases, in the order of --list.
[[nodiscard]] std::vector<StepCase> step_cases();

/// The same model on a grid of 7 x 11 nodes and 12 steps: what checks and smoke tests run.
[[nodiscard]] StepCase small_version(StepCase item);

}  // namespace rossby::bench
