#include <span>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby::ROSSBY_DEVICE {
namespace {

/// Arrays of a launch; thread blocks cover them one after the other.
template <class T>
struct Arrays {
  static constexpr int most = 32;
  static constexpr Index values_a_block = 16 * block_threads;
  T* data[most];
  Index size[most];
  Index blocks[most];  // per array
};

struct Nothing {
  char unused;
};

}  // namespace

template <class T>
void clear_arrays(const Exec& exec, std::span<const std::span<T>> arrays) {
  while (!arrays.empty()) {
    Arrays<T> some{};
    int count = 0;
    Index blocks = 0;
    for (; !arrays.empty() && count < Arrays<T>::most; arrays = arrays.subspan(1)) {
      if (arrays[0].empty()) continue;
      some.data[count] = arrays[0].data();
      some.size[count] = std::ssize(arrays[0]);
      some.blocks[count] = (some.size[count] + Arrays<T>::values_a_block - 1) / Arrays<T>::values_a_block;
      blocks += some.blocks[count++];
    }
    for_each_block<Nothing>(exec, blocks, [=] ROSSBY_ON_DEVICE(const Block& block, Nothing&) {
      int array = 0;
      Index at = block.index;
      while (at >= some.blocks[array]) at -= some.blocks[array++];
      const Index first = at * Arrays<T>::values_a_block, left = some.size[array] - first;
      T* const to = some.data[array] + first;
      const Index size = left < Arrays<T>::values_a_block ? left : Arrays<T>::values_a_block;
      block.each([&](int t) {
        for (Index k = t; k < size; k += block_threads) to[k] = T(0);
      });
    });
  }
}

template <class T>
void clear_view(const Exec& exec, NodeView<T> y) {
  for_each_entry(exec, numbered(y),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) { y.at(i, b)[c] = T(0); });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(clear_arrays, clear_view)
