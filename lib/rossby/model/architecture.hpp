#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/autograd/pipeline.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/key.hpp"
#include "rossby/model/calibration_case.hpp"
#include "rossby/model/embeddings.hpp"
#include "rossby/model/window_model.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {

class WindowArchitecture;

/// A model with its hyperparameters, as a configuration selects it. Immutable; it knows neither data nor
/// ranks.
class Architecture {
 public:
  virtual ~Architecture() = default;
  /// Returns the value of model.name.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns null if the model is no window model.
  [[nodiscard]] virtual const WindowArchitecture* windows() const { return nullptr; }
  /// Returns the cost of an entry of a sparse relation in a training step, relative to a row without entries.
  /// Counts multiplications; `relations` are those of the graph.
  [[nodiscard]] virtual double entry_cost(int relations) const = 0;
};

/// The matrices that a window model multiplies with, made from the graph that relation.graph names.
struct Supports {
  enum class Kind {
    none,              // no graph: nodes are independent
    symmetric,         // D^{−1/2} (A + I) D^{−1/2}
    random_walk,       // (D_out⁻¹ A)ᵀ
    dual_random_walk,  // (D_out⁻¹ A)ᵀ and (D_in⁻¹ Aᵀ)ᵀ
    laplacian,         // 2 L / λ_max − I of the undirected graph: scaled_laplacian
  };
  Kind kind = Kind::none;
  bool optional = false;      // the model can do without a graph
  bool one_relation = false;  // a graph of several relations is refused
  bool undirected = false;    // symmetric: first adds the reverse of every edge
};

/// Returns this part's rows of the supports of a graph without negative weights. Collective over the mailbox.
[[nodiscard]] GlobalEdges make_supports(const Supports& wanted, const GlobalEdges& graph,
                                        const RowPartition& partition, Mailbox& mailbox);

/// Layers that a pipeline distributes over its stages; none if the model trains on one stage only.
struct PipelineLayers {
  Index count = 0;
  bool mirrored = false;  // cells of an encoder, then as many cells of a decoder
};

/// The diffusion convolution of a window model.
struct ConvolutionShape {
  Index channels = 0;  // of the signal
  int steps = 0;       // K; 0: one step along the first support
  DiffusionVariant variant = DiffusionVariant::paper;
};

/// Settings outside model.* that an architecture may reject.
struct WindowChecks {
  WindowShape shape;
  std::string_view graph;  // relation.graph
  Recompute recompute = Recompute::none;
  bool is_new = false;  // false: a resumed run, or forecasts
};

/// Everything that a window model is made from, on one rank.
template <class T>
struct WindowParts {
  WindowShape shape;
  Index channels = 1;  // of an input step
  Index features = 1;  // of an output step: the series' features for each level; the level is slowest
  Index levels = 1;    // quantiles in an output; a model that reads its outputs reads the middle one
  Index middle = 0;    // the level that is the point forecast
  Index known = 0;     // channels known ahead of an output step
  EmbeddingShape embeddings;
  Diffusion<T> diffusion;
  const RowPartition* partition = nullptr;  // needed only while the model is made
  int part = 0;                             // this rank's
  Exchange* all_rows = nullptr;             // only if relates_all_nodes(); null on one rank
  Reducer* plane = nullptr;                 // over row blocks and time groups
  Reducer* row_blocks = nullptr;            // over the ranks that share this one's windows
  Pipeline pipeline = {};
  std::vector<int> stage_of = {};  // of the pipeline's layers
  Recompute recompute = Recompute::none;
  std::uint64_t seed = 1;
  Index low_rank = 0;  // columns of U and V of a learned relation; 0 unless learns_low_rank()

  [[nodiscard]] std::vector<Index> global_rows() const {
    std::vector<Index> rows;
    for (const GlobalRow row : partition->rows_of(part)) rows.push_back(row.value);
    return rows;
  }
};

/// A window model with its hyperparameters.
class WindowArchitecture : public Architecture {
 public:
  [[nodiscard]] const WindowArchitecture* windows() const final { return this; }

  /// Throws UserError for settings that do not fit the model or would have no effect.
  virtual void check(const WindowChecks&) const {}
  [[nodiscard]] virtual Supports supports() const = 0;
  [[nodiscard]] virtual ConvolutionShape convolution() const = 0;
  [[nodiscard]] virtual PipelineLayers pipeline_layers() const { return {}; }
  /// Returns the useful values of train.recompute, from the most memory to the least.
  [[nodiscard]] virtual std::vector<std::string_view> recompute_modes() const {
    return {"none", "cell", "step"};
  }
  /// True if statistics over a micro-batch enter the model: the result then depends on how a batch is cut.
  [[nodiscard]] virtual bool normalises_batches() const { return false; }
  /// True if statistics over all nodes enter the model, so that it sums over row blocks.
  [[nodiscard]] virtual bool normalises_nodes() const { return false; }
  /// True if the model reads all nodes, not only neighbours.
  [[nodiscard]] virtual bool relates_all_nodes() const { return false; }
  /// True if the model can learn a low-rank relation between all nodes, for which it sums over row blocks.
  [[nodiscard]] virtual bool learns_low_rank() const { return false; }
  /// Returns the learned vectors of nodes and times that the model reads.
  [[nodiscard]] virtual EmbeddingChoice embeddings() const { return {}; }
  /// True if the model also reads the calendar vectors of the steps that it forecasts.
  [[nodiscard]] virtual bool reads_calendar_ahead() const { return false; }
  /// Returns τ of scheduled sampling, in steps; 0: never.
  [[nodiscard]] virtual double sampling_decay() const { return 0; }

  [[nodiscard]] virtual std::unique_ptr<WindowModel<float>> make(WindowParts<float> parts) const = 0;
  [[nodiscard]] virtual std::unique_ptr<WindowModel<double>> make(WindowParts<double> parts) const = 0;
};

/// Implements both precisions of make() by one template. Derived has `template <class T>
/// std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const`.
template <class Derived>
class WindowArchitectureOf : public WindowArchitecture {
 public:
  [[nodiscard]] std::unique_ptr<WindowModel<float>> make(WindowParts<float> parts) const final {
    return static_cast<const Derived&>(*this).template build<float>(std::move(parts));
  }
  [[nodiscard]] std::unique_ptr<WindowModel<double>> make(WindowParts<double> parts) const final {
    return static_cast<const Derived&>(*this).template build<double>(std::move(parts));
  }
};

/// Describes one model: its name, its keys, and how a configuration becomes an architecture.
struct ModelDescriptor {
  std::string_view name;         // model.name
  std::string_view remark = "";  // after the name in the help of model.name
  bool of_windows = true;
  bool of_layers = false;    // parallel.stages may distribute its layers
  bool reads_known = false;  // reads inputs of forecast steps: data.known_inputs, window.known_times
  KeyTable keys;             // the keys model.* that it reads
  std::shared_ptr<const Architecture> (*configure)(const KeyValues&) = nullptr;
  std::vector<CalibrationCase> (*calibration)() = nullptr;        // trainings that measure a machine
  std::vector<CalibrationCase> (*quick_calibration)() = nullptr;  // for tests; null: none
  /// Lines of TOML below [model]: a small model of 4 input steps, for tests of all window models.
  std::string_view small = "";
  /// TOML with a table [[candidate]] for each size and learning rate that `rossby profile` tries. Empty: one
  /// candidate with the defaults. Settings that need a graph have relation.graph = "auto".
  std::string_view candidates = "";
};

/// Returns the keys of a settings table.
template <class Settings>
[[nodiscard]] KeyTable keys_of(std::span<const Key<Settings>> table) {
  KeyTable keys;
  append(keys, table);
  return keys;
}

}  // namespace rossby
