#pragma once

namespace rossby {

/// Precision of operands in products of floats: unchanged, or rounded to 10 or 7 bits of fraction. Processors
/// with instructions for them multiply rounded operands several times as fast. Sums are floats. TF32 exists
/// on devices only.
enum class Products { model, tf32, bf16 };

}  // namespace rossby
