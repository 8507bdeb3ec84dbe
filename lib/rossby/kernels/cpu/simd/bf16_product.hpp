#pragma once

#include "rossby/kernels/cpu/simd/tall.hpp"

namespace rossby::cpu {

/// Functions of one instruction set: products of floats that are rounded to bf16, to the nearest value with
/// ties to even, and summed in float.
///
/// All sets are bit-equal, with and without instructions for bf16. The product of two bf16 values is exact in
/// a float. The terms of an entry are added two by two, the second of a pair first, as VDPBF16PS does (Intel
/// SDM, volume 2; AMD's Zen 4 does the same). Subnormal operands and sums count as zero, as in that
/// instruction. The exception is a set without fused multiply-adds (portable), whose products below 2⁻¹²⁶ are
/// zero too.
struct Bf16Products {
  /// c (m, n) = a (m, k)·b (k, n), or c += the same with `add`; rows of c packed, `stride` apart. One of the
  /// two strides of each operand is 1. Every entry is summed in the order of k, whatever m and n.
  void (*multiply)(Index m, Index n, Index k, Strided<float> a, Strided<float> b, float* c, Index stride,
                   bool add);
};

/// Returns the functions of `isa`. With avx512 they use the processor's bf16 instructions, if it has them and
/// unless `in_software`.
const Bf16Products& bf16_products(Isa isa, bool in_software = false);

}  // namespace rossby::cpu
