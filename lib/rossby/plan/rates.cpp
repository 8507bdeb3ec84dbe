#include "rossby/plan/rates.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "rossby/base/stopwatch.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

// Use the widest vectors of this processor: narrow ones would limit the rate in caches.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ROSSBY_WIDEST __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define ROSSBY_WIDEST
#endif

ROSSBY_WIDEST void triad(float* x, const float* y, const float* z, float s, Index size) {
  for (Index i = 0; i < size; ++i) x[i] = y[i] + s * z[i];
}

ROSSBY_WIDEST void update(float* y, float s, Index size) {
  for (Index i = 0; i < size; ++i) y[i] *= s;
}

/// Sums y in 64 lanes and stores the sums in x.
ROSSBY_WIDEST void read(float* x, const float* y, Index size) {
  constexpr Index lanes = 64;
  float sums[lanes] = {};
  for (Index i = 0; i + lanes <= size; i += lanes)
    for (Index k = 0; k < lanes; ++k) sums[k] += y[i + k];
  for (Index k = 0; k < std::min(lanes, size); ++k) x[k] = sums[k];
}

double bytes_per_element(Stream stream) {
  return stream == Stream::triad ? 12 : stream == Stream::read ? 4 : 8;
}

/// Arrays of one thread, allocated and touched by it, so that they lie in near memory.
struct Streams {
  Buffer<float> x, y, z;
  void make(Stream stream, Index size) {
    x = Buffer<float>(stream == Stream::triad ? size : 64);
    y = Buffer<float>(size);
    if (stream == Stream::triad) z = Buffer<float>(size);
    std::fill_n(y.data(), size, 1.0F);
  }
  void pass(Stream stream, Index first, Index count) {
    if (stream == Stream::triad) triad(x.data() + first, y.data() + first, z.data() + first, 0.5F, count);
    if (stream == Stream::read) read(x.data(), y.data() + first, count);
    if (stream == Stream::update) update(y.data() + first, 1.0F, count);
    asm volatile("" ::: "memory");  // keeps every pass
  }
};

/// Runs `measure` on all threads at once, without barriers, so that a thread delayed by other programs does
/// not delay the others. Returns the sum of the threads' results.
template <class Measure>
double sum_over_threads(int threads, const Measure& measure) {
  double sum = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
  for (int t = 0; t < threads; ++t) sum += measure();
  return sum;
}

double upper_decile(std::vector<double>& values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(9 * values.size() / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double measure_stream(Stream stream, double bytes, int threads, double seconds) {
  const double element = stream == Stream::triad ? 12 : 4;
  const auto size = std::max<Index>(static_cast<Index>(bytes / (element * threads)), 64);
  // Large arrays are timed piece by piece, so that a piece fits between two interruptions by other programs.
  // The pieces follow each other through the arrays, so no piece is still in a cache smaller than the arrays.
  const Index piece = std::min(size, Index{1} << 19);
  const int passes = std::max(1, static_cast<int>(2e6 / static_cast<double>(size)));
  const double moved = bytes_per_element(stream) * static_cast<double>(piece) * passes;
  return sum_over_threads(threads, [&] {
    Streams arrays;
    arrays.make(stream, size);
    std::vector<double> rates;
    const Stopwatch start;
    for (int repeat = 0; repeat < 3 || start.seconds() < seconds; ++repeat)
      for (Index first = 0; first + piece <= size; first += piece) {
        const Stopwatch begin;
        for (int pass = 0; pass < passes; ++pass) arrays.pass(stream, first, piece);
        rates.push_back(moved / begin.seconds());
      }
    return upper_decile(rates);
  });
}

double measure_gemm(int size, int threads) {
  return sum_over_threads(threads, [size] {
    const Index n = size;
    Buffer<float> a(n * n), b(n * n), c(n * n);
    std::fill_n(a.data(), n * n, 0.5F);
    std::fill_n(b.data(), n * n, 0.25F);
    double best = 0;
    for (int repeat = 0; repeat < (size > 600 ? 4 : 40); ++repeat) {
      const Stopwatch begin;
      matrix_product<float>(Exec{}, {c.data(), n, n}, Operand::plain, {a.data(), n, n}, Operand::plain,
                            {b.data(), n, n}, false);
      best = std::max(best, 2.0 * std::pow(size, 3) / begin.seconds());
    }
    return best;
  });
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown";
}

}  // namespace rossby
