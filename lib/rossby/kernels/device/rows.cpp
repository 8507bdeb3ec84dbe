#include "rossby/kernels/rows.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void gather_rows(const Exec& exec, T* out, NodeView<const T> x, std::span<const LocalColumn> rows) {
  const LocalColumn* listed = exec.device->on_device(rows);
  const Index width = x.width();
  const Entries entries{std::ssize(rows), x.cols, x.channels, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index k, Index b, Index c) {
    out[k * width + b * x.channels + c] = x.at(listed[k], b)[c];
  });
}

template <class T>
void scatter_add_rows(const Exec& exec, NodeView<T> y, const T* in, const RowSums& sums) {
  const LocalColumn* listed = exec.device->on_device(sums.rows);
  const LocalEntry* ptr = exec.device->on_device(sums.ptr);
  const LocalEntry* position = exec.device->on_device(sums.position);
  const Index width = y.width();
  const Entries entries{std::ssize(sums.rows), y.cols, y.channels, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index k, Index b, Index c) {
    T sum = y.at(listed[k], b)[c];
    for (Index p = ptr[k]; p < ptr[k + 1]; ++p) sum += in[position[p] * width + b * y.channels + c];
    y.at(listed[k], b)[c] = sum;
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(gather_rows, scatter_add_rows)
