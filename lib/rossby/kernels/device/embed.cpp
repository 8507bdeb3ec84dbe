#include "rossby/kernels/embed.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/few.hpp"
#include "rossby/kernels/device/launch.hpp"
#include "rossby/kernels/device/shares.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, Index,
                           std::span<const Index> times) {
  const FewIndices at(*exec.device, times);
  for_each_entry(exec, numbered(out), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    out.at(i, b)[c] = table[(at[b] * out.rows + i) * out.channels + c];
  });
}

/// A thread takes all columns of its entry in order, because times may repeat. If entries are few (a table's
/// rows, taken for columns), threads share the times.
template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, Index, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins) {
  constexpr Index threads = Index{1} << 16;
  const FewIndices at(*exec.device, times), anew(*exec.device, begins);
  const bool begins_anew = !begins.empty();
  const Index entries = dout.rows * dout.channels;
  if (entries == 0) return;
  const Index most = std::clamp<Index>(threads / entries, 1, many_shares);
  for_each_share(exec, dout.cols, entries, most, [=] ROSSBY_ON_DEVICE(const Share& share, Index k) {
    const Index i = k / dout.channels, c = k % dout.channels;
    for (Index b = 0; b < dout.cols; ++b) {
      if (!share.has(at[b])) continue;
      T& sum = dtable[(at[b] * dout.rows + i) * dout.channels + c];
      sum = dout.at(i, b)[c] + (begins_anew && anew[b] != 0 ? T(0) : sum);
    }
  });
}

template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index, Index n,
                         std::span<const Index> times, std::span<const Index> rows) {
  const Index* time = exec.device->on_device(times);
  const Index* row = exec.device->on_device(rows);
  for_each_entry(exec, numbered(out), [=] ROSSBY_ON_DEVICE(Index q, Index b, Index c) {
    out.at(q, b)[c] = table[(time[q] * n + row[q]) * out.channels + c];
  });
}

/// Pairs may repeat anywhere in the list, so threads share the nodes.
template <class T>
void embed_pairs_backward(const Exec& exec, T* dtable, Index, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows) {
  const Index* time = exec.device->on_device(times);
  const Index* row = exec.device->on_device(rows);
  const Index d = dout.channels;
  for_each_share(exec, n, d, many_shares, [=] ROSSBY_ON_DEVICE(const Share& share, Index c) {
    for (Index q = 0; q < dout.rows; ++q)
      if (share.has(row[q])) dtable[(time[q] * n + row[q]) * d + c] += dout.row(q)[c];
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(embed_columns_forward, embed_columns_backward, embed_pairs_forward,
                        embed_pairs_backward)
