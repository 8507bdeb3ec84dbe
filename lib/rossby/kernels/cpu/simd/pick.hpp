#pragma once

#include "rossby/kernels/isa.hpp"

/// Declares NAME<T>() of every instruction set of this build and defines rossby::cpu::NAME<T>(Isa), which
/// picks; doubles are always computed by the portable set.
#ifdef ROSSBY_X86_SETS
#define ROSSBY_PICK(TYPE, NAME)                            \
  namespace rossby::cpu {                                  \
  namespace portable {                                     \
  template <class T>                                       \
  const TYPE<T>& NAME();                                   \
  }                                                        \
  namespace avx2 {                                         \
  template <class T>                                       \
  const TYPE<T>& NAME();                                   \
  }                                                        \
  namespace avx512 {                                       \
  template <class T>                                       \
  const TYPE<T>& NAME();                                   \
  }                                                        \
  template <class T>                                       \
  const TYPE<T>& NAME(Isa isa) {                           \
    if constexpr (isa_of<T>(Isa::avx512) == Isa::avx512) { \
      if (isa == Isa::avx512) return avx512::NAME<T>();    \
      if (isa == Isa::avx2) return avx2::NAME<T>();        \
    }                                                      \
    return portable::NAME<T>();                            \
  }                                                        \
  template const TYPE<float>& NAME<float>(Isa);            \
  template const TYPE<double>& NAME<double>(Isa);          \
  }
#else
#define ROSSBY_PICK(TYPE, NAME)                   \
  namespace rossby::cpu {                         \
  namespace portable {                            \
  template <class T>                              \
  const TYPE<T>& NAME();                          \
  }                                               \
  template <class T>                              \
  const TYPE<T>& NAME(Isa) {                      \
    return portable::NAME<T>();                   \
  }                                               \
  template const TYPE<float>& NAME<float>(Isa);   \
  template const TYPE<double>& NAME<double>(Isa); \
  }
#endif
