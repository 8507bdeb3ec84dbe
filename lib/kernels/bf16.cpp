#include <algorithm>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/relate_dense.hpp"

// Once an epoch or so: pieces of rows widened into buffers, for every back end.

namespace rossby {
namespace {

constexpr Index piece = 512;

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
  for (Index j = 0; j < count; ++j) {
    const RoundingBits random(row, column + j);
    arrays.theta[at + j] = round_stochastic(theta[j], random.theta);
    arrays.v[at + j] = round_stochastic(v[j], random.v);
    if (arrays.m) arrays.m[at + j] = round_stochastic(m[j], random.m);
  }
}

}  // namespace

void adam_replay(const Exec& exec, const Bf16Arrays& arrays, Index relations, Index rows, Index columns,
                 std::span<const AdamConstants<float>> steps) {
  if (steps.empty()) return;
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
