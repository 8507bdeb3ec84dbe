#include <algorithm>
#include <bit>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/relate_dense.hpp"

// Runs about once an epoch, so the host simply widens pieces of rows into buffers.

namespace rossby {
namespace {

constexpr Index piece = 512;  // even

/// Uses the halves of `bits`, rotated left by `turn`.
void round_piece(Bf16* to, const float* values, const std::uint32_t* bits, Index count, int turn) {
  std::uint16_t random[piece];
  for (Index w = 0; w < (count + 1) / 2; ++w) {
    const std::uint32_t x = std::rotl(bits[w], turn);
    random[2 * w] = static_cast<std::uint16_t>(x);
    random[2 * w + 1] = static_cast<std::uint16_t>(x >> 16);
  }
  for (Index j = 0; j < count; ++j) to[j] = round_stochastic(values[j], random[j]);
}

void replay_piece(const Exec& exec, const Bf16Arrays& arrays, Index at, std::uint32_t row, Index column,
                  Index count, std::span<const AdamConstants<float>> steps) {
  alignas(64) float theta[piece], m[piece], v[piece];
  const auto size = static_cast<std::size_t>(count);
  for (Index j = 0; j < count; ++j) {
    theta[j] = widen(arrays.theta[at + j]);
    v[j] = widen(arrays.v[at + j]);
    m[j] = arrays.m ? widen(arrays.m[at + j]) : 0.0F;
  }
  adam_replay<float>(exec, {theta, size}, {m, arrays.m ? size : 0}, {v, size}, {}, steps);
  // The halves of RoundingBits' words are in column order, so `column` is even.
  std::uint32_t bits[piece / 2];
  for (Index w = 0; w < (count + 1) / 2; ++w) {
    const auto word = static_cast<std::uint32_t>(column / 2 + w);
    const std::uint32_t x = (word * RoundingBits::spread ^ row) * RoundingBits::mix;
    bits[w] = x ^ x >> 16;
  }
  round_piece(arrays.theta + at, theta, bits, count, 0);
  round_piece(arrays.v + at, v, bits, count, 8);
  if (arrays.m) round_piece(arrays.m + at, m, bits, count, 16);
}

}  // namespace

void adam_replay_bf16(const Exec& exec, const Bf16Arrays& arrays, Index relations, Index rows, Index columns,
                      std::span<const AdamConstants<float>> steps) {
  if (steps.empty()) return;
  if (on_device(exec.backend))
    return run_on_device<adam_replay_bf16>(exec, arrays, relations, rows, columns, steps);
  Exec one = exec;
  one.threads = 1;
  cpu::for_each_piece(exec, relations * rows, 1, relations * rows * columns, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const std::uint32_t row = arrays.rounding.row(i / rows, i % rows);
      for (Index j = 0; j < columns; j += piece)
        replay_piece(one, arrays, i * columns + j, row, j, std::min(piece, columns - j), steps);
    }
  });
}

}  // namespace rossby
