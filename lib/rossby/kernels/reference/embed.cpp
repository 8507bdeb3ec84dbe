#include "rossby/kernels/embed.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void embed_columns_forward(const Exec&, NodeView<T> out, const T* table, Index,
                           std::span<const Index> times) {
  for_each_entry(out, [&](Index i, Index b, Index c) {
    entry(out, i, b, c) = table[(times[b] * out.rows + i) * out.channels + c];
  });
}

template <class T>
void embed_columns_backward(const Exec&, T* dtable, Index, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins) {
  for_each_entry(dout, [&](Index i, Index b, Index c) {
    T& sum = dtable[(times[b] * dout.rows + i) * dout.channels + c];
    sum = entry(dout, i, b, c) + (begins.empty() || begins[b] == 0 ? sum : T(0));
  });
}

template <class T>
void embed_pairs_forward(const Exec&, NodeView<T> out, const T* table, Index, Index n,
                         std::span<const Index> times, std::span<const Index> rows) {
  for_each_entry(out, [&](Index q, Index b, Index c) {
    entry(out, q, b, c) = table[(times[q] * n + rows[q]) * out.channels + c];
  });
}

template <class T>
void embed_pairs_backward(const Exec&, T* dtable, Index, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows) {
  for_each_entry(dout, [&](Index q, Index b, Index c) {
    dtable[(times[q] * n + rows[q]) * dout.channels + c] += entry(dout, q, b, c);
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, embed_columns_forward, embed_columns_backward, embed_pairs_forward,
                 embed_pairs_backward)
