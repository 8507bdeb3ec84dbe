#include "benchmarks/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <vector>

#include <cblas.h>
#include <unistd.h>

#include "rossby/tensor/buffer.hpp"

// OpenBLAS names the kernels that it chose; other libraries lack the function.
extern "C" char* openblas_get_corename() __attribute__((weak));

namespace rossby::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Widest vectors of this processor: in caches narrow ones would be the limit.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
void triad(float* x, const float* y, const float* z, float s, Index size) {
  for (Index i = 0; i < size; ++i) x[i] = y[i] + s * z[i];
}

double cache_bytes(int name, double otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<double>(bytes) : otherwise;
}

double gemm_rate(int size, int threads) {
  const Index values = Index{size} * size;
  std::vector<Buffer<float>> a, b, c;
  for (int t = 0; t < threads; ++t) {
    for (auto* matrices : {&a, &b, &c}) matrices->emplace_back(values);
    std::fill_n(a.back().data(), values, 0.5F);
    std::fill_n(b.back().data(), values, 0.25F);
  }
  double best = 0;
  for (int repeat = 0; repeat < (size > 600 ? 4 : 20); ++repeat) {
    const auto begin = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) {
      const auto at = static_cast<std::size_t>(t);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0F, a[at].data(), size,
                  b[at].data(), size, 0.0F, c[at].data(), size);
    }
    best = std::max(best, 2.0 * threads * std::pow(size, 3) / seconds_since(begin));
  }
  return best;
}

}  // namespace

double measure_triad(double bytes, int threads, double seconds) {
  const auto size = std::max<Index>(static_cast<Index>(bytes / (12.0 * threads)), 16);
  // Each thread touches its arrays first, so that they lie near it.
  std::vector<Buffer<float>> x(static_cast<std::size_t>(threads)), y(x.size()), z(x.size());
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; ++t) {
    for (auto* arrays : {&x, &y, &z}) (*arrays)[static_cast<std::size_t>(t)] = Buffer<float>(size);
    std::fill_n(y[static_cast<std::size_t>(t)].data(), size, 1.0F);
  }
  // Large arrays are timed piece by piece, so that a piece fits between two interruptions by other programs;
  // pieces follow each other through the arrays, so none lies in a cache that the arrays do not fit.
  const Index piece = std::min(size, Index{1} << 21);
  const int passes = std::max(1, static_cast<int>(2e6 / static_cast<double>(size)));
  double best = 0;
  const auto start = Clock::now();
  for (int repeat = 0; repeat < 3 || seconds_since(start) < seconds; ++repeat)
    for (Index first = 0; first + piece <= size; first += piece) {
      const auto begin = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
      for (int t = 0; t < threads; ++t) {
        const auto at = static_cast<std::size_t>(t);
        for (int pass = 0; pass < passes; ++pass) {
          triad(x[at].data() + first, y[at].data() + first, z[at].data() + first, 0.5F, piece);
          asm volatile("" ::: "memory");  // every pass is made
        }
      }
      best = std::max(best, 12.0 * static_cast<double>(piece) * threads * passes / seconds_since(begin));
    }
  return best;
}

double measure_gemm(int threads, bool quick) {
  const std::vector<int> sizes = quick ? std::vector{256} : std::vector{512, 1024, 2048};
  double best = 0;
  for (const int size : sizes) best = std::max(best, gemm_rate(size, threads));
  return best;
}

Machine::Machine(int threads, bool quick, int processes) : threads_(threads), quick_(quick) {
  const double l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 0);
  l2_ = {"L2", l2 * threads};
  l3_ = {"L3", cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0) / processes};
  const double beyond = std::max(8 * std::max(l3_.bytes, l2_.bytes), 96.0 * 1024 * 1024);
  bandwidth_ = measure_triad(quick ? 24e6 : beyond, threads, quick ? 0.01 : 0.5);
  gemm_ = measure_gemm(threads, quick);
}

Cache Machine::cache_of(double working_set) const {
  if (working_set <= l2_.bytes) return l2_;
  if (working_set <= l3_.bytes) return l3_;
  return {};
}

double Machine::bandwidth_within(double working_set) {
  const int power = static_cast<int>(std::lround(std::log2(std::max(working_set, 4096.0))));
  auto found = within_.find(power);
  if (found == within_.end())
    found =
        within_.emplace(power, measure_triad(std::ldexp(1.0, power), threads_, quick_ ? 0.005 : 0.1)).first;
  return found->second;
}

double Machine::floor_seconds(const Work& work) const {
  return std::max(work.bytes / bandwidth_, work.flops / gemm_);
}

double Machine::cache_floor_seconds(const Work& work) {
  return std::max(work.bytes / std::max(bandwidth_, bandwidth_within(work.working_set)), work.flops / gemm_);
}

std::string blas_core() {
  return openblas_get_corename ? openblas_get_corename() : "unknown";
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown";
}

}  // namespace rossby::bench
