#pragma once

#include <cstdint>

// The arithmetic of base/random.hpp, for all kinds of kernels: constexpr, so that a GPU can run it.
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

namespace rossby::philox {

struct Block {
  std::uint32_t word[4];
};

constexpr Block block(std::uint64_t counter, std::uint64_t key) {
  Block x{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0u, 0u}};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * x.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * x.word[2];
    x = Block{{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ k1, static_cast<std::uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

/// splitmix64's finaliser: spreads a key over all 64 bits.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The key of Random::at.
constexpr std::uint64_t child(std::uint64_t key, std::uint64_t of) {
  return mix(key ^ mix(of + 0x632BE59BD9B4E019ull));
}

constexpr std::uint64_t bits(std::uint64_t counter, std::uint64_t key) {
  const Block x = block(counter, key);
  return (std::uint64_t{x.word[0]} << 32) | x.word[1];
}

/// Uniform in [0, 1).
constexpr double uniform(std::uint64_t counter, std::uint64_t key) {
  return static_cast<double>(bits(counter, key) >> 11) * 0x1.0p-53;
}

}  // namespace rossby::philox
