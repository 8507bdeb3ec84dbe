#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_hop.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Registers that go through missed updates together: each update waits for the one before, and other
// registers fill the gaps. The instruction set's register count limits them.
template <bool with_m>
constexpr int together = register_bytes == 64 ? (with_m ? 4 : 8) : 2;

// Prefetch distance in registers: with fast memory, a shorter distance comes too late.
constexpr Index registers_ahead = 32;

template <bool with_m, bool decoupled, class T>
struct Piece {
  using V = Vec<T, lanes<T>>;
  T* theta;
  T* m;
  T* v;
  const T* gradient;
  const AdamConstants<T>* missed;
  Index count;
  const AdamConstants<T>* now;
  Hops hops;

  /// Prefetches the data at k, because much is computed before the loop reaches it.
  ROSSBY_INLINE void fetch(Index k) const {
    __builtin_prefetch(theta + k);
    __builtin_prefetch(v + k);
    if (with_m) __builtin_prefetch(m + k);
    if (now && gradient) __builtin_prefetch(gradient + k);
  }

  /// Missed updates from `first` up to `last` on `registers` registers, a few at a time.
  template <int registers>
  ROSSBY_INLINE void replay(V* value, V* moment, V* second, Index first, Index last) const {
    constexpr int step = registers % 4 == 0 ? 4 : 1;
    for (Index q = first; q < last; ++q)
#pragma GCC unroll 8
      for (int r = 0; r < registers; r += step)
        adam_lanes<step, with_m, decoupled, false>(value + r, moment + r, second + r, value, missed[q]);
  }

  /// Missed updates from `first` on, then `now`, on some registers.
  template <int registers>
  ROSSBY_INLINE void block(Index k, Index first) const {
    constexpr int step = registers % 4 == 0 ? 4 : 1;
    V value[registers], moment[registers], second[registers];
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      value[r] = load<V>(theta + k + r * lanes<T>);
      second[r] = load<V>(v + k + r * lanes<T>);
      moment[r] = with_m ? load<V>(m + k + r * lanes<T>) : V{};
      if constexpr (registers > 1) fetch(k + (r + registers_ahead) * lanes<T>);
    }
    replay<registers>(value, moment, second, first, count);
    if (now) {
      V g[registers];
#pragma GCC unroll 8
      for (int r = 0; r < registers; ++r) g[r] = gradient ? load<V>(gradient + k + r * lanes<T>) : V{};
#pragma GCC unroll 8
      for (int r = 0; r < registers; r += step)
        adam_lanes<step, with_m, decoupled>(value + r, moment + r, second + r, g + r, *now);
    }
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      store(theta + k + r * lanes<T>, value[r]);
      store(v + k + r * lanes<T>, second[r]);
      if (with_m) store(m + k + r * lanes<T>, moment[r]);
    }
  }

  /// block() of whole registers from value `begin` up to `end`.
  ROSSBY_INLINE void blocks(Index begin, Index end, Index first) const {
    Index k = begin;
    for (; k + together<with_m> * lanes<T> <= end; k += together<with_m> * lanes<T>)
      block<together<with_m>>(k, first);
    for (; k < end; k += lanes<T>) block<1>(k, first);
  }

  /// All updates of whole registers.
  void registers(Index end) const {
    if (hops.count == 0) return blocks(0, end, 0);
    if constexpr (sizeof(T) == 4)
      for (Index k = 0; k < end; k += hopped_together) {
        const Index last = k + hopped_together < end ? k + hopped_together : end;
        Index done = 0;
        for (Index h = 0; h < hops.count; done += hops.first[h].updates, ++h) {
          const AdamHop& whole = hops.first[h];
          Overdue<with_m> overdue;
          hop<with_m>(theta, m, v, k, last, whole, h == 0, overdue);
          if (overdue.size == 0) continue;
          const Index all = overdue.pad();
          Hops parts;
          if (whole.parts > 0) parts = {hops.parts + h * Hops::most_parts, whole.parts};
          const Piece rest{overdue.theta, overdue.m,     overdue.v, nullptr,
                           missed + done, whole.updates, nullptr,   parts};
          rest.registers(all);
          overdue.put_back(theta, m, v);
        }
        if (done < count || now) blocks(k, last, done);
      }
  }

  /// The last values, in a register of their own with the same arithmetic.
  ROSSBY_INLINE void rest(Index k, Index size) const {
    T values[3][lanes<T>] = {}, g[lanes<T>] = {};
    for (Index q = k; q < size; ++q) {
      values[0][q - k] = theta[q];
      values[1][q - k] = with_m ? m[q] : T(0);
      values[2][q - k] = v[q];
      g[q - k] = gradient ? gradient[q] : T(0);
    }
    for (Index q = size - k; hops.count > 0 && q < lanes<T>; ++q)
      values[2][q] = 1;  // so that a hop holds for padding
    const Piece last{values[0], values[1], values[2], g, missed, count, now, hops};
    last.registers(lanes<T>);
    for (Index q = k; q < size; ++q) {
      theta[q] = values[0][q - k];
      if (with_m) m[q] = values[1][q - k];
      v[q] = values[2][q - k];
    }
  }

  void run(Index size) const {
    const Index whole = size / lanes<T> * lanes<T>;
    registers(whole);
    if (whole < size) rest(whole, size);
  }
};

template <class T>
void update(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed, Index count,
            const AdamConstants<T>* now, const Hops& hops) {
  // A value that only its decay moves shrinks by a factor each step; so do its gradient and second moment.
  const FlushSubnormals flush;
  bool keeps = !now || now->keep == T(1);
  for (Index q = 0; q < count; ++q) keeps = keeps && missed[q].keep == T(1);
  if (m && keeps)
    Piece<true, false, T>{theta, m, v, gradient, missed, count, now, hops}.run(size);
  else if (m)
    Piece<true, true, T>{theta, m, v, gradient, missed, count, now, hops}.run(size);
  else if (keeps)
    Piece<false, false, T>{theta, m, v, gradient, missed, count, now, hops}.run(size);
  else
    Piece<false, true, T>{theta, m, v, gradient, missed, count, now, hops}.run(size);
}

template <class T>
void multiply(Index size, T* v, const T* factors, Index count) {
  const FlushSubnormals flush;
  constexpr int together = 4;  // registers: each product waits for the one before
  using V = Vec<T, lanes<T>>;
  Index k = 0;
  for (; k + together * lanes<T> <= size; k += together * lanes<T>) {
    V values[together];
    for (int u = 0; u < together; ++u) values[u] = load<V>(v + k + u * lanes<T>);
    for (Index f = 0; f < count; ++f)
      for (int u = 0; u < together; ++u) values[u] *= splat<V>(factors[f]);
    for (int u = 0; u < together; ++u) store(v + k + u * lanes<T>, values[u]);
  }
  for (; k < size; ++k)
    for (Index f = 0; f < count; ++f) v[k] *= factors[f];
}

}  // namespace

ROSSBY_TABLE(AdamKernels, update<T>, multiply<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
