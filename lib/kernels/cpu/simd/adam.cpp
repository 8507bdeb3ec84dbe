#include "rossby/kernels/cpu/simd/adam_lane.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

template <bool with_m, class T>
struct Piece {
  const T* gradient;
  const AdamConstants<T>* missed;
  Index count;
  const AdamConstants<T>* now;

  template <class V>
  ROSSBY_INLINE void apply(V& theta, V& m, V& v, V g) const {
    for (Index q = 0; q < count; ++q) adam_lane<with_m>(theta, m, v, V{}, missed[q]);
    if (now) adam_lane<with_m>(theta, m, v, g, *now);
  }

  ROSSBY_INLINE void vectors(Index size, T* theta, T* m, T* v) const {
    using V = Vec<T, lanes<T>>;
    Index k = 0;
    for (; k + lanes<T> <= size; k += lanes<T>) {
      V value = load<V>(theta + k), second = load<V>(v + k);
      V first = with_m ? load<V>(m + k) : V{};
      apply(value, first, second, gradient ? load<V>(gradient + k) : V{});
      store(theta + k, value);
      store(v + k, second);
      if (with_m) store(m + k, first);
    }
    if (k == size) return;
    // The last values in a register of their own: the same arithmetic as everywhere.
    V value{}, first{}, second{}, g{};
    const auto bytes = static_cast<unsigned long>(size - k) * sizeof(T);
    __builtin_memcpy(&value, theta + k, bytes);
    __builtin_memcpy(&second, v + k, bytes);
    if (with_m) __builtin_memcpy(&first, m + k, bytes);
    if (gradient) __builtin_memcpy(&g, gradient + k, bytes);
    apply(value, first, second, g);
    __builtin_memcpy(theta + k, &value, bytes);
    __builtin_memcpy(v + k, &second, bytes);
    if (with_m) __builtin_memcpy(m + k, &first, bytes);
  }
};

template <class T>
void update(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed, Index count,
            const AdamConstants<T>* now) {
  if (m)
    Piece<true, T>{gradient, missed, count, now}.vectors(size, theta, m, v);
  else
    Piece<false, T>{gradient, missed, count, now}.vectors(size, theta, m, v);
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
