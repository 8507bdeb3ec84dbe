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
  Index low_rank = 0;  // columns of an additional low-rank relation; 0: none
  bool pairs = false;
  Index per_batch = 8;  // steps per slab, or number of pairs
  double beta1 = 0;
  bool l1 = true;          // of learned relations
  bool scattered = false;  // nodes are numbered at random, as in files without spatial order
  bool close = false;      // parallel.row_order = "rcm"
  bool bf16 = false;       // the dense learned relation and its moments
  /// How the dense learned relation streams to the device; bytes of a chunk, and of the device's memory that
  /// chunks may take. Empty: it does not stream.
  std::optional<Transfer> transfer;
  Index chunk_bytes = 0;
  std::size_t stream_bytes = 0;
  bool host_updates = false;  // updates on the host: gradients travel, not moments
  Index measured = 0;         // batches of each pass in an epoch; 0: all

  [[nodiscard]] Index nodes() const { return n_lat * n_lon; }
};

/// Returns all named cases, in the order of --list.
[[nodiscard]] std::vector<StepCase> step_cases();

/// Returns the same model on a grid of 7 x 11 nodes and 12 steps, for checks and smoke tests.
[[nodiscard]] StepCase small_version(StepCase item);

}  // namespace rossby::bench
