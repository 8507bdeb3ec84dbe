#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_hop.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Registers that go through missed updates together: one update waits for the one before, others fill the
// gaps. As many as the set has names for.
template <bool with_m>
constexpr int together = register_bytes == 64 ? (with_m ? 4 : 8) : 2;

constexpr Index ahead = 2;  // blocks

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
  const AdamHop* hops;
  Index hop_count;

  /// Much is computed before the loop comes to what lies at k: it is to be in the cache then.
  ROSSBY_INLINE void fetch(Index k) const {
    __builtin_prefetch(theta + k);
    __builtin_prefetch(v + k);
    if (with_m) __builtin_prefetch(m + k);
  }

  /// Missed updates from `first` up to `last` of `registers` registers, a few at a time.
  template <int registers>
  ROSSBY_INLINE void replay(V* value, V* moment, V* second, Index first, Index last) const {
    constexpr int step = registers % 4 == 0 ? 4 : 1;
    for (Index q = first; q < last; ++q)
#pragma GCC unroll 8
      for (int r = 0; r < registers; r += step)
        adam_lanes<step, with_m, decoupled, false>(value + r, moment + r, second + r, value, missed[q]);
  }

  /// Values on their way, held in registers.
  template <int registers>
  struct Values {
    V theta[registers], m[registers], v[registers];
    ROSSBY_INLINE Values(const V* t, const V* first, const V* second) {
#pragma GCC unroll 8
      for (int r = 0; r < registers; ++r) {
        theta[r] = t[r];
        m[r] = first[r];
        v[r] = second[r];
      }
    }
    ROSSBY_INLINE void store(V* t, V* first, V* second) const {
#pragma GCC unroll 8
      for (int r = 0; r < registers; ++r) {
        t[r] = theta[r];
        first[r] = m[r];
        second[r] = v[r];
      }
    }
  };

  template <int registers>
  ROSSBY_INLINE void hop(V* value, V* moment, V* second, Index h, Index first) const {
    const auto holds = take_hop<registers, with_m>(value, moment, second, hops[h]);
    if (holds.all()) [[likely]]
      return;
    // A copy: what a function is handed by its address is not in registers elsewhere either.
    Values<registers> values(value, moment, second);
    hop_by_lanes<registers>(values, h, first, holds);
    values.store(value, moment, second);
  }

  /// The updates of hop h, of which update `first` is the first: a lane that the hop does not hold for goes
  /// by its parts, or update by update, so that no value depends on its neighbours.
  template <int registers>
  __attribute__((noinline)) void hop_by_lanes(Values<registers>& values, Index h, Index first,
                                              const Holds<registers, V>& holds) const {
    Values<registers> by_one = values;
    const Index parts = hops[h].parts;
    if (parts == 0)
      replay<registers>(by_one.theta, by_one.m, by_one.v, first, first + hops[h].updates);
    else
      for (Index p = h + 1; p <= h + parts; first += hops[p++].updates)
        hop<registers>(by_one.theta, by_one.m, by_one.v, p, first);
    if (holds.any()) {
      Values<registers> hopped = values;
      (void)take_hop<registers, with_m, true>(hopped.theta, hopped.m, hopped.v, hops[h]);
#pragma GCC unroll 8
      for (int r = 0; r < registers; ++r) {
        by_one.theta[r] = holds.lanes[r] ? hopped.theta[r] : by_one.theta[r];
        by_one.m[r] = holds.lanes[r] ? hopped.m[r] : by_one.m[r];
        by_one.v[r] = holds.lanes[r] ? hopped.v[r] : by_one.v[r];
      }
    }
    values = by_one;
  }

  /// All of them.
  template <int registers>
  ROSSBY_INLINE void catch_up(V* value, V* moment, V* second) const {
    Index done = 0;
    if constexpr (sizeof(T) == 4) {
      constexpr int step = registers % 4 == 0 ? 4 : 1;
      for (Index h = 0; h < hop_count; h += 1 + hops[h].parts) {
#pragma GCC unroll 8
        for (int r = 0; r < registers; r += step) hop<step>(value + r, moment + r, second + r, h, done);
        done += hops[h].updates;
      }
    }
    replay<registers>(value, moment, second, done, count);
  }

  template <int registers>
  ROSSBY_INLINE void block(Index k) const {
    constexpr int step = registers % 4 == 0 ? 4 : 1;
    V value[registers], first[registers], second[registers];
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      value[r] = load<V>(theta + k + r * lanes<T>);
      second[r] = load<V>(v + k + r * lanes<T>);
      first[r] = with_m ? load<V>(m + k + r * lanes<T>) : V{};
      if constexpr (registers > 1) fetch(k + (r + ahead * registers) * lanes<T>);
    }
    catch_up<registers>(value, first, second);
    if (now) {
      V g[registers];
#pragma GCC unroll 8
      for (int r = 0; r < registers; ++r) g[r] = gradient ? load<V>(gradient + k + r * lanes<T>) : V{};
#pragma GCC unroll 8
      for (int r = 0; r < registers; r += step)
        adam_lanes<step, with_m, decoupled>(value + r, first + r, second + r, g + r, *now);
    }
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      store(theta + k + r * lanes<T>, value[r]);
      store(v + k + r * lanes<T>, second[r]);
      if (with_m) store(m + k + r * lanes<T>, first[r]);
    }
  }

  /// The last values in a register of their own: the same arithmetic as everywhere.
  ROSSBY_INLINE void rest(Index k, Index size) const {
    T values[3][lanes<T>] = {}, g[lanes<T>] = {};
    for (Index q = k; q < size; ++q) {
      values[0][q - k] = theta[q];
      values[1][q - k] = with_m ? m[q] : T(0);
      values[2][q - k] = v[q];
      g[q - k] = gradient ? gradient[q] : T(0);
    }
    const Piece last{values[0], values[1], values[2], g, missed, count, now, hops, hop_count};
    last.template block<1>(0);
    for (Index q = k; q < size; ++q) {
      theta[q] = values[0][q - k];
      if (with_m) m[q] = values[1][q - k];
      v[q] = values[2][q - k];
    }
  }

  void run(Index size) const {
    Index k = 0;
    for (; k + together<with_m> * lanes<T> <= size; k += together<with_m> * lanes<T>)
      block<together<with_m>>(k);
    for (; k + lanes<T> <= size; k += lanes<T>) block<1>(k);
    if (k < size) rest(k, size);
  }
};

template <class T>
void update(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed, Index count,
            const AdamConstants<T>* now, const AdamHop* hops, Index hop_count) {
  // A value that only its decay moves shrinks by a factor each step, and with it its gradient and second
  // moment.
  const FlushSubnormals flush;
  bool keeps = !now || now->keep == T(1);
  for (Index q = 0; q < count; ++q) keeps = keeps && missed[q].keep == T(1);
  if (m && keeps)
    Piece<true, false, T>{theta, m, v, gradient, missed, count, now, hops, hop_count}.run(size);
  else if (m)
    Piece<true, true, T>{theta, m, v, gradient, missed, count, now, hops, hop_count}.run(size);
  else if (keeps)
    Piece<false, false, T>{theta, m, v, gradient, missed, count, now, hops, hop_count}.run(size);
  else
    Piece<false, true, T>{theta, m, v, gradient, missed, count, now, hops, hop_count}.run(size);
}

}  // namespace

template <class T>
const AdamKernels<T>& adam_kernels() {
  static constexpr AdamKernels<T> kernels{update<T>};
  return kernels;
}
template const AdamKernels<float>& adam_kernels<float>();
template const AdamKernels<double>& adam_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
