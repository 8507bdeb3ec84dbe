#include "benchmarks/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include <cblas.h>
#include <unistd.h>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/product.hpp"
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

/// Sums in 64 lanes; x holds them.
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

/// Arrays of one thread, made and touched by it, so that they lie near it.
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
    asm volatile("" ::: "memory");  // every pass is made
  }
};

double cache_bytes(int name, double otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<double>(bytes) : otherwise;
}

/// Runs `measure` on every thread at the same time, without barriers: a thread that other programs hold up
/// does not hold up the others. Returns the sum of what the threads measured.
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

double gemm_rate(int size, int threads) {
  return sum_over_threads(threads, [size] {
    const Index values = Index{size} * size;
    Buffer<float> a(values), b(values), c(values);
    std::fill_n(a.data(), values, 0.5F);
    std::fill_n(b.data(), values, 0.25F);
    double best = 0;
    for (int repeat = 0; repeat < (size > 600 ? 4 : 40); ++repeat) {
      const auto begin = Clock::now();
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0F, a.data(), size, b.data(),
                  size, 0.0F, c.data(), size);
      best = std::max(best, 2.0 * std::pow(size, 3) / seconds_since(begin));
    }
    return best;
  });
}

}  // namespace

double measure_stream(Stream stream, double bytes, int threads, double seconds) {
  const double element = stream == Stream::triad ? 12 : 4;
  const auto size = std::max<Index>(static_cast<Index>(bytes / (element * threads)), 64);
  // Large arrays are timed piece by piece, so that a piece fits between two interruptions by other programs;
  // pieces follow each other through the arrays, so none lies in a cache that the arrays do not fit.
  const Index piece = std::min(size, Index{1} << 19);
  const int passes = std::max(1, static_cast<int>(2e6 / static_cast<double>(size)));
  const double moved = bytes_per_element(stream) * static_cast<double>(piece) * passes;
  return sum_over_threads(threads, [&] {
    Streams arrays;
    arrays.make(stream, size);
    std::vector<double> rates;
    const auto start = Clock::now();
    for (int repeat = 0; repeat < 3 || seconds_since(start) < seconds; ++repeat)
      for (Index first = 0; first + piece <= size; first += piece) {
        const auto begin = Clock::now();
        for (int pass = 0; pass < passes; ++pass) arrays.pass(stream, first, piece);
        rates.push_back(moved / seconds_since(begin));
      }
    return upper_decile(rates);
  });
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
  const double bytes = quick ? 24e6 : beyond;
  bandwidth_ = measure_stream(Stream::triad, bytes, threads, quick ? 0.01 : 0.5);
  read_ = measure_stream(Stream::read, bytes, threads, quick ? 0.01 : 0.2);
  update_ = measure_stream(Stream::update, bytes, threads, quick ? 0.01 : 0.2);
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
    found = within_
                .emplace(power, measure_stream(Stream::triad, std::ldexp(1.0, power), threads_,
                                               quick_ ? 0.005 : 0.1))
                .first;
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

namespace {

/// Seconds of one of `repeats` calls that are enqueued together, the best of three tries.
template <class F>
double device_seconds(const Exec& exec, int repeats, const F& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt <= 3; ++attempt) {
    exec.device->wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int r = 0; r < repeats; ++r) f();
    exec.device->wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (attempt > 0) best = std::min(best, seconds / repeats);
  }
  return best;
}

}  // namespace

Machine Machine::of_device(const Exec& exec, bool quick) {
  Machine machine;
  const Index size = quick ? 1 << 12 : 1 << 26, n = quick ? 64 : 4096;
  const int repeats = quick ? 1 : 10;
  {
    Buffer<float> x(size, *exec.device), y(size, *exec.device);
    const NodeView<float> from(x.data(), 1, 1, size), to(y.data(), 1, 1, size);
    const auto bytes = 4.0 * static_cast<double>(size);
    machine.bandwidth_ =
        3 * bytes / device_seconds(exec, repeats, [&] { accumulate<float>(exec, to, 0.5F, from); });
    machine.update_ = 2 * bytes / device_seconds(exec, repeats, [&] { scale<float>(exec, to, 0.5F, to); });
    machine.read_ = machine.bandwidth_;
    Buffer<float> host = Buffer<float>::pinned(size, *exec.device);
    DeviceDriver& driver = exec.device->driver();
    const auto length = static_cast<std::size_t>(size) * sizeof(float);
    machine.copy_in_ =
        bytes / device_seconds(exec, repeats, [&] { driver.travel_in(x.data(), host.data(), length); });
    machine.copy_out_ =
        bytes / device_seconds(exec, repeats, [&] { driver.travel_out(host.data(), y.data(), length); });
  }
  Buffer<float> a(n * n, *exec.device), b(n * n, *exec.device), c(n * n, *exec.device);
  const double seconds = device_seconds(exec, repeats, [&] {
    matrix_product<float>(exec, {c.data(), n, n}, Operand::plain, {a.data(), n, n}, Operand::plain,
                          {b.data(), n, n}, false);
  });
  machine.gemm_ = 2.0 * std::pow(static_cast<double>(n), 3) / seconds;
  return machine;
}

}  // namespace rossby::bench
