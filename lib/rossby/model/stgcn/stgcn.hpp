#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/diffusion.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Shape of an STGCN; keys model.* and window.* of the configuration. The defaults are the paper's.
struct StgcnOptions {
  Index inputs = 12;   // steps; each block takes 2·(taps − 1), and at least one must be left
  Index outputs = 12;  // steps
  Index channels = 1;  // of an input step
  Index features = 1;  // of an output step
  Index blocks = 2;
  // Channels of a block's first convolution over time, its graph convolution and its second one over time
  std::array<Index, 3> block_channels = {64, 16, 64};
  Index taps = 3;            // K_t, steps that a convolution over time sees
  bool first_order = false;  // graph convolutions by the paper's eq. 6 instead of Chebyshev polynomials
  double dropout = 0;        // after each block
  std::uint64_t seed = 1;    // of dropout
  Recompute recompute = Recompute::none;

  /// Returns the steps that the blocks leave for the output layer.
  [[nodiscard]] Index steps_left() const { return inputs - 2 * blocks * (taps - 1); }
};

/// STGCN: Yu, Yin, Zhu, "Spatio-temporal graph convolutional networks: a deep learning framework for traffic
/// forecasting", IJCAI 2018. Each block has two gated convolutions over time around a graph convolution:
///
///     gate(x)_t = (Σ_j P_j x_{t+j} + p + x_{t+K_t−1}) ∘ sigmoid(Σ_j Q_j x_{t+j} + q)      j = 0 … K_t − 1
///     graph(x)  = relu(Σ_k T_k(L̃) x Θ_kᵀ + θ)   or, of first order,   relu(Â x Θᵀ + θ)
///     block(x)  = dropout(layer norm(gate_2(graph(gate_1(x)))))
///     y         = layer norm(gate_o(block(… block(x))))     gate_o: over all steps that are left
///     out       = linear(sigmoid(linear(y)))                to all output steps at once
///
/// T_k are Chebyshev polynomials of order 0 … K_s − 1, L̃ = 2 L / λ_max − I (scaled_laplacian), and Â =
/// D^{−1/2} (W + I) D^{−1/2}. Layer norm takes its statistics from all nodes and channels of a window's step,
/// with a gain and a bias for every node and channel. A gate's x on the left is padded with zero channels; if
/// the gate has fewer channels than x, x is left out. In that case, and in its graph convolution, the
/// published code projects x. The last tap P_{K_t−1} and the term Θ_0 of Chebyshev polynomials already
/// contain these projections.
///
/// Two things differ from the published model. First, the last layer makes all output steps at once. The
/// published model makes one step and forecasts step by step from its own outputs, which have no time
/// channels, accumulate errors, and cost `outputs` forward passes. Second, both gates of a block are linear
/// units, as in the paper's equation 8; the code has a relu for the second one. The code's layer of sigmoids
/// before the last one is kept.
///
/// Between row blocks, a block of T input steps and B windows exchanges ghosts K_s − 1 times, each of c_1
/// channels and (T − K_t + 1)·B columns (first order: once, c_2 channels), and sums 2·(T − 2·K_t + 2)·B + 1
/// doubles; backward does the same. Time groups communicate only in the step's sums. Recompute::cell keeps
/// what a block hands on and repeats its exchanges and sums in backward.
///
/// Parameters: for block b: block<b>_first_weight (2·c_1, K_t·c), rows P then Q, columns of the oldest step
/// first; block<b>_first_bias; block<b>_graph_weight (c_2, terms·c_1) in the order of DiffusionPlan's terms
/// (first order: (c_2, c_1)), block<b>_graph_bias; block<b>_second_weight (2·c_3, K_t·c_2),
/// block<b>_second_bias; block<b>_norm_{gain, bias} (n, c_3), held by the owners of the rows; output_weight
/// (2·c_3, steps_left·c_3), output_bias, output_norm_{gain, bias}; hidden_weight (c_3, c_3), hidden_bias;
/// projection_weight (outputs·features, c_3), output step slowest, projection_bias. All but the norms are
/// replicated.
template <class T>
class Stgcn final : public WindowModel<T> {
 public:
  /// `graph` holds L̃ and DiffusionVariant::paper with K_s − 1 steps; for first order it holds Â, and its
  /// plan is not used. `rows`: global rows of the owned nodes. `row_blocks` sums over the ranks that share
  /// this one's windows (ProcessGrid::space()) and must outlive the model.
  Stgcn(const StgcnOptions& options, Diffusion<T> graph, std::vector<Index> rows, Reducer& row_blocks);

  [[nodiscard]] std::string_view name() const override { return "stgcn"; }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return all_; }
  /// Sets uniform weights with variance 2 / (inputs + outputs) (Glorot, Bengio, AISTATS 2010), where each tap
  /// counts as an input; biases are 0, gains 1.
  void start(std::uint64_t seed) override;
  using WindowModel<T>::predict;
  void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
               std::span<Var<T>> outputs) override;
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const override;

 private:
  struct Linear {
    Parameter<T> weight, bias;
    Index taps;
    Linear(const std::string& name, Index out, Index in, Index steps = 1);
  };
  struct Block {
    std::string name;
    Linear first, graph, second;
    LayerNorm<T> norm;
    Block(const std::string& place, const StgcnOptions& options, Index channels, Index terms, Index owned);
  };
  /// Inputs of a layer other than its signal.
  struct Setting {
    Index windows = 0;
    bool training = false;
    Index step = 0;               // optimiser step
    std::span<const Index> keys;  // of the windows
  };

  [[nodiscard]] Var<T> inputs(Tape<T>& tape, const WindowSource<T>& source) const;
  [[nodiscard]] Var<T> gate(Tape<T>& tape, const Setting& setting, const Var<T>& x, Linear& layer);
  [[nodiscard]] Var<T> convolve(Tape<T>& tape, const Var<T>& x, Linear& layer);
  [[nodiscard]] Var<T> drop(Tape<T>& tape, const Setting& setting, Index block, const Var<T>& x) const;
  [[nodiscard]] Var<T> compute(Tape<T>& tape, const Setting& setting, Index block, const Var<T>& x);
  [[nodiscard]] Var<T> run(Tape<T>& tape, const Setting& setting, Index block, const Var<T>& x);
  [[nodiscard]] Var<T> head(Tape<T>& tape, const Setting& setting, const Var<T>& x);
  void predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs);

  StgcnOptions options_;
  Diffusion<T> graph_;
  std::vector<Index> rows_;
  Reducer* row_blocks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Linear output_;
  LayerNorm<T> output_norm_;
  Linear hidden_, projection_;
  std::vector<Parameter<T>*> all_;
};

}  // namespace rossby
