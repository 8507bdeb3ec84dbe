#include "rossby/base/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "rossby/base/error.hpp"
#include "rossby/base/philox.hpp"
#include "rossby/base/text_hash.hpp"

namespace rossby {
namespace {

using philox::mix;

std::uint64_t hash(std::string_view text) {
  TextHash all;
  all.add(text);
  return all.value();
}

}  // namespace

Random::Random(std::uint64_t seed, std::string_view stream) : key_(mix(mix(seed) ^ hash(stream))) {}

Random Random::at(std::uint64_t key) const {
  Random child = *this;
  child.key_ = philox::child(key_, key);
  return child;
}

std::uint64_t Random::bits(std::uint64_t counter) const {
  return philox::bits(counter, key_);
}

double Random::uniform(std::uint64_t counter) const {
  return philox::uniform(counter, key_);
}

double Random::normal(std::uint64_t counter) const {
  const philox::Block x = philox::block(counter, key_);
  const std::uint64_t a = (std::uint64_t{x.word[0]} << 32) | x.word[1];
  const std::uint64_t b = (std::uint64_t{x.word[2]} << 32) | x.word[3];
  const double u = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]: log is finite
  const double v = static_cast<double>(b >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

Permutation::Permutation(const Random& random, Index size)
    : size_(size), half_bits_(1), rounds_{random.bits(0), random.bits(1), random.bits(2),
                                          random.bits(3), random.bits(4), random.bits(5)} {
  require(size >= 0, "a permutation needs a size of zero or more");
  const int bits = size > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1))) : 1;
  half_bits_ = (bits + 1) / 2;
}

inline std::uint64_t Permutation::pass(std::uint64_t x) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = x >> half_bits_;
  std::uint64_t right = x & mask;
  for (const std::uint64_t round : rounds_) {
    const std::uint64_t next = left ^ (mix(round ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

Index Permutation::operator()(Index i) const {
  require(i >= 0 && i < size_, "element outside the permutation");
  auto x = static_cast<std::uint64_t>(i);
  do x = pass(x);
  while (x >= static_cast<std::uint64_t>(size_));
  return static_cast<Index>(x);
}

// The number of passes per element is unpredictable. Elements still outside continue together, so that no
// branch depends on a single one.
void Permutation::look_up(Index first, std::span<Index> elements) const {
  const Index count = std::ssize(elements);
  require(first >= 0 && first + count <= size_, "elements outside the permutation");
  constexpr Index together = 256;
  std::array<std::uint16_t, together> outside;
  for (Index begin = 0; begin < count; begin += together) {
    const std::span<Index> some = elements.subspan(
        static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(together, count - begin)));
    std::size_t left = some.size();
    for (std::size_t q = 0; q < left; ++q) {
      some[q] = first + begin + static_cast<Index>(q);
      outside[q] = static_cast<std::uint16_t>(q);
    }
    while (left > 0) {
      std::size_t still = 0;
      for (std::size_t j = 0; j < left; ++j) {
        const std::uint16_t q = outside[j];
        const auto x = static_cast<Index>(pass(static_cast<std::uint64_t>(some[q])));
        some[q] = x;
        outside[still] = q;
        still += x >= size_ ? 1 : 0;
      }
      left = still;
    }
  }
}

double Permutation::walks() const {
  return std::exp2(2.0 * half_bits_) / static_cast<double>(std::max<Index>(size_, 1));
}

}  // namespace rossby
