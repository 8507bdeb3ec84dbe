#include "rossby/kernels/cpu/simd/dropout.hpp"

#include "rossby/kernels/cpu/simd/vec.hpp"

namespace rossby::cpu::ROSSBY_ISA {
namespace {

using Counters = Vec<std::uint64_t, lanes<double>>;
constexpr int doubles = lanes<double>;

/// The products of each lane's lower 32 bits.
ROSSBY_INLINE Counters multiply_low(Counters x, std::uint64_t by) {
#if defined(__AVX512F__)
  return (Counters)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(static_cast<long long>(by)));
#elif defined(__AVX2__)
  return (Counters)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(static_cast<long long>(by)));
#else
  return (x & 0xFFFFFFFFU) * by;
#endif
}

/// Philox4x32-10 of base/random.cpp: a counter per lane, a word in the lower half of each. The upper halves
/// of words do not matter: products and the last step ignore them.
ROSSBY_INLINE Counters bits(Counters counter, std::uint64_t key) {
  Counters x0 = counter, x1 = counter >> 32, x2{}, x3{};
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Counters a = multiply_low(x0, 0xD2511F53U), b = multiply_low(x2, 0xCD9E8D57U);
    x0 = (b >> 32) ^ x1 ^ std::uint64_t{k0};
    x1 = b;
    x2 = (a >> 32) ^ x3 ^ std::uint64_t{k1};
    x3 = a;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return (x0 << 32) | (x1 & 0xFFFFFFFFU);
}

ROSSBY_INLINE Counters kept(Counters counter, std::uint64_t key, std::uint64_t least) {
  return (Counters)((bits(counter, key) >> 11) >= least) & 1;
}

/// The lowest byte of each lane.
ROSSBY_INLINE void store_bytes(std::uint8_t* to, Counters v) {
#if defined(__AVX512F__)
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm512_cvtepi64_epi8((__m512i)v));
#else
  for (int l = 0; l < doubles; ++l) to[l] = static_cast<std::uint8_t>(v[l]);
#endif
}

template <class T>
void draw(Index size, std::uint8_t* keep, std::uint64_t key, std::uint64_t first, std::uint64_t least) {
  Counters counter;
  for (int l = 0; l < doubles; ++l) counter[l] = first + static_cast<std::uint64_t>(l);
  Index k = 0;
  for (; k + doubles <= size; k += doubles, counter += doubles)
    store_bytes(keep + k, kept(counter, key, least));
  if (k == size) return;
  const Counters rest = kept(counter, key, least);
  for (int l = 0; k < size; ++k, ++l) keep[k] = static_cast<std::uint8_t>(rest[l]);
}

/// An integer of T's size.
template <class T>
struct BitsOf {
  using type = std::uint32_t;
};
template <>
struct BitsOf<double> {
  using type = std::uint64_t;
};

template <class T>
using Mask = Vec<typename BitsOf<T>::type, lanes<T>>;

/// One byte per lane: __builtin_convertvector would convert them one by one.
template <class T>
ROSSBY_INLINE Mask<T> widened(const std::uint8_t* bytes) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Mask<T>)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  else
    return (Mask<T>)_mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return (Mask<T>)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
  else
    return (Mask<T>)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(load<int>(bytes)));
#else
  Mask<T> mask;
  for (int l = 0; l < lanes<T>; ++l) mask[l] = bytes[l];
  return mask;
#endif
}

/// factor·x if keep is 1, otherwise 0. Without a branch, because `keep` is unpredictable.
template <class T>
ROSSBY_INLINE Vec<T, lanes<T>> where_kept(const T* x, const std::uint8_t* keep, T factor) {
  using V = Vec<T, lanes<T>>;
  return (V)((Mask<T>)(load<V>(x) * factor) & -widened<T>(keep));
}
template <class T>
ROSSBY_INLINE T where_kept(T x, std::uint8_t keep, T factor) {
  using Bits = typename BitsOf<T>::type;
  return __builtin_bit_cast(T, static_cast<Bits>(__builtin_bit_cast(Bits, factor * x) & (Bits{0} - keep)));
}

template <class T>
void apply(Index size, T* __restrict y, const T* __restrict x, const std::uint8_t* __restrict keep,
           T factor) {
  constexpr int L = lanes<T>;
  Index k = 0;
  for (; k + L <= size; k += L) store(y + k, where_kept<T>(x + k, keep + k, factor));
  for (; k < size; ++k) y[k] = where_kept(x[k], keep[k], factor);
}

template <class T>
void apply_backward(Index size, T* __restrict dx, const T* __restrict dy, const std::uint8_t* __restrict keep,
                    T factor) {
  constexpr int L = lanes<T>;
  Index k = 0;
  for (; k + L <= size; k += L)
    store(dx + k, load<Vec<T, L>>(dx + k) + where_kept<T>(dy + k, keep + k, factor));
  for (; k < size; ++k) dx[k] += where_kept(dy[k], keep[k], factor);
}

}  // namespace

ROSSBY_TABLE(DropoutKernels, draw<T>, apply<T>, apply_backward<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
