#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rossby/autograd/adaptive.hpp"
#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/diffusion.hpp"
#include "rossby/model/embeddings.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Shape of a Graph WaveNet; keys model.* and window.* of the configuration. The defaults are the paper's.
struct GraphWavenetOptions {
  Index inputs = 12;   // steps; at most receptive_steps()
  Index outputs = 12;  // steps
  Index channels = 2;  // of an input step
  Index features = 1;  // of an output step
  Index blocks = 4;
  Index block_layers = 2;     // their dilations are 1, 2, 4, …
  Index width = 32;           // channels of layers
  Index skip = 256;           // channels of skip connections
  Index end = 512;            // channels of the hidden layer of the end
  Index powers = 2;           // of each support and of the adaptive adjacency
  bool adaptive = true;       // the self-adaptive adjacency
  Index adaptive_width = 10;  // columns of its tables
  double dropout = 0.3;
  std::uint64_t seed = 1;  // of dropout
  Recompute recompute = Recompute::none;
  Pipeline pipeline = {};
  // Stages of the layers, ascending. The first one has the inputs, the last one the end.
  std::vector<int> stage_of = {};

  [[nodiscard]] Index layers() const { return blocks * block_layers; }
  /// Returns the number of steps that an output depends on.
  [[nodiscard]] Index receptive_steps() const { return 1 + blocks * ((Index{1} << block_layers) - 1); }
};

/// Graph WaveNet: Wu, Pan, Long, Jiang, Zhang, "Graph WaveNet for deep spatial-temporal graph modeling",
/// IJCAI 2019, as in its published code. Inputs are padded with zeros on the left up to the receptive field.
/// They pass through one dense layer and then through layers l = 0, 1, … of dilation d:
///
///     y_t   = tanh(F_0 x_{t−d} + F_1 x_t + f) ∘ sigmoid(G_0 x_{t−d} + G_1 x_t + g)
///     h_t   = dropout(Σ_k z_k W_kᵀ + w) + x_t        z = y, S_s y, S_s² y, …, A y, A² y, …
///     x_new = batch norm(h)
///     out   = end(relu(Σ_l (V_l y^l_last + v_l)))    y^l_last: the last step of layer l
///     end   = linear(relu(linear(·)))                to all output steps at once
///
/// S_s are the diffusion's supports. A sums over nodes by the self-adaptive adjacency softmax(relu(E_source
/// E_targetᵀ)): (A y)_w = Σ_v softmax_vw y_v. The last layer feeds only the end, so it has no graph
/// convolution and no normalisation (the published code has both and never uses them). The residual
/// convolutions of the published code are left out, because they serve networks without graph convolutions.
///
/// Learned vectors e of the node and of the calendar at each input step are further inputs of the first dense
/// layer: x += W_e e, where W_e is embedding_weight (width, width of e).
///
/// Batch norm takes its statistics from all windows, nodes and steps of a micro-batch in a training step,
/// over all ranks that hold the layer.
///
/// Parameters: start_weight (width, channels), start_bias; for layer l: layer<l>_gate_weight (2·width,
/// 2·width), rows F then G, columns of x_{t−d} then x_t; layer<l>_gate_bias; layer<l>_skip_weight (skip,
/// width), layer<l>_skip_bias; for all layers but the last one, layer<l>_graph_weight (width, terms·width) in
/// the order of DiffusionPlan's terms, layer<l>_graph_bias, layer<l>_adaptive_weight (width, powers·width),
/// and layer<l>_norm_{gain, bias, running_mean, running_variance}; hidden_weight (end, skip), hidden_bias;
/// projection_weight (outputs·features, end), output step slowest, projection_bias; source_factors,
/// target_factors (n, adaptive_width) in global row order. All are replicated.
template <class T>
class GraphWavenet final : public WindowModel<T> {
 public:
  /// `graph` has DiffusionVariant::powers, or no supports. `nodes` covers all nodes. `everyone` sums over row
  /// blocks and time groups (ProcessGrid::plane()) and must outlive the model. `rows`: global rows of the
  /// owned nodes, if there are embeddings. Embeddings need a single stage.
  GraphWavenet(const GraphWavenetOptions& options, Diffusion<T> graph, AllNodes nodes, Reducer& everyone,
               const EmbeddingShape& embeddings = {}, std::span<const Index> rows = {});

  [[nodiscard]] std::string_view name() const override { return "graph_wavenet"; }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return all_; }
  /// Sets weights and biases uniform in ±1/√inputs and the tables of the adjacency standard normal, as in the
  /// published code.
  void start(std::uint64_t seed) override;
  using WindowModel<T>::predict;
  void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
               std::span<Var<T>> outputs) override;
  [[nodiscard]] Pipeline pipeline() const override { return options_.pipeline; }
  /// Batch norm sums over time groups.
  [[nodiscard]] bool meets_groups() const override { return true; }
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const override;
  /// "adaptive": the self-adaptive adjacency; a row holds the weights with which its node acts on others.
  [[nodiscard]] std::vector<LearnedRelation> learned_relations() const override;

 private:
  struct Linear {
    Parameter<T> weight, bias;
    Linear(const std::string& name, Index out, Index in);
  };
  struct Layer {
    std::string name;
    Index dilation;
    Linear gate, skip;
    std::optional<Linear> graph;
    std::optional<Parameter<T>> adaptive;
    std::optional<BatchNorm<T>> norm;
    Layer(const std::string& place, const GraphWavenetOptions& options, Index dilation, bool last,
          Index terms);
  };
  /// Inputs of a layer other than its signal.
  struct Setting {
    Index layer = 0;
    Index windows = 0;
    Index first_step = 0;  // first output step, in steps of the padded inputs
    bool training = false;
    Index step = 0;               // optimiser step
    std::span<const Index> keys;  // of the windows
    Var<T> adjacency;
  };
  struct Outcome {
    Var<T> h;     // before normalisation
    Var<T> last;  // (rows, B, width)
  };

  [[nodiscard]] Var<T> padded_inputs(Tape<T>& tape, const WindowSource<T>& source) const;
  [[nodiscard]] Var<T> open(Tape<T>& tape, const WindowSource<T>& source);
  void add_skip(Tape<T>& tape, Layer& layer, const Var<T>& last, Var<T>& skip);
  [[nodiscard]] Outcome compute(Tape<T>& tape, const Setting& setting, const Var<T>& x);
  [[nodiscard]] Outcome run(Tape<T>& tape, const Setting& setting, const Var<T>& x);
  [[nodiscard]] Var<T> convolve(Tape<T>& tape, const Setting& setting, const Var<T>& y);
  [[nodiscard]] Var<T> drop(Tape<T>& tape, const Setting& setting, const Var<T>& h);
  [[nodiscard]] int stage_of(Index layer) const {
    return options_.stage_of.empty() ? 0 : options_.stage_of[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] Var<T> make_adjacency(Tape<T>& tape);
  void predict_one(Tape<T>& tape, const Pipeline& pipeline, const WindowSource<T>& source,
                   const Var<T>& adjacency, std::span<Var<T>> outputs);
  void share_running(Tape<T>& tape);

  GraphWavenetOptions options_;
  Diffusion<T> graph_;
  AllNodes nodes_;
  Reducer* everyone_;
  Embeddings<T> embeddings_;
  Linear start_;
  Parameter<T> embedding_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Linear hidden_, projection_;
  std::optional<Parameter<T>> source_factors_, target_factors_;
  std::vector<Parameter<T>*> all_;
  std::vector<double> running_;  // statistics in transfer between stages
};

}  // namespace rossby
