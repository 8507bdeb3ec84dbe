#pragma once

#include <memory>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/exchange.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/kernels/spmm.hpp"

namespace rossby {

/// How the recursions of several supports start.
enum class DiffusionVariant {
  paper,   // each support starts from the signal: Li et al., ICLR 2018
  legacy,  // a support starts from the last but one term of the previous support, as in the widely used code
  powers   // no recursion: S_s x, S_s² x, … for each support (Wu et al., "Graph WaveNet", IJCAI 2019)
};

/// The terms of a diffusion convolution over S supports: K-step Chebyshev recursions,
///
///     z_0 = x;   a = start_s, b = S_s a;   K − 1 times (a, b) = (b, 2 S_s b − a)
///
/// where start_s = z_0 (paper; powers, where 2 S_s b − a becomes S_s b), or, for s > 0, the last but one of
/// the previous support's z_0, …, z_K (legacy). Products are grouped in levels: all products of a level need
/// only one exchange of ghosts.
///
/// Terms are numbered 0 (the signal), then by order k = 1…K, support fastest: term of (k, s) = 1 + (k − 1)·S
/// + s. Li, Yu, Shahabi, Liu, "Diffusion convolutional recurrent neural network", ICLR 2018, eq. 2.
struct DiffusionPlan {
  struct Product {
    int support;
    int from;
    int to;
    int minus = -1;  // z_to = 2 S z_from − z_minus; −1: z_to = S z_from
    [[nodiscard]] double alpha() const { return minus >= 0 ? 2.0 : 1.0; }
  };
  /// Contribution of a level to a term's gradient: alpha·Sᵀ times the gradient of term `from`, or alpha times
  /// that gradient if support < 0.
  struct Share {
    int support;
    int from;
    double alpha;
  };
  struct Gradient {
    int of;
    std::vector<Share> shares;
  };
  struct Level {
    int first;  // terms [first, first + count) are gathered
    int count;
    std::vector<Product> products;
    std::vector<Gradient> gradients = {};  // by term, gathered terms first
  };

  int terms = 1;
  int steps = 0;
  DiffusionVariant variant = DiffusionVariant::paper;
  std::vector<Level> levels;

  DiffusionPlan() = default;
  DiffusionPlan(int supports, int steps, DiffusionVariant variant);
};

/// A plan on one rank's row block. Without supports, term 0 is the only term.
template <class T>
struct Diffusion {
  DiffusionPlan plan;
  const CsrBlock* block = nullptr;  // relation s is support s
  Buffer<T> weight;                 // (entries)
  std::vector<double> entries;      // per support
  Exchange* exchange = nullptr;
  /// True if this rank owns all rows; then nothing is exchanged. On the host, a few columns at a time pass
  /// through all levels while they are in the cache, and backward recomputes the terms. On a device terms are
  /// kept. If a column fits in shared memory, one kernel computes all levels; otherwise one kernel per level.
  bool alone = false;
  /// Multiplies on a device instead of Rossby's kernels; null: Rossby's kernels multiply.
  std::shared_ptr<SparseLibrary<T>> sparse_library;

  /// `graph` and `ghosts` must outlive it.
  Diffusion(const CsrBlock& graph, Exchange& ghosts, int steps, DiffusionVariant variant)
      : plan(graph.relations, steps, variant),
        block(&graph),
        weight(graph.entries()),
        entries(static_cast<std::size_t>(graph.relations), 0.0),
        exchange(&ghosts) {
    for (Index e = 0; e < graph.entries(); ++e)
      weight[e] = static_cast<T>(graph.value[static_cast<std::size_t>(e)]);
    for (Index i = 0; i < graph.rows; ++i)
      for (std::size_t s = 0; s < entries.size(); ++s) {
        const std::size_t row = static_cast<std::size_t>(i) * entries.size() + s;
        entries[s] += static_cast<double>(graph.ptr[row + 1] - graph.ptr[row]);
      }
  }
  Diffusion() = default;

  /// Weights for kernels of `device` (null: the host).
  [[nodiscard]] const T* weights(Device* device) const {
    return device ? device->on_device(weight.span()) : weight.data();
  }
  /// Support s as a matrix for kernels of `device` (null: the host).
  [[nodiscard]] SparseMatrix<T> support(Device* device, int s) const {
    return {block, s, weights(device), device ? sparse_library.get() : nullptr};
  }
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const {
    std::vector<Device::Copy> copies;
    copies.push_back(device.keep(weight.span()));
    if (block) rossby::keep_on(device, *block, copies);
    return copies;
  }
};

/// Returns y (rows, B, out) = Σ_k z_k(x) W_kᵀ + bias: a diffusion convolution of x (rows, B, c). `weight` is
/// (out, terms·c), and its block k of c columns belongs to term k; `bias` is (out) or null. Collective if the
/// exchange is. Interior rows are computed while ghosts travel, and owned columns of the adjoint while ghost
/// gradients travel. If `add_bias` is false, the reader of y adds the bias, but this op still accumulates the
/// gradient of the bias.
template <class T>
[[nodiscard]] Var<T> diffusion_linear(Tape<T>& tape, const Diffusion<T>& diffusion, const Var<T>& x,
                                      Parameter<T>& weight, std::type_identity_t<Parameter<T>>* bias,
                                      bool add_bias = true);

/// y += a diffusion convolution without a bias. y (rows, B, out) may be some channels of a packed value. Same
/// conditions on y as in linear_accumulate.
template <class T>
void diffusion_linear_accumulate(Tape<T>& tape, const Var<T>& y, const Diffusion<T>& diffusion,
                                 const Var<T>& x, Parameter<T>& weight);

/// Returns y (rows, B, c) = S_0 x: one step along the first support. Collective.
template <class T>
[[nodiscard]] Var<T> propagate(Tape<T>& tape, const Diffusion<T>& diffusion, const Var<T>& x);

/// Returns all terms side by side, (rows, B, terms·c), for tests and trials. Records nothing. Collective.
template <class T>
[[nodiscard]] NodeView<T> diffusion_terms(Tape<T>& tape, const Diffusion<T>& diffusion, NodeView<const T> x);
/// The adjoint: adds to dx (rows, B, c) the contributions of the gradients dz of all terms. Overwrites dz.
/// Collective.
template <class T>
void diffusion_adjoint(Tape<T>& tape, const Diffusion<T>& diffusion, NodeView<T> dz, NodeView<T> dx);

}  // namespace rossby
