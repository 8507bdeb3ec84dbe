#pragma once

#include <vector>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/model/embeddings.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Shape of a T-GCN; keys model.* and window.* of the configuration.
struct TgcnOptions {
  Index inputs = 12;
  Index outputs = 12;
  Index channels = 1;  // of an input step
  Index features = 1;  // of an output step
  Index units = 64;
  Recompute recompute = Recompute::none;
};

/// Temporal graph convolutional network: Zhao et al., "T-GCN: a temporal graph convolutional network for
/// traffic prediction", IEEE Trans. Intelligent Transportation Systems 21, 2020. The gates of one recurrent
/// cell read their inputs through a graph convolution. One dense layer maps the last state to all output
/// steps.
///
///     a     = (Â x) W_xᵀ + b,  a_r, a_u += (Â h) W_gᵀ      Â = D^{−1/2} (A + I) D^{−1/2}
///     r, u  = sigmoid(a_r, a_u)
///     c     = tanh(a_c + (Â (r ∘ h)) W_cᵀ)
///     h_new = u ∘ h + (1 − u) ∘ c
///
/// Parameters: input_weight (3u, channels), rows r, u, c; gates_weight (2u, u); candidate_weight (u, u); bias
/// (3u); projection_weight (outputs·features, u), output step slowest; projection_bias.
///
/// Learned vectors e of the node and of the calendar at the step that is read are further inputs without
/// graph convolution: a += W_e e, where W_e is embedding_weight (3u, width of e).
template <class T>
class Tgcn final : public WindowModel<T> {
 public:
  /// `graph` has the one support Â; its plan is not used. `rows`: global rows of the owned nodes, if there
  /// are embeddings.
  Tgcn(const TgcnOptions& options, Diffusion<T> graph, const EmbeddingShape& embeddings = {},
       std::span<const Index> rows = {});

  [[nodiscard]] std::string_view name() const override { return "tgcn"; }
  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return all_; }
  /// Sets uniform weights with variance 2 / (inputs + outputs) (Glorot, Bengio, AISTATS 2010), gate biases of
  /// 1 and other biases of 0.
  void start(std::uint64_t seed) override;
  using WindowModel<T>::predict;
  void predict(Tape<T>& tape, std::span<const WindowSource<T>* const> sources,
               std::span<Var<T>> outputs) override;

 private:
  void predict_one(Tape<T>& tape, const WindowSource<T>& source, std::span<Var<T>> outputs);
  [[nodiscard]] Var<T> cell(Tape<T>& tape, const Var<T>& x, const Var<T>& h,
                            const typename Embeddings<T>::Phases& phases);

  TgcnOptions options_;
  Diffusion<T> graph_;
  Embeddings<T> embeddings_;
  Parameter<T> input_, gates_, candidate_, bias_, projection_, projection_bias_, embedding_;
  std::vector<Parameter<T>*> all_;
};

}  // namespace rossby
