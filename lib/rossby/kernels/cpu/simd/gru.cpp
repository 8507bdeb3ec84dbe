#include "rossby/kernels/cpu/simd/gru.hpp"

#include "rossby/kernels/cpu/simd/exponential.hpp"
#include "rossby/kernels/cpu/simd/runs.hpp"

// The gates of a recurrent cell, a register at a time: every array is read and written once.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

template <class T>
using Register = Vec<T, lanes<T>>;

/// A register's place in all arrays of a kernel.
template <class T, bool all>
struct Spot {
  Place<all> place;

  ROSSBY_INLINE Register<T> get(const T* from) const { return place.template get<Register<T>>(from); }
  ROSSBY_INLINE void put(T* to, Register<T> v) const { place.put(to, v); }
  /// Writes to an array that was not read.
  ROSSBY_INLINE void put_new(T* to, Register<T> v) const {
    if constexpr (all) fetch_to_write(to + place.k);
    put(to, v);
  }
  ROSSBY_INLINE void add(T* to, Register<T> v) const { put(to, get(to) + v); }
};

template <class T, class F>
ROSSBY_INLINE void each_register(Index size, const F& f) {
  Index k = 0;
  for (; k + lanes<T> <= size; k += lanes<T>) f(Spot<T, true>{{k, lanes<T>}});
  if (k < size) f(Spot<T, false>{{k, size - k}});
}

template <class T>
ROSSBY_INLINE Register<T> sigmoid_of(Register<T> v) {
  if constexpr (sizeof(T) == 4) {
    return sigmoid_lanes<lanes<T>>(v);
  } else {
    for (int l = 0; l < lanes<T>; ++l) v[l] = 1 / (1 + __builtin_exp(-v[l]));
    return v;
  }
}

template <class T>
ROSSBY_INLINE Register<T> tanh_of(Register<T> v) {
  if constexpr (sizeof(T) == 4) {
    return tanh_lanes<lanes<T>>(v);
  } else {
    for (int l = 0; l < lanes<T>; ++l) v[l] = __builtin_tanh(v[l]);
    return v;
  }
}

template <class T>
void reset(Index size, T* r, T* y, const T* h) {
  each_register<T>(size, [=](const auto& at) {
    const Register<T> gate = sigmoid_of<T>(at.get(r));
    at.put(r, gate);
    at.put_new(y, gate * at.get(h));
  });
}

template <class T>
void reset_backward(Index size, T* da, T* dh, const T* dy, const T* r, const T* h) {
  each_register<T>(size, [=](const auto& at) {
    const Register<T> g = at.get(dy), gate = at.get(r);
    at.add(da, g * at.get(h) * (gate * (T(1) - gate)));
    if (dh) at.add(dh, g * gate);
  });
}

template <class T>
void output(Index size, T* u, T* c, T* y, const T* h) {
  each_register<T>(size, [=](const auto& at) {
    const Register<T> gate = sigmoid_of<T>(at.get(u)), candidate = tanh_of<T>(at.get(c));
    at.put(u, gate);
    at.put(c, candidate);
    at.put_new(y, gate * at.get(h) + (T(1) - gate) * candidate);
  });
}

template <class T>
void output_backward(Index size, T* da_u, T* da_c, T* dh, const T* dy, const T* u, const T* c, const T* h) {
  each_register<T>(size, [=](const auto& at) {
    const Register<T> g = at.get(dy), gate = at.get(u), candidate = at.get(c);
    at.add(da_u, g * (at.get(h) - candidate) * (gate * (T(1) - gate)));
    at.add(da_c, g * (T(1) - gate) * (T(1) - candidate * candidate));
    if (dh) at.add(dh, g * gate);
  });
}

}  // namespace

ROSSBY_TABLE(GruKernels, reset<T>, reset_backward<T>, output<T>, output_backward<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
