#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/model/embeddings.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Shape of a DCRNN; keys model.* and window.* of the configuration.
struct DcrnnOptions {
  Index inputs = 12;   // steps
  Index channels = 2;  // of an input step
  Index features = 1;  // of an output step
  int layers = 2;
  Index units = 64;
  Recompute recompute = Recompute::none;
  Pipeline pipeline = {};  // never has Recompute::step
  // Stages of the encoder's layers, then of the decoder's; the last one has the projection.
  std::vector<int> stage_of = {};
  Index known = 0;  // channels known ahead of an output step
  // `features` covers all levels; the decoder reads the middle one (WindowParts).
  Index levels = 1, middle = 0;

  [[nodiscard]] Index fed() const { return features / levels; }
};

/// Diffusion convolutional recurrent neural network: Li, Yu, Shahabi, Liu, "Diffusion convolutional recurrent
/// neural network: data-driven traffic forecasting", ICLR 2018. An encoder of L recurrent cells reads the
/// input steps. A decoder of L cells with its own weights starts from the encoder's last states and an input
/// of zeros, and feeds each output to its next step. The decoder's first layer also reads k, the inputs known
/// ahead of an output step: a += D(k; W_k), where W_k is its <place>0_known_weight (3u, terms·known), as if k
/// were further channels of x.
///
///     a     = D(x; W_x) + b,  a_r, a_u += D(h; W_h)        D(z; W) = Σ_k z_k W_kᵀ, a diffusion convolution
///     r, u  = sigmoid(a_r, a_u)
///     c     = tanh(a_c + D(r ∘ h; W_c))
///     h_new = u ∘ h + (1 − u) ∘ c
///     y     = P h_top + p
///
/// The cell is the paper's on [x, h]. Its weights are split into those of x and those of h, so that x is
/// diffused once for all three gates. Parameters, for place in encoder, decoder and layer l from 0:
/// <place><l>_input_weight (3u, terms·channels), rows r, u, c; <place><l>_gates_weight (2u, terms·units);
/// <place><l>_candidate_weight (u, terms·units); <place><l>_bias (3u); projection_weight (features, units),
/// projection_bias (features). Column blocks are in the order of DiffusionPlan's terms.
///
/// Learned vectors e of the node and of the calendar, at the step that is read or forecast, are further
/// inputs of the first layers: a += W_e e, where W_e is <place>0_embedding_weight (3u, width of e). Vectors
/// of neighbours enter only through states. Encoder and decoder share the tables.
///
/// Without supports, the diffusion has one term and the model is a GRU of each node.
template <class T>
class Dcrnn final : public WindowModel<T> {
 public:
  static constexpr int most_layers = 16;

  /// `rows`: global rows of the owned nodes, if there are embeddings. Embeddings need a single stage.
  Dcrnn(const DcrnnOptions& options, Diffusion<T> diffusion, const EmbeddingShape& embeddings = {},
        std::span<const Index> rows = {});

  [[nodiscard]] std::string_view name() const override { return diffusion_.plan.terms > 1 ? "dcrnn" : "gru"; }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return all_; }
  /// Sets normal weights with variance 2 / (inputs + outputs) of the paper's matrices (Glorot, Bengio,
  /// AISTATS 2010), gate biases of 1 and other biases of 0.
  void start(std::uint64_t seed) override;
  using WindowModel<T>::predict;
  void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
               std::span<Var<T>> outputs) override;
  [[nodiscard]] Pipeline pipeline() const override { return options_.pipeline; }

  /// States of all layers, (rows, B, units) each.
  struct States {
    std::array<Var<T>, most_layers> layer;
    Index rows = 0, windows = 0;
  };
  /// Returns the encoder's last states, computed on this rank alone.
  [[nodiscard]] States encode(Tape<T>& tape, const WindowSource<T>& source);
  /// Inputs of a step: the signal and, for the first layers, the inputs known ahead and rows of the
  /// calendar's tables.
  struct Input {
    Var<T> x, known = {};
    typename Embeddings<T>::Phases phases = {};
  };
  /// Returns the new state of one cell.
  [[nodiscard]] Var<T> cell(Tape<T>& tape, bool decoder, int layer, const Input& input, const Var<T>& h);

  [[nodiscard]] const DcrnnOptions& options() const { return options_; }
  [[nodiscard]] const Diffusion<T>& diffusion() const { return diffusion_; }

 private:
  struct Cell {
    std::string name;
    Parameter<T> input, gates, candidate, bias;
    std::unique_ptr<Parameter<T>> known;      // null: no inputs known ahead
    std::unique_ptr<Parameter<T>> embedding;  // null: no learned vectors
    Cell(const std::string& place, Index channels, Index units, Index terms, Index known, Index embedding);
  };

  [[nodiscard]] Cell& cell_of(bool decoder, int layer) const {
    return *cells_[static_cast<std::size_t>((decoder ? options_.layers : 0) + layer)];
  }
  [[nodiscard]] Var<T> forward(Tape<T>& tape, Cell& cell, const Input& input, const Var<T>& h);
  /// Returns the stage of a cell; the same for all cells without a pipeline.
  [[nodiscard]] int stage_of(bool decoder, int layer) const {
    return options_.stage_of.empty()
               ? 0
               : options_.stage_of[static_cast<std::size_t>((decoder ? options_.layers : 0) + layer)];
  }
  void advance(Tape<T>& tape, bool decoder, const Input& input, States& states, Var<T>* output);
  void advance_layers(Tape<T>& tape, bool decoder, const Input& input, States& states, Var<T>* output);
  void encode_into(Tape<T>& tape, const WindowSource<T>& source, States& states);
  [[nodiscard]] Var<T> middle_of(Tape<T>& tape, const Var<T>& output) const;
  void decode(Tape<T>& tape, const WindowSource<T>& source, std::size_t step, States& states,
              std::span<Var<T>> outputs);

  DcrnnOptions options_;
  Pipeline active_;  // options_.pipeline in a training step, else without stages
  Diffusion<T> diffusion_;
  Embeddings<T> embeddings_;
  std::vector<std::unique_ptr<Cell>> cells_;  // of the encoder, then of the decoder
  Parameter<T> projection_;
  Parameter<T> projection_bias_;
  std::vector<Parameter<T>*> all_;
  std::vector<States> states_;  // of each source of a prediction
};

}  // namespace rossby
