#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "rossby/base/index.hpp"

namespace rossby {

/// Counter-based random numbers: every draw is a pure function of (seed, stream, counter). Values keyed by
/// global indices do not depend on the number of ranks or threads, and resuming needs no stored state.
/// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
class Random {
 public:
  /// Names a stream by its purpose ("init.z", "dropout", "batch order"). Different streams are independent.
  Random(std::uint64_t seed, std::string_view stream);

  /// Returns the same stream with one more key (epoch, step, layer …).
  [[nodiscard]] Random at(std::uint64_t key) const;

  /// 64 random bits for a counter.
  [[nodiscard]] std::uint64_t bits(std::uint64_t counter) const;

  /// The key of bits(), for kernels that compute many draws at once.
  [[nodiscard]] std::uint64_t key() const { return key_; }

  /// Uniform in [0, 1), 53 random bits.
  [[nodiscard]] double uniform(std::uint64_t counter) const;

  /// Uniform in [low, high).
  [[nodiscard]] double uniform(std::uint64_t counter, double low, double high) const {
    return low + (high - low) * uniform(counter);
  }

  /// Standard normal (Box–Muller, one value per counter).
  [[nodiscard]] double normal(std::uint64_t counter) const;

 private:
  std::uint64_t key_;
};

/// A pseudo-random permutation of 0…size−1, evaluated element by element. No rank stores it, and any rank can
/// look up any batch. A balanced Feistel network over the next even power of two with cycle walking (Black
/// and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
class Permutation {
 public:
  Permutation(const Random& random, Index size);

  /// Element `i` of the permutation, 0 <= i < size.
  [[nodiscard]] Index operator()(Index i) const;

  /// Fills in elements first, first + 1, … of the permutation, all in [0, size). Several times as fast as
  /// single look-ups, because elements do not wait for each other.
  void look_up(Index first, std::span<Index> elements) const;

  /// Average number of passes through the network per element.
  [[nodiscard]] double walks() const;

  [[nodiscard]] Index size() const { return size_; }

 private:
  [[nodiscard]] std::uint64_t pass(std::uint64_t x) const;

  Index size_;
  int half_bits_;
  std::array<std::uint64_t, 6> rounds_;
};

}  // namespace rossby
