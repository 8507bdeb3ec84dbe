#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/adam_lane.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// Registers that go through missed updates together: one update waits for the one before, others fill the
// gaps. As many as the set has names for.
template <bool with_m>
constexpr int together = register_bytes == 64 ? (with_m ? 4 : 8) : 2;

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

  template <int registers>
  ROSSBY_INLINE void block(Index k) const {
    constexpr int step = registers % 4 == 0 ? 4 : 1;
    V value[registers], first[registers], second[registers];
#pragma GCC unroll 8
    for (int r = 0; r < registers; ++r) {
      value[r] = load<V>(theta + k + r * lanes<T>);
      second[r] = load<V>(v + k + r * lanes<T>);
      first[r] = with_m ? load<V>(m + k + r * lanes<T>) : V{};
    }
    for (Index q = 0; q < count; ++q)
#pragma GCC unroll 8
      for (int r = 0; r < registers; r += step)
        adam_lanes<step, with_m, decoupled, false>(value + r, first + r, second + r, value, missed[q]);
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
    const Piece last{values[0], values[1], values[2], g, missed, count, now};
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
            const AdamConstants<T>* now) {
  // A value that only its decay moves shrinks by a factor each step, and with it its gradient and second
  // moment.
  const FlushSubnormals flush;
  bool keeps = !now || now->keep == T(1);
  for (Index q = 0; q < count; ++q) keeps = keeps && missed[q].keep == T(1);
  if (m && keeps)
    Piece<true, false, T>{theta, m, v, gradient, missed, count, now}.run(size);
  else if (m)
    Piece<true, true, T>{theta, m, v, gradient, missed, count, now}.run(size);
  else if (keeps)
    Piece<false, false, T>{theta, m, v, gradient, missed, count, now}.run(size);
  else
    Piece<false, true, T>{theta, m, v, gradient, missed, count, now}.run(size);
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
