#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/autograd/relation_bank.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/embeddings.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Shape of an STID; keys model.* and window.* of the configuration. The defaults are the paper's.
struct StidOptions {
  Index inputs = 12;       // steps
  Index outputs = 12;      // steps
  Index channels = 1;      // of an input step
  Index features = 1;      // of an output step
  Index width = 32;        // of the embedding of a window's inputs
  Index layers = 3;        // residual
  double dropout = 0.15;   // inside the layers
  std::uint64_t seed = 1;  // of dropout
  Index rank = 0;          // of a learned relation between all nodes; 0: none
  Index nodes = 0;         // of all ranks, if there are relations
  bool deep = false;       // residual layers read the relations; else only the inputs' embedding
  Recompute recompute = Recompute::none;
};

/// STID: Shao, Zhang, Wang, Wei, Xu, "Spatial-temporal identity: a simple yet effective baseline for
/// multivariate time series forecasting", CIKM 2022. A network runs on every node separately; learned vectors
/// identify nodes and times. For node i and a window whose last input step is t:
///
///     z_0     = [A x_{t−h+1 … t, i} + a, node_i, time_of_day_t, day_of_week_t, month_t]
///     z_{l+1} = z_l + V_l dropout(relu(U_l z_l + u_l)) + v_l      l = 0 … L − 1
///     out     = P z_L + p                                         to all output steps at once
///
/// EmbeddingShape says which vectors there are. The paper has no months, because its data cover hours and
/// minutes. No rank reads rows of another rank: a step only sums gradients of replicated parameters, in its
/// one allreduce.
///
/// A learned relation of low rank k, which the paper does not have, adds the inputs of other nodes: A x_i
/// becomes A x_i + B Σ_j (u_i · v_j) x_j / n, with u and v (n, k). Each micro-batch sums k·inputs·channels
/// values per window over the ranks with its rows in forward, and k·width values in backward.
///
/// The residual layers read `deep` relations; a graph can be one of them. U_l z_i becomes U_l z_i + Σ_s
/// U_{l,s} Σ_j S_s[i, j] z_j over the supports S_s of the graph and the learned relation. Each layer
/// exchanges the ghosts of z, and sums k·D values per window.
///
/// Parameters, with D the width of z:
/// - input_weight (width, inputs·channels), columns of the oldest step first, and input_bias;
/// - with a relation: input_weight (width, 2·inputs·channels), A then B, and low_rank_u and low_rank_v (n,
/// k), which lie with the owners of their rows;
/// - those of Embeddings;
/// - layer<l>_hidden_weight (D, D), or with R deep relations (D, (1 + R)·D), layer<l>_hidden_bias,
/// layer<l>_output_weight (D, D), layer<l>_output_bias;
/// - projection_weight (outputs·features, D), output step slowest, and projection_bias.
/// All are replicated, except low_rank_u, low_rank_v and node_embedding.
template <class T>
class Stid final : public WindowModel<T> {
 public:
  /// `rows`: global rows of the owned nodes. `row_blocks` sums over the ranks with the other rows, for a
  /// learned relation; null without one. `graph`: deep relations with the exchange of their ghosts; no block
  /// means none.
  Stid(const StidOptions& options, const EmbeddingShape& embeddings, std::vector<Index> rows,
       Reducer* row_blocks = nullptr, Diffusion<T> graph = {});

  [[nodiscard]] std::string_view name() const override { return "stid"; }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return all_; }
  /// Weights and biases of a layer with k inputs are uniform within ±1 / √k, as in the published code.
  /// Embeddings start as in Embeddings::start; u and v are normal / √k.
  void start(std::uint64_t seed) override;
  using WindowModel<T>::predict;
  void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
               std::span<Var<T>> outputs) override;
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const override;

 private:
  struct Linear {
    Parameter<T> weight, bias;
    Linear(const std::string& name, Index out, Index in);
  };
  struct Layer {
    std::string name;
    Linear hidden, output;
    Layer(const std::string& place, Index width, Index relations);
  };
  /// Keys of the random numbers of dropout.
  struct Setting {
    bool training = false;
    Index step = 0;               // optimiser step
    std::span<const Index> keys;  // of the windows
  };

  void make_bank(Reducer* row_blocks, Diffusion<T> graph);
  [[nodiscard]] bool related() const { return !bank_.terms.empty(); }
  [[nodiscard]] Var<T> embed(Tape<T>& tape, const WindowSource<T>& source);
  [[nodiscard]] Var<T> compute(Tape<T>& tape, const Setting& setting, Index layer, const Var<T>& z);
  [[nodiscard]] Var<T> run(Tape<T>& tape, const Setting& setting, Index layer, const Var<T>& z);
  void predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs);

  StidOptions options_;
  std::vector<Index> rows_;
  OneRankExchange no_ghosts_;             // sums over all nodes need no ghosts
  Parameter<T> low_rank_u_, low_rank_v_;  // (1, owned, k)
  RelationBank<T> bank_;
  Embeddings<T> embeddings_;
  Linear input_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Linear projection_;
  std::vector<Parameter<T>*> all_;
};

}  // namespace rossby
