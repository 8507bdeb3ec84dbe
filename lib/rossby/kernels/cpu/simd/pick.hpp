#pragma once

#include "rossby/kernels/isa.hpp"

namespace rossby::cpu {

// Each instruction set's functions of a table K, from the sources of this folder (ROSSBY_TABLE in vec.hpp).
#define ROSSBY_DECLARE_TABLES(ISA) \
  namespace ISA {                  \
  template <class K>               \
  const K& table();                \
  }
ROSSBY_DECLARE_TABLES(portable)
ROSSBY_DECLARE_TABLES(avx2)
ROSSBY_DECLARE_TABLES(avx512)
ROSSBY_DECLARE_TABLES(avx512_bf16)

/// The functions of table K for an instruction set; doubles always use the portable one.
template <template <class> class K, class T>
const K<T>& kernels_of(Isa isa) {
#if defined(ROSSBY_WIDE_ISAS)
  if constexpr (isa_of<T>(Isa::avx512) == Isa::avx512) {
    if (isa == Isa::avx512) return avx512::table<K<T>>();
    if (isa == Isa::avx2) return avx2::table<K<T>>();
  }
#endif
  return portable::table<K<T>>();
}

}  // namespace rossby::cpu
