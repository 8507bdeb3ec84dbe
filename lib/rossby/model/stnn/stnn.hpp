#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/base/random.hpp"
#include "rossby/data/batches.hpp"
#include "rossby/data/series.hpp"
#include "rossby/exchange/row_link.hpp"
#include "rossby/kernels/relate.hpp"
#include "rossby/model/losses.hpp"
#include "rossby/model/stnn/relations.hpp"

namespace rossby {

/// φ around the dynamics.
enum class LatentActivation { identity, tanh };

/// Shape and loss weights of an STNN; keys model.* of the configuration.
struct StnnOptions {
  Index steps = 0;     // T: latents exist for steps 0…T−1 of the series
  StepRange held;      // on a process grid: steps of this time group; empty: all
  int group = 0;       // index of the time group
  Index features = 1;  // m
  Index latent = 1;    // d
  int layers = 1;      // of the dynamics
  Index hidden = 32;   // width between layers
  LatentActivation activation = LatentActivation::identity;
  bool learned_decoder = true;  // false: x = z, needs d = m
  double lambda = 0.1;
  double l2_z = 0;
  double l1_rel = 0;
  double dropout_z = 0;
  double dropout_dynamics = 0;
};

/// For each value (row, feature): the last observed value in earlier groups and the first one in later
/// groups. NaN if there is none. Empty if there are no such groups.
struct ObservedAround {
  std::vector<float> before = {};
  std::vector<float> behind = {};
};

/// Start values of an STNN.
struct StnnStart {
  std::uint64_t seed = 1;
  double z_range = 0.1;
  const Series* data =
      nullptr;  // Z starts at the data (missing: last value before, else first after); null: uniform
  ObservedAround around = {};      // data, on a process grid
  std::vector<bool> learned = {};  // steps of the data to use; the others count as missing; empty: all
  bool persistence = false;  // one-layer dynamics start as z_t = z_{t−1}; false: uniform in ±1/√inputs
};

/// Spatio-temporal neural network: Ziat, Delasalles, Denoyer, Gallinari, "Spatio-temporal neural networks for
/// space-time series forecasting and relations discovery", ICDM 2017.
///
///     context_t = [Z_t, W_1 Z_t, …, W_R Z_t]     (n, (R+1)·d)
///     L_dec = mean (D z_{t,i} − x_{t,i})²         over the observed entries of the batch
///     L_dyn = λ · mean (z_{t,i} − φ(g(context_{t−1,i})))² + l2_z · mean (z_{t,i} − z_{t−1,i})² + l1_rel ·
///     mean |W̃|
///
/// Parameters: factors (T, n, d), decoder_weight (m, d), dynamics<l>_weight (out, in), dynamics<l>_bias
/// (out), and those of the relations. The model is forward code over ops and does not depend on the number of
/// ranks. On a process grid, a time group has the factors of its steps and borrows the step before them if a
/// batch needs it. Every group holds all other parameters.
template <class T>
class Stnn {
 public:
  /// `rows` are the global rows that this rank owns, in local order; they seed the random numbers. `link`
  /// connects to the other time groups; null if there are none.
  Stnn(const StnnOptions& options, std::unique_ptr<Relations<T>> relations, std::vector<GlobalRow> rows,
       RowLink* link = nullptr);

  /// Sets every parameter's start value as a function of seed and global indices.
  void start(const StnnStart& start);

  /// Records the losses of a batch. `step` counts optimiser steps and seeds dropout. Collective.
  void losses(Tape<T>& tape, const Batch& batch, const Series& series, Index step, Losses& losses);

  /// Returns φ(g(context(z))) for z (rows, B, d). Collective.
  [[nodiscard]] Var<T> advance(Tape<T>& tape, const Var<T>& z);

  /// Returns D z: (rows, B, d) → (rows, B, m).
  [[nodiscard]] Var<T> decode(Tape<T>& tape, const Var<T>& z);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() const { return all_; }
  [[nodiscard]] Parameter<T>& parameter(std::string_view name) const;
  [[nodiscard]] Parameter<T>& factors() { return *factors_; }
  [[nodiscard]] const Parameter<T>& factors() const { return *factors_; }
  /// D (m, d); null if the decoder is the identity.
  [[nodiscard]] Parameter<T>* decoder() const { return decoder_.get(); }
  [[nodiscard]] const StnnOptions& options() const { return options_; }
  /// Returns the latents (rows, d) of a step that this group holds, for kernels of `on` (null: the host).
  [[nodiscard]] const T* latents(Index step, const Device* on = nullptr) const {
    require(options_.held.contains(step), "latents that this group holds");
    return factors_->data(on) + (step - options_.held.first) * factors_->shape[1] * factors_->shape[2];
  }
  [[nodiscard]] const Relations<T>& relations() const { return *relations_; }
  [[nodiscard]] std::span<const GlobalRow> rows() const { return rows_; }
  /// Returns the memory of the lists by node, in bytes.
  [[nodiscard]] std::size_t list_bytes() const {
    const bool drops = options_.dropout_z > 0 || options_.dropout_dynamics > 0;
    return rows_.size() * (sizeof(GlobalRow) + (drops ? sizeof(Index) : 0)) + relations_->list_bytes();
  }

 private:
  void decoder_loss(Tape<T>& tape, const Batch& batch, const Var<T>& z, const Series& series, Losses& losses);
  void decoder_loss_in_one_pass(Tape<T>& tape, const Batch& batch, const Series& series, Losses& losses);
  /// If `target` is null, the loss reads the latents in place (in_one_pass).
  void dynamics_loss(Tape<T>& tape, const Batch& batch, std::span<const Index> times, const Var<T>* target,
                     Index step, Losses& losses);
  void relation_loss(Tape<T>& tape, Losses& losses);
  [[nodiscard]] bool in_one_pass(const Tape<T>& tape, const Batch& batch) const;
  [[nodiscard]] std::span<const Index> rows_in_place(Tape<T>& tape, const Batch& batch);
  [[nodiscard]] std::span<const Index> held_places(std::span<const Index> times);
  [[nodiscard]] Var<T> embed(Tape<T>& tape, const Batch& batch, std::span<const Index> times);
  [[nodiscard]] Var<T> embed_sources(Tape<T>& tape, const Batch& batch);
  [[nodiscard]] Var<T> drop_z(Tape<T>& tape, const Var<T>& z, const Batch& batch,
                              std::span<const Index> times, Index step, std::uint64_t use);
  [[nodiscard]] Var<T> predicted(Tape<T>& tape, const Batch& batch, std::span<const Index> sources,
                                 const Var<T>& z, Index step);
  [[nodiscard]] Var<T> relate(Tape<T>& tape, const Var<T>& z);
  void train_relations(const Block<T>& block) const;
  [[nodiscard]] Var<T> finish_layers(Tape<T>& tape, Var<T> h, const Random* dropout,
                                     std::span<const Index> row_keys, std::span<const Index> col_keys);
  [[nodiscard]] Var<T> activate(Tape<T>& tape, const Var<T>& h);

  StnnOptions options_;
  std::unique_ptr<Relations<T>> relations_;
  std::vector<GlobalRow> rows_;
  RowLink* link_;
  std::unique_ptr<Parameter<T>> factors_;
  std::unique_ptr<Parameter<T>> decoder_;
  std::vector<std::unique_ptr<Parameter<T>>> weights_;  // of the dynamics, by layer
  std::vector<std::unique_ptr<Parameter<T>>> biases_;
  std::vector<std::string> layer_names_;
  std::vector<Parameter<T>*> all_;
  std::uint64_t seed_ = 1;
  // Lists of a step, kept so that a step allocates nothing.
  std::vector<Index> all_steps_, sources_, targets_, places_, row_keys_, col_keys_;
  std::vector<Sample> samples_;
};

}  // namespace rossby
