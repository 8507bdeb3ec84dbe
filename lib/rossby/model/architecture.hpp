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

/// A model with its hyperparameters, as a configuration asks for it. Const once built; it knows neither data
/// nor ranks.
class Architecture {
 public:
  virtual ~Architecture() = default;
  /// As model.name has it.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Null if the model is no forecaster of windows.
  [[nodiscard]] virtual const WindowArchitecture* windows() const { return nullptr; }
  /// Cost of an entry of a sparse relation in a training step, in units of what a row costs without entries.
  /// Counted by multiplications; `relations` are those of the graph.
  [[nodiscard]] virtual double entry_cost(int relations) const = 0;
};

/// The matrices that a forecaster of windows multiplies with, made of the graph that relation.graph names.
struct Supports {
  enum class Kind {
    none,              // no graph: every node on its own
    symmetric,         // D^{−1/2} (A + I) D^{−1/2}
    random_walk,       // (D_out⁻¹ A)ᵀ
    dual_random_walk,  // that, and (D_in⁻¹ Aᵀ)ᵀ
    laplacian,         // 2 L / λ_max − I of the undirected graph: scaled_laplacian
  };
  Kind kind = Kind::none;
  bool optional = false;      // the model can do without a graph
  bool one_relation = false;  // a graph of several relations is refused
  bool undirected = false;    // symmetric: of the graph with both directions of every edge
};

/// Their rows of this part, of a graph whose weights are not negative. Collective over the mailbox.
[[nodiscard]] GlobalEdges make_supports(const Supports& wanted, const GlobalEdges& graph,
                                        const RowPartition& partition, Mailbox& mailbox);

/// Layers that the stages of a pipeline share out; none if the model trains on one stage only.
struct PipelineLayers {
  Index count = 0;
  bool mirrored = false;  // cells of an encoder, then as many of a decoder
};

/// The diffusion convolution of a forecaster of windows.
struct ConvolutionShape {
  Index channels = 0;  // of the signal
  int steps = 0;       // K; 0: one step along the first support
  DiffusionVariant variant = DiffusionVariant::paper;
};

/// Settings outside model.* that an architecture may refuse.
struct WindowChecks {
  WindowShape shape;
  std::string_view graph;  // relation.graph
  Recompute recompute = Recompute::none;
  bool is_new = false;  // false: a run that goes on, or forecasts
};

/// Everything that a forecaster of windows stands on, on one rank.
template <class T>
struct WindowParts {
  WindowShape shape;
  Index channels = 1;  // of an input step
  Index features = 1;  // of an output step: those of the series for each level, a level after the other
  Index levels = 1;    // quantiles that are put out at once; a model that reads its outputs reads the middle
  Index middle = 0;    // the level of these that is the point forecast
  Index known = 0;     // channels of what is known ahead of an output step
  EmbeddingShape embeddings;
  Diffusion<T> diffusion;
  const RowPartition* partition = nullptr;  // read while the model is made
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

/// A forecaster of windows with its hyperparameters.
class WindowArchitecture : public Architecture {
 public:
  [[nodiscard]] const WindowArchitecture* windows() const final { return this; }

  /// Throws UserError for settings that do not go with the model, or would do nothing.
  virtual void check(const WindowChecks&) const {}
  [[nodiscard]] virtual Supports supports() const = 0;
  [[nodiscard]] virtual ConvolutionShape convolution() const = 0;
  [[nodiscard]] virtual PipelineLayers pipeline_layers() const { return {}; }
  /// Values of train.recompute that make sense, from the most memory to the least.
  [[nodiscard]] virtual std::vector<std::string_view> recompute_modes() const {
    return {"none", "cell", "step"};
  }
  /// True if statistics over a micro-batch enter the model: cutting a batch differently changes the result.
  [[nodiscard]] virtual bool normalises_batches() const { return false; }
  /// True if statistics over all nodes enter the model: it sums over row blocks.
  [[nodiscard]] virtual bool normalises_nodes() const { return false; }
  /// True if the model reads all nodes, not only neighbours.
  [[nodiscard]] virtual bool relates_all_nodes() const { return false; }
  /// True if the model can learn a relation of low rank between all nodes: it sums over row blocks then.
  [[nodiscard]] virtual bool learns_low_rank() const { return false; }
  /// Learned vectors of nodes and times that it reads.
  [[nodiscard]] virtual EmbeddingChoice embeddings() const { return {}; }
  /// True if its calendar vectors are also those of the steps that it forecasts.
  [[nodiscard]] virtual bool reads_calendar_ahead() const { return false; }
  /// τ of scheduled sampling, steps; 0: never.
  [[nodiscard]] virtual double sampling_decay() const { return 0; }

  [[nodiscard]] virtual std::unique_ptr<WindowModel<float>> make(WindowParts<float> parts) const = 0;
  [[nodiscard]] virtual std::unique_ptr<WindowModel<double>> make(WindowParts<double> parts) const = 0;
};

/// Both precisions of make() from one template: Derived has
/// `template <class T> std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const`.
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

/// One model as a value: its name, its keys, and how a configuration becomes an architecture.
struct ModelDescriptor {
  std::string_view name;         // model.name
  std::string_view remark = "";  // behind the name in the help of model.name
  bool of_windows = true;
  bool of_layers = false;    // parallel.stages may share out its layers
  bool reads_known = false;  // inputs of the steps that it forecasts: data.known_inputs, window.known_times
  KeyTable keys;             // those of model.* that it reads
  std::shared_ptr<const Architecture> (*configure)(const KeyValues&) = nullptr;
  std::vector<CalibrationCase> (*calibration)() = nullptr;        // trainings that measure a machine
  std::vector<CalibrationCase> (*quick_calibration)() = nullptr;  // for tests; null: none
  /// Lines of TOML below [model]: a small model of 4 input steps, for tests of every forecaster of windows.
  std::string_view small = "";
  /// TOML, a table [[candidate]] for each size and learning rate that `rossby profile` tries; empty: one with
  /// the defaults. Settings for which a graph is needed have relation.graph = "auto".
  std::string_view candidates = "";
};

/// Of a settings table.
template <class Settings>
[[nodiscard]] KeyTable keys_of(std::span<const Key<Settings>> table) {
  KeyTable keys;
  append(keys, table);
  return keys;
}

}  // namespace rossby
