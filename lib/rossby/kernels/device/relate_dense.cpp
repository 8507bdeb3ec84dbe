#include "rossby/kernels/relate_dense.hpp"

#include <type_traits>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/dense_pass.hpp"
#include "rossby/kernels/device/dense_weights.hpp"
#include "rossby/kernels/device/product.hpp"
#include "rossby/kernels/device/values.hpp"

namespace rossby::ROSSBY_DEVICE {

/// context (r, rows, B·d) = W z; if given, *weight_sum += Σ W when the device settles.
template <class T>
void multiply_weights(const Exec& exec, T* context, const DenseRelate<T>& relate, NodeView<const T> z,
                      double* weight_sum = nullptr) {
  const DenseWeights<T> weights(exec, relate);
  const Index width = z.width(), rows = relate.rows;
  const T* from = z.data;
  for (Index k = 0; k < relate.relations; ++k)
    tile_product<T>(
        exec, rows, width, relate.columns, TileOrder{},
        [=] ROSSBY_ON_DEVICE(Index i, Index j) { return weights.at(k, i, j); },
        [=] ROSSBY_ON_DEVICE(Index j, Index q) { return from[j * width + q]; },
        [=] ROSSBY_ON_DEVICE(Index i, Index q, T value) { context[(k * rows + i) * width + q] = value; },
        weight_sum);
}

template <class T>
MatrixView<const T> block_of(MatrixView<const T> a, Index relation, Index d) {
  return {a.data + relation * d, a.rows, d, a.stride};
}

/// Passes the gradient of entries of dM to its sink; returns its square if the sink is an update.
template <class T>
struct DenseSink {
  DenseWeights<T> weights;
  Index relation;
  T* buffer;
  T *theta, *m, *v;
  Bf16Arrays bf16;
  AdamConstants<T> constants;
  T l1;

  /// The present values of an entry. Several entries are loaded together, because the compiler must assume
  /// that a store changes the next load.
  struct Entry {
    T stored = T(0), first = T(0), second = T(0);
    bool exists = false;
  };
  /// The effective weight.
  [[nodiscard]] ROSSBY_ON_DEVICE T weight(const Entry& entry) const {
    return entry.exists ? effective(entry.stored, weights.clamped) : T(0);
  }
  [[nodiscard]] ROSSBY_ON_DEVICE Entry load(Index i, Index j) const {
    const Index e = (relation * weights.rows + i) * weights.columns + j;
    Entry entry{weights.stored(e), T(0), T(0), weights.exists(e)};
    if (buffer) return entry;
    if constexpr (std::is_same_v<T, float>)
      if (weights.bf16) {
        if (bf16.m) entry.first = widen(bf16.m[e]);
        entry.second = widen(bf16.v[e]);
        return entry;
      }
    if (m) entry.first = m[e];
    entry.second = v[e];
    return entry;
  }

  ROSSBY_ON_DEVICE double operator()(Index i, Index j, T gradient) const {
    return (*this)(i, j, gradient, load(i, j));
  }
  ROSSBY_ON_DEVICE double operator()(Index i, Index j, T gradient, Entry entry) const {
    const Index e = (relation * weights.rows + i) * weights.columns + j;
    gradient = entry.exists && passes_gradient(entry.stored, weights.clamped) ? gradient + l1 : T(0);
    if (buffer) {
      buffer[e] += gradient;
      return 0;
    }
    adam_step(entry.stored, entry.first, entry.second, gradient, constants);
    const double square = static_cast<double>(gradient) * static_cast<double>(gradient);
    if constexpr (std::is_same_v<T, float>)
      if (weights.bf16) {
        const RoundingBits random(bf16.rounding.row(relation, i), j);
        bf16.theta[e] = round_stochastic(entry.stored, random.theta);
        bf16.v[e] = round_stochastic(entry.second, random.v);
        if (bf16.m) bf16.m[e] = round_stochastic(entry.first, random.m);
        return square;
      }
    theta[e] = entry.stored;
    v[e] = entry.second;
    if (m) m[e] = entry.first;
    return square;
  }
};

template <class T>
DenseSink<T> sink_of(const DenseWeights<T>& weights, const DenseGradient<T>& dm,
                     const AdamConstants<T>& constants) {
  DenseSink<T> sink{weights, 0, dm.buffer, nullptr, nullptr, nullptr, {}, constants, T(0)};
  if (dm.update) {
    sink.theta = dm.update->theta;
    sink.m = dm.update->m;
    sink.v = dm.update->v;
    sink.bf16 = dm.update->bf16;
    sink.l1 = static_cast<T>(dm.update->l1);
  }
  return sink;
}

template <class T>
void relate_dense_forward(const Exec& exec, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T> workspace) {
  const Index d = z.channels, size = relate.rows * z.width();
  T* context = relate.context ? relate.context : workspace.data();
  multiply_weights(exec, context, relate, z, relate.weight_sum);
  const MatrixView<T> to(h.data, h.rows * h.cols, h.channels);
  for (Index k = 0; k < relate.relations; ++k)
    product(exec, to, Operand::plain, MatrixView<const T>(context + k * size, to.rows, d),
            Operand::transposed, block_of(relate.a, k, d), true);
}

/// dA, dz and the products g zᵀ, whose results go straight into the update. If a tile holds all columns of z,
/// this is one pass over W. With more columns, products take longer than a pass, and dz gets a pass of its
/// own.
template <class T>
void relate_dense_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                           const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                           std::span<T> workspace) {
  const DenseWeights<T> weights(exec, relate);
  const Index d = z.channels, width = z.width(), rows = relate.rows, size = rows * width;
  const MatrixView<const T> g(delta.data, delta.rows * delta.cols, delta.channels);
  const T* context = relate.context;
  if (da.data && !context) {
    multiply_weights(exec, workspace.data(), relate, z);
    context = workspace.data();
  }
  AdamConstants<T> constants{};
  if (dm.update) constants = adam_constants<T>(dm.update->step, dm.update->decoupled);
  for (Index k = 0; k < relate.relations; ++k) {
    if (da.data)
      product(exec, MatrixView<T>(da.data + k * d, da.rows, d, da.stride), Operand::transposed, g,
              Operand::plain, MatrixView<const T>(context + k * size, g.rows, d), true);
    if (!dz.data && !dm.buffer && !dm.update) continue;
    // After the context, which later relations still need.
    T* factor = workspace.data() + relate.relations * size;
    product(exec, MatrixView<T>(factor, g.rows, d), Operand::plain, g, Operand::plain,
            block_of(relate.a, k, d), false);
    const bool updates = dm.buffer || dm.update;
    DenseSink<T> sink = sink_of(weights, dm, constants);
    sink.relation = k;
    double* squares = dm.update ? dm.update->squares_to() : nullptr;
    if (dz.data && updates && width <= tile) {
      adjoint_and_update(exec, relate, width, factor, z.data, dz.data, sink, squares);
      continue;
    }
    if (dz.data) {
      T* to = dz.data;
      tile_product<T>(
          exec, relate.columns, width, rows, TileOrder{.a_down = true},
          [=] ROSSBY_ON_DEVICE(Index j, Index i) { return weights.at(k, i, j); },
          [=] ROSSBY_ON_DEVICE(Index i, Index q) { return factor[i * width + q]; },
          [=] ROSSBY_ON_DEVICE(Index j, Index q, T value) { to[j * width + q] += value; });
    }
    if (!updates) continue;
    const T* from = z.data;
    tile_product_squares<T>(
        exec, rows, relate.columns, width, TileOrder{.b_along = true},
        [=] ROSSBY_ON_DEVICE(Index i, Index q) { return factor[i * width + q]; },
        [=] ROSSBY_ON_DEVICE(Index q, Index j) { return from[j * width + q]; }, sink, squares);
  }
}

template <class T>
void relate_dense_update(const Exec& exec, DenseUpdate<T>& update, const DenseRelate<T>& relate,
                         const T* gradient) {
  const AdamConstants<T> constants = adam_constants<T>(update.step, update.decoupled);
  const DenseSink<T> sink = sink_of(DenseWeights<T>(exec, relate), DenseGradient<T>(&update), constants);
  const Index columns = relate.columns;
  sum_later(
      exec, relate.relations * relate.rows * columns,
      [=] ROSSBY_ON_DEVICE(Index e) {
        DenseSink<T> of = sink;
        of.relation = e / columns / of.weights.rows;
        return of(e / columns % of.weights.rows, e % columns, gradient[e]);
      },
      update.squares_to());
}

void adam_replay_bf16(const Exec& exec, const Bf16Arrays& arrays, Index relations, Index rows, Index columns,
                      std::span<const AdamConstants<float>> steps) {
  const AdamConstants<float>* constants = exec.device->on_device(steps);
  const Index count = std::ssize(steps);
  for_each(exec, relations * rows * columns, [=] ROSSBY_ON_DEVICE(Index e) {
    const Index row = e / columns, j = e % columns;
    float value = widen(arrays.theta[e]), first = arrays.m ? widen(arrays.m[e]) : 0.0F;
    float second = widen(arrays.v[e]);
    for (Index s = 0; s < count; ++s) adam_step(value, first, second, 0.0F, constants[s]);
    const RoundingBits random(arrays.rounding.row(row / rows, row % rows), j);
    arrays.theta[e] = round_stochastic(value, random.theta);
    arrays.v[e] = round_stochastic(second, random.v);
    if (arrays.m) arrays.m[e] = round_stochastic(first, random.m);
  });
}

template <class T>
Index relate_dense_workspace(const Exec&, const DenseRelate<T>& relate, Index cols, Index) {
  const Index d = relate.a.cols / relate.relations;
  return (relate.relations + 1) * relate.rows * cols * d;
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(relate_dense_workspace, relate_dense_forward, relate_dense_backward,
                        relate_dense_update)
ROSSBY_IMPLEMENT_DEVICE_ONE(adam_replay_bf16)
