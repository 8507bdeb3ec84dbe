#include "rossby/kernels/cpu/simd/sparse.hpp"

#include "rossby/kernels/cpu/simd/narrow.hpp"
#include "rossby/kernels/cpu/simd/sparse_columns_backward.hpp"
#include "rossby/kernels/cpu/simd/sparse_direct.hpp"
#include "rossby/kernels/cpu/simd/sparse_scalar.hpp"

// Sparse relations with any number of channels: the context of a tile of rows in planes, then one narrow
// product over all relations.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Bytes of a tile's planes: they stay in the first-level cache next to the data read and written.
constexpr Index tile_bytes = 16384;

/// Entries go through their weights one by one: about one entry per list, and columns that fill registers.
template <class T>
bool direct(const SparseLayer<T>& layer) {
  return layer.cols >= 8 && layer.cols % columns_together == 0 &&
         2 * layer.entries <= 3 * layer.rows * layer.relations;
}

/// Tiles of a layer, and places of its arrays in the shared and the group's memory.
template <class T>
struct Plan {
  Index planes, width_in, width_out;
  Index tile;                         // rows
  Lanes forward, backward, products;  // h from contexts; dz from u; y = z A_kᵀ
  Index forward_size, backward_size, products_size;
  Index u_size, y_size, repeated_size;

  explicit Plan(const SparseLayer<T>& layer)
      : planes(layer.planes()),
        width_in(layer.cols * layer.d),
        width_out(layer.cols * layer.w),
        forward(lanes_for<T>(layer.d, layer.w)),
        backward(lanes_for<T>(layer.w, layer.d)),
        products(lanes_for<T>(layer.d, layer.w)) {
    const Index wide = width_in > width_out ? width_in : width_out;
    const Index bytes = planes * wide * static_cast<Index>(sizeof(T));
    tile = bytes > 0 ? tile_bytes / bytes : 64;
    tile = tile < 1 ? 1 : tile > 64 ? 64 : tile;
    forward_size = packed_size(forward, planes);
    backward_size = packed_size(backward, planes);
    products_size = layer.relations * packed_size(products, 1);
    u_size = planes * tile * wide;
    y_size = layer.relations * tile * width_out;
    repeated_size = tile * layer.cols * backward.outputs * backward.inputs;
  }
  // Shared memory: packed weights of the three products.
  [[nodiscard]] Index shared() const { return forward_size + backward_size + products_size; }
  // A group's memory: sums of dA and of the bias (one row's width); planes, y, repeated rows of z.
  [[nodiscard]] Index sums() const { return backward_size + width_out; }
  [[nodiscard]] Index group() const { return sums() + u_size + y_size + repeated_size; }
};

template <class T>
ROSSBY_INLINE void copy(Index width, const T* x, T* y) {
  map_registers(
      width, [](auto, auto v) { return v; }, y, x);
}
template <class T>
ROSSBY_INLINE void scaled(Index width, T factor, const T* x, T* y) {
  map_registers(
      width, [&]<class V>(V, V v) { return splat<V>(factor) * v; }, y, x);
}
template <class T>
ROSSBY_INLINE void add_scaled(Index width, T factor, const T* x, T* y) {
  map_registers(
      width, [&]<class V>(V sum, V v) { return sum + splat<V>(factor) * v; }, y, x);
}

/// The first entry of a list writes, the others add; an empty list leaves zeros.
template <class T, class Entry>
ROSSBY_INLINE void weighted_sum(Index width, Index from, Index to, T* out, const Entry& entry) {
  if (from == to) {
    for (Index q = 0; q < width; ++q) out[q] = T(0);
    return;
  }
  const auto [weight, x] = entry(from);
  scaled(width, weight, x, out);
  for (Index e = from + 1; e < to; ++e) {
    const auto [more, y] = entry(e);
    add_scaled(width, more, y, out);
  }
}

template <class T>
struct Weighted {
  T weight;
  const T* x;
};

/// dm[e] += ⟨δ[row_e], y_k[column]⟩ over a tile.
template <class T>
void sampled(const SparseLayer<T>& layer, const SparseColumns<T>& columns, Index width, Index tile,
             const T* y) {
  for (Index q = 0; q < columns.count; ++q) {
    const Index slot = (columns.first + columns.begin + q) * layer.relations;
    for (Index s = layer.t_ptr[slot]; s < layer.t_ptr[slot + layer.relations]; ++s) {
      const Index e = layer.t_entry[s];
      const T gradient = inner_product(width, columns.delta + Index{layer.t_row[s]} * width,
                                       y + (layer.t_relation[s] * tile + q) * width);
      columns.dm[e] += learned_gradient(layer.weight[e], layer.clamped, gradient);
    }
  }
}

template <class T>
void backward_tile(const SparseLayer<T>& layer, const Plan<T>& plan, const SparseColumns<T>& columns,
                   const T* shared, T* group) {
  const Index width = plan.width_out;
  const Index plane = plan.tile * width;
  const Index rows = columns.count * layer.cols;
  T* u = group + plan.sums();
  T* y = u + plan.u_size;
  T* repeated = y + plan.y_size;
  T* to = u;
  if (layer.self) {
    const T* delta = columns.delta + (columns.first + columns.begin) * width;
    copy(columns.count * width, delta, to);
    for (Index q = 0; q < columns.count; ++q)
      add_scaled(width, T(1), delta + q * width, group + plan.backward_size);
    to += plane;
  }
  for (Index k = 0; k < layer.relations; ++k, to += plane)
    for (Index q = 0; q < columns.count; ++q) {
      const Index slot = (columns.first + columns.begin + q) * layer.relations + k;
      weighted_sum(width, Index{layer.t_ptr[slot]}, Index{layer.t_ptr[slot + 1]}, to + q * width,
                   [&](Index s) {
                     return Weighted<T>{effective_weight(layer.weight[layer.t_entry[s]], layer.clamped),
                                        columns.delta + Index{layer.t_row[s]} * width};
                   });
    }
  const T* z = columns.z + columns.begin * plan.width_in;
  if (columns.dz)
    multiply(plan.backward,
             NarrowProduct<T>{u, plane, plan.planes, layer.w, shared + plan.forward_size,
                              columns.dz + columns.begin * plan.width_in, rows, layer.d, nullptr, true});
  adjoint(plan.backward, NarrowAdjoint<T>{u, plane, plan.planes, layer.w, z, rows, layer.d, repeated, group});
  if (!columns.dm) return;
  const T* packed = shared + plan.forward_size + plan.backward_size;
  const Index one = packed_size(plan.products, 1);
  for (Index k = 0; k < layer.relations; ++k)
    multiply(plan.products, NarrowProduct<T>{z, 0, 1, layer.d, packed + k * one, y + k * plane, rows, layer.w,
                                             nullptr, false});
  sampled(layer, columns, width, plan.tile, y);
}

// The ways of a layer. All have the functions of SparseKernels; group memory begins with the sums of
// backward().

/// Any number of channels: contexts in planes. Forward and backward go without planes if entries go through
/// their weights in place.
template <class T>
struct Planes {
  const SparseLayer<T>& layer;
  Plan<T> plan;

  explicit Planes(const SparseLayer<T>& of) : layer(of), plan(of) {}
  [[nodiscard]] Index shared() const { return plan.shared(); }
  [[nodiscard]] Index group() const { return plan.group(); }
  [[nodiscard]] Index sums() const { return plan.sums(); }
  /// Packs all planes' weights, the identity's first, in the layout of the three products.
  void prepare(T* shared) const {
    const Index d = layer.d, w = layer.w;
    // Packs one plane into place: planes of one block of outputs follow each other.
    const auto pack = [&](const Lanes& by, Index outer, Index in_stride_self, Index out_stride_self,
                          Index in_stride, Index out_stride, Index planes_self, T* to) {
      const Index piece = by.groups * by.outputs * by.inputs;
      const Index planes = planes_self + layer.relations;
      for (Index block = 0; block < by.blocks; ++block)
        for (Index k = 0; k < planes; ++k) {
          const bool own = k < planes_self;
          const T* a = own ? layer.self : layer.a + (k - planes_self) * d;
          Lanes one = by;
          one.blocks = 1;
          const Index first = block * by.outputs;
          pack_weights(one, Index{1}, outer - first, a + first * (own ? out_stride_self : out_stride),
                       Index{0}, own ? in_stride_self : in_stride, own ? out_stride_self : out_stride,
                       to + (block * planes + k) * piece);
        }
    };
    const Index self = layer.self ? 1 : 0;
    pack(plan.forward, w, 1, layer.self_stride, 1, layer.a_stride, self, shared);
    pack(plan.backward, d, layer.self_stride, 1, layer.a_stride, 1, self, shared + plan.forward_size);
    T* products = shared + plan.forward_size + plan.backward_size;
    const Index one = packed_size(plan.products, 1);
    for (Index k = 0; k < layer.relations; ++k)
      pack_weights(plan.products, Index{1}, w, layer.a + k * d, Index{0}, Index{1}, layer.a_stride,
                   products + k * one);
  }
  void forward(const SparseRows<T>& rows, const T* shared, T* group) const {
    if (direct(layer) && with_full_lanes<T>(plan.forward, [&]<int N, int S, int G>() {
          forward_direct<N, S, G>(layer, rows, shared);
        }))
      return;
    const Index width = plan.width_in;
    T* planes = group + plan.sums();
    T* out = planes + plan.u_size;  // a tile of h
    const T* ghost = rows.ghost ? rows.ghost - rows.owned_rows * width : nullptr;
    for (Index begin = 0; begin < rows.count; begin += plan.tile) {
      const Index count = rows.count - begin < plan.tile ? rows.count - begin : plan.tile;
      const Index plane = plan.tile * width;
      T* to = planes;
      if (layer.self) {
        for (Index q = 0; q < count; ++q)
          copy(width, rows.owned + Index{rows.rows[begin + q]} * width, to + q * width);
        to += plane;
      }
      for (Index k = 0; k < layer.relations; ++k, to += plane)
        for (Index q = 0; q < count; ++q) {
          const Index slot = Index{rows.rows[begin + q]} * layer.relations + k;
          weighted_sum(width, Index{layer.ptr[slot]}, Index{layer.ptr[slot + 1]}, to + q * width,
                       [&](Index e) {
                         const Index c = layer.column[e];
                         return Weighted<T>{effective_weight(layer.weight[e], layer.clamped),
                                            (c < rows.owned_rows ? rows.owned : ghost) + c * width};
                       });
        }
      // Rows of a tile are written in place if they are contiguous, else through `out`.
      const LocalColumn first = rows.rows[begin];
      const bool together = rows.rows[begin + count - 1] - first == count - 1;
      T* h = rows.h + Index{first} * plan.width_out;
      multiply(plan.forward,
               NarrowProduct<T>{planes, plane, plan.planes, layer.d, shared, together ? h : out,
                                count * layer.cols, layer.w, layer.bias, together && !layer.self});
      if (together) continue;
      for (Index q = 0; q < count; ++q) {
        T* row = rows.h + Index{rows.rows[begin + q]} * plan.width_out;
        if (layer.self)
          copy(plan.width_out, out + q * plan.width_out, row);
        else
          add_scaled(plan.width_out, T(1), out + q * plan.width_out, row);
      }
    }
  }
  void backward(const SparseColumns<T>& columns, const T* shared, T* group) const {
    const T* packed = shared + plan.forward_size;
    T* repeated = group + plan.sums() + plan.u_size + plan.y_size;
    if (direct(layer) && with_full_lanes<T>(plan.backward, [&]<int N, int S, int G>() {
          backward_direct<N, S, G>(layer, columns, packed, group, group + plan.backward_size, repeated);
        }))
      return;
    for (Index done = 0; done < columns.count; done += plan.tile) {
      SparseColumns<T> tile = columns;
      tile.begin += done;
      tile.count = columns.count - done < plan.tile ? columns.count - done : plan.tile;
      backward_tile(layer, plan, tile, shared, group);
    }
  }
  void collect(const T* group, T* da, Index da_stride, T* dself, Index dself_stride, T* dbias) const {
    const Lanes& by = plan.backward;
    const Index piece = by.groups * by.outputs * by.inputs;
    const Index self = layer.self ? 1 : 0;
    for (Index block = 0; block < by.blocks; ++block)
      for (Index k = 0; k < plan.planes; ++k) {
        const bool own = k < self;
        T* to = own ? dself : da ? da + (k - self) * layer.d : nullptr;
        if (!to) continue;
        Lanes one = by;
        one.blocks = 1;
        const Index first = block * by.outputs;
        unpack_add(one, Index{1}, layer.d - first, group + (block * plan.planes + k) * piece, Index{0},
                   own ? dself_stride : da_stride, Index{1}, to + first);
      }
    for (Index q = 0; dbias && q < plan.width_out; ++q) dbias[q % layer.w] += group[plan.backward_size + q];
  }
};

/// One channel in and out: no planes, one factor per relation.
template <class T>
struct OneChannel {
  const SparseLayer<T>& layer;

  [[nodiscard]] Index shared() const { return 0; }
  [[nodiscard]] Index group() const { return layer.relations + 2; }
  [[nodiscard]] Index sums() const { return group(); }
  void prepare(T*) const {}
  void forward(const SparseRows<T>& rows, const T*, T*) const { forward_one(layer, rows); }
  void backward(const SparseColumns<T>& columns, const T*, T* group) const {
    backward_one(layer, columns, group);
  }
  void collect(const T* group, T* da, Index, T* dself, Index, T* dbias) const {
    for (Index k = 0; da && k < layer.relations; ++k) da[k] += group[k];
    if (dself) *dself += group[layer.relations];
    if (dbias) *dbias += group[layer.relations + 1];
  }
};

#if defined(__AVX2__)
/// Few channels: a register holds several columns.
template <class T>
struct Columns {
  const SparseLayer<T>& layer;
  SideBySide<T> by;

  explicit Columns(const SparseLayer<T>& of) : layer(of), by(of) {}
  [[nodiscard]] Index shared() const { return by.shared(); }
  [[nodiscard]] Index group() const { return by.group(); }
  [[nodiscard]] Index sums() const { return by.group(); }
  void prepare(T* shared) const { by.prepare(layer, shared); }
  void forward(const SparseRows<T>& rows, const T* shared, T*) const { forward_columns(layer, rows, shared); }
  void backward(const SparseColumns<T>& columns, const T* shared, T* group) const {
    backward_columns(layer, columns, shared, group);
  }
  void collect(const T* group, T* da, Index da_stride, T* dself, Index dself_stride, T* dbias) const {
    by.collect(layer, group, da, da_stride, dself, dself_stride, dbias);
  }
};
#endif

/// Calls use(way) with the fastest way of a layer.
template <class T, class Use>
ROSSBY_INLINE auto choose(const SparseLayer<T>& layer, const Use& use) {
  if (layer.d == 1 && layer.w == 1) return use(OneChannel<T>{layer});
#if defined(__AVX2__)
  if constexpr (permutes<T>)
    if (columns_side_by_side(layer, direct(layer))) return use(Columns<T>(layer));
#endif
  return use(Planes<T>(layer));
}

template <class T>
Index shared_size(const SparseLayer<T>& layer) {
  return choose(layer, [](const auto& way) { return way.shared(); });
}
template <class T>
Index group_size(const SparseLayer<T>& layer) {
  return choose(layer, [](const auto& way) { return way.group(); });
}
template <class T>
void prepare(const SparseLayer<T>& layer, T* shared) {
  choose(layer, [&](const auto& way) { way.prepare(shared); });
}
template <class T>
void forward(const SparseLayer<T>& layer, const SparseRows<T>& rows, const T* shared, T* group) {
  choose(layer, [&](const auto& way) { way.forward(rows, shared, group); });
}
template <class T>
void clear(const SparseLayer<T>& layer, T* group) {
  const Index size = choose(layer, [](const auto& way) { return way.sums(); });
  for (Index q = 0; q < size; ++q) group[q] = T(0);
}
template <class T>
void backward(const SparseLayer<T>& layer, const SparseColumns<T>& columns, const T* shared, T* group) {
  choose(layer, [&](const auto& way) { way.backward(columns, shared, group); });
}
template <class T>
void collect(const SparseLayer<T>& layer, const T* group, T* da, Index da_stride, T* dself,
             Index dself_stride, T* dbias) {
  choose(layer, [&](const auto& way) { way.collect(group, da, da_stride, dself, dself_stride, dbias); });
}

}  // namespace

ROSSBY_TABLE(SparseKernels, shared_size<T>, group_size<T>, prepare<T>, forward<T>, clear<T>, backward<T>,
             collect<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
