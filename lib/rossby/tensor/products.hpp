#pragma once

namespace rossby {

/// Operands of products of floats: as they are, or rounded to 10 or 7 bits of fraction, which processors with
/// instructions for it multiply several times as fast. Sums are floats. TF32 exists on devices alone.
enum class Products { model, tf32, bf16 };

}  // namespace rossby
