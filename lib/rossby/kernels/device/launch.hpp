#pragma once

// Launches the kernels of this folder. Each source is compiled twice: by nvcc into rossby::cuda, and by the
// host's compiler into rossby::simulated, whose launches run in the queue of a simulated device. The tests
// therefore run a GPU's code on any machine.
//
// A kernel is a function of an index, or of a thread block that works in phases: a phase may read what the
// previous phase wrote to shared memory. Sums have a fixed order; there are no atomics.

#include <algorithm>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

#if defined(__CUDACC__)
#include "rossby/tensor/cuda_device.hpp"
#define ROSSBY_DEVICE cuda
#define ROSSBY_ON_DEVICE __device__
// For loops over a thread's arrays: an index that is not a constant would move the array to memory.
#define ROSSBY_UNROLL _Pragma("unroll")
#else
#include <numeric>
#include <vector>

#include "rossby/tensor/simulated_device.hpp"
#define ROSSBY_DEVICE simulated
#define ROSSBY_ON_DEVICE
#define ROSSBY_UNROLL
#endif

namespace rossby::ROSSBY_DEVICE {

inline constexpr int block_threads = 256;

#if !defined(__CUDACC__)
/// Calls g(i) for every i in [0, count), in the order of a launch.
template <class G>
void in_order(SimulatedDriver::Threads order, Index count, const G& g) {
  if (order == SimulatedDriver::Threads::up) {
    for (Index i = 0; i < count; ++i) g(i);
  } else if (order == SimulatedDriver::Threads::down) {
    for (Index i = count - 1; i >= 0; --i) g(i);
  } else {
    // A stride near the golden section that visits every index.
    Index stride = std::max<Index>(1, static_cast<Index>(0.618 * static_cast<double>(count)));
    while (std::gcd(stride, count) != 1) ++stride;
    for (Index k = 0, i = count / 2; k < count; ++k, i = (i + stride) % count) g(i);
  }
}
#endif

/// One block of block_threads threads.
struct Block {
  Index index = 0;
#if !defined(__CUDACC__)
  SimulatedDriver::Threads order = SimulatedDriver::Threads::up;
#endif

  /// A phase: g(thread) for every thread of the block; all finish before the next phase begins.
  template <class G>
  ROSSBY_ON_DEVICE void each(const G& g) const {
#if defined(__CUDACC__)
    g(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    in_order(order, block_threads, [&](Index t) { g(static_cast<int>(t)); });
#endif
  }
};

/// N values per thread that live from phase to phase: registers.
template <class T, int N>
class PerThread {
 public:
#if defined(__CUDACC__)
  using Values = T[N];
  __device__ Values& operator[](int) {
    return values_;
  }

 private:
  T values_[N] = {};
#else
  T* operator[](int thread) {
    return values_.data() + thread * N;
  }

 private:
  std::vector<T> values_ = std::vector<T>(static_cast<std::size_t>(block_threads) * N);
#endif
};

#if defined(__CUDACC__)

template <class F>
__global__ void __launch_bounds__(block_threads) each_kernel(Index count, F f) {
  const Index step = static_cast<Index>(gridDim.x) * block_threads;
  for (Index i = static_cast<Index>(blockIdx.x) * block_threads + threadIdx.x; i < count; i += step) f(i);
}

template <class Shared, class F>
__global__ void __launch_bounds__(block_threads) block_kernel(F f) {
  __shared__ Shared shared;
  f(Block{static_cast<Index>(blockIdx.x)}, shared);
}

inline const CudaDriver& driver(const Exec& exec) {
  return static_cast<const CudaDriver&>(exec.device->driver());
}

/// f(i) for every i in [0, count).
template <class F>
void for_each(const Exec& exec, Index count, const F& f) {
  if (count <= 0) return;
  constexpr Index most_blocks = Index{1} << 20;
  const auto blocks =
      static_cast<unsigned>(std::min(most_blocks, (count + block_threads - 1) / block_threads));
  const CudaDriver& to = driver(exec);
  each_kernel<<<blocks, block_threads, 0, static_cast<cudaStream_t>(to.stream())>>>(count, f);
  to.check_launch("a kernel");
  exec.device->launched();
}

/// f(block, shared memory) for `blocks` blocks.
template <class Shared, class F>
void for_each_block(const Exec& exec, Index blocks, const F& f) {
  if (blocks <= 0) return;
  const CudaDriver& to = driver(exec);
  block_kernel<Shared>
      <<<static_cast<unsigned>(blocks), block_threads, 0, static_cast<cudaStream_t>(to.stream())>>>(f);
  to.check_launch("a kernel of blocks");
  exec.device->launched();
}

#else

inline SimulatedDriver& driver(const Exec& exec) {
  return static_cast<SimulatedDriver&>(exec.device->driver());
}

template <class F>
void for_each(const Exec& exec, Index count, const F& f) {
  if (count <= 0) return;
  const auto order = driver(exec).launch(&f, sizeof f);
  exec.device->launched();
  driver(exec).enqueue([order, count, f] { in_order(order, count, f); });
}

template <class Shared, class F>
void for_each_block(const Exec& exec, Index blocks, const F& f) {
  if (blocks <= 0) return;
  const auto order = driver(exec).launch(&f, sizeof f);
  exec.device->launched();
  driver(exec).enqueue([order, blocks, f] {
    in_order(order, blocks, [&](Index b) {
      // Uninitialised, as on a GPU.
      Shared shared;
      std::fill_n(reinterpret_cast<unsigned char*>(&shared), sizeof(Shared),
                  static_cast<unsigned char>(0xFF));
      f(Block{b, order}, shared);
    });
  });
}

#endif

/// Entries (i, b, c) of node data, numbered along channels, columns, rows.
struct Entries {
  Index rows = 0, cols = 0, channels = 0;
  bool flat = false;  // every view is packed: (0, 0, number) addresses the entry

  [[nodiscard]] constexpr Index size() const { return rows * cols * channels; }

  /// f(i, b, c) for entry `number`.
  template <class F>
  ROSSBY_ON_DEVICE auto visit(Index number, const F& f) const {
    if (flat) return f(Index{0}, Index{0}, number);
    if (size() < (Index{1} << 31)) {  // a division of 32 bits takes a quarter of the time
      const auto n = static_cast<unsigned>(number);
      const auto run = n / static_cast<unsigned>(channels);
      const auto i = run / static_cast<unsigned>(cols);
      return f(Index{i}, Index{run - i * static_cast<unsigned>(cols)},
               Index{n - run * static_cast<unsigned>(channels)});
    }
    const Index run = number / channels;
    return f(run / cols, run % cols, number % channels);
  }
};

template <class First, class... Rest>
Entries entries_of(const NodeView<First>& first, const NodeView<Rest>&... rest) {
  return {first.rows, first.cols, first.channels, first.packed() && ((!rest.data || rest.packed()) && ...)};
}

/// Entries for an f that needs the indices (i, b, c) of the entry.
template <class T>
Entries numbered(const NodeView<T>& view) {
  return {view.rows, view.cols, view.channels, false};
}

template <class F>
void for_each_entry(const Exec& exec, const Entries& entries, const F& f) {
  for_each(exec, entries.size(), [=] ROSSBY_ON_DEVICE(Index number) { entries.visit(number, f); });
}

}  // namespace rossby::ROSSBY_DEVICE
