#pragma once

#include "rossby/kernels/cpu/simd/sparse_columns.hpp"

// The adjoint of sparse_columns.hpp: dz, dA and the gradients of entries, strip by strip.

namespace rossby::cpu::ROSSBY_ISA {

#if defined(__AVX2__)

/// Gradients of entries, whose sums over lanes are taken eight at a time.
template <class T>
struct EntryGradients {
  using V = Vec<T, lanes<T>>;
  V products[8];
  Index entries[8];
  int count = 0;

  ROSSBY_INLINE void add(const SparseLayer<T>& layer, Index entry, V product, T* dm) {
    products[count] = product;
    entries[count++] = entry;
    if (count == 8) flush(layer, dm);
  }
  ROSSBY_INLINE void flush(const SparseLayer<T>& layer, T* dm) {
    for (int q = count; q < 8; ++q) products[q] = V{};
    T sums[8];
    eight_sums<T, lanes<T>>(products, sums);
    for (int q = 0; q < count; ++q)
      dm[entries[q]] += learned_gradient(layer.weight[entries[q]], layer.clamped, sums[q]);
    count = 0;
  }
};

template <int D, int R, bool learned, class T>
inline void backward_strips(const SideBySide<T> plan, const SparseLayer<T> layer,
                            const SparseColumns<T> columns, const T* shared, T* group, Index strip) {
  using V = Vec<T, lanes<T>>;
  constexpr Index L = lanes<T>;
  const ColumnStrips by = plan.by;
  const bool ends = strip + R == by.strips;
  const Strips<T, R> in(by.in, ends ? by.last_in : by.in);
  const Strips<T, R> out(by.out, ends ? by.last_out : by.out);
  const Index width = layer.cols * plan.w;
  const T* delta = columns.delta + strip * by.out;
  const LanePlaces<0, T> inputs(shared + plan.inputs());
  const LanePlaces<D, T> outputs(shared + plan.outputs());
  EntryGradients<T> gradients;
  for (Index row = columns.begin; row < columns.begin + columns.count; ++row) {
    const Index j = columns.first + row, here = row * layer.cols * plan.d + strip * by.in;
    V z[R], u[R];
    StripSums<T, R> dz;
    dz.clear();
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      z[r] = in.load(columns.z + here, r);
      if (columns.dz) dz.even[r] = in.load(columns.dz + here, r);
    }
    // Each input of z under all outputs, for all relations.
    V z_of[D > 0 ? D : most_channels][R];
    if constexpr (learned)
      each_channel<D>(plan.d, [&](Index f) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) z_of[f][r] = inputs.put(z[r], f);
      });
    // dz and dA_k of u, a list's sum of gradients.
    const auto backward = [&](const T* weights, T* sums) {
      each_channel<D>(plan.w, [&](Index o) {
        const V a = held(load<V>(weights + o * L));
        V sum = load<V>(sums + o * L);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const V x = outputs.put(u[r], o);
          dz.add(o, r, x, a);
          sum += x * z[r];
        }
        store(sums + o * L, sum);
      });
    };
    const T* weights = shared + plan.backward();
    const T* products = shared + plan.forward();
    T* sums = group;
    if (layer.self) {
      V bias = load<V>(group + plan.bias_sums());
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        u[r] = out.load(delta + j * width, r);
        bias += u[r];
      }
      store(group + plan.bias_sums(), bias);
      backward(weights, sums);
      weights += plan.w * L;
      products += plan.d * L;
      sums += plan.w * L;
    }
    const LocalEntry* list = layer.t_ptr + j * layer.relations;
    Index s = list[0];
    for (Index k = 0; k < layer.relations;
         ++k, weights += plan.w * L, products += plan.d * L, sums += plan.w * L) {
      const Index end = list[k + 1];
      if (s == end) continue;
      V y[R];
      if constexpr (learned) {
        StripSums<T, R> sums_of_inputs;
        sums_of_inputs.clear();
        each_channel<D>(plan.d, [&](Index f) {
          const V a = held(load<V>(products + f * L));
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) sums_of_inputs.add(f, r, z_of[f][r], a);
        });
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) y[r] = sums_of_inputs.sum(r);
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) u[r] = V{};
      for (; s < end; ++s) {
        const Index e = layer.t_entry[s];
        const T* x = delta + Index{layer.t_row[s]} * width;
        const V weight = splat<V>(effective_weight(layer.weight[e], layer.clamped));
        V product{};
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const V v = out.load(x, r);
          u[r] += weight * v;
          if constexpr (learned) product += v * y[r];
        }
        if constexpr (learned) gradients.add(layer, e, product, columns.dm);
      }
      backward(weights, sums);
    }
    if (!columns.dz) continue;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) in.store(columns.dz + here, dz.sum(r), r);
  }
  if constexpr (learned) gradients.flush(layer, columns.dm);
}

template <class T>
inline void backward_columns(const SparseLayer<T>& layer, const SparseColumns<T>& columns, const T* shared,
                             T* group) {
  const SideBySide<T> plan(layer);
  const Index block = rows_a_block(plan, layer, columns.count);
  with_channels(layer.d, layer.w, [&]<int D>() {
    for (Index begin = 0; begin < columns.count; begin += block) {
      SparseColumns<T> some = columns;
      some.begin += begin;
      some.count = columns.count - begin < block ? columns.count - begin : block;
      each_strips(plan.by.strips, [&]<int R>(Index strip) {
        if (some.dm)
          backward_strips<D, R, true>(plan, layer, some, shared, group, strip);
        else
          backward_strips<D, R, false>(plan, layer, some, shared, group, strip);
      });
    }
  });
}

#endif

}  // namespace rossby::cpu::ROSSBY_ISA
