#include "rossby/kernels/sparse_library.hpp"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/cuda/cusparse.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {
namespace {

/// Compressed rows of one relation or its transpose, S ⊗ I over `times` columns: row i·times + b has the
/// columns j·times + b for all columns j of row i.
template <class T>
struct HostIndex {
  std::vector<std::int32_t> ptr, column;
  std::vector<T> value;

  HostIndex(const CsrBlock& block, const std::vector<T>& weight, int relation, bool transposed, Index times) {
    const Index relations = block.relations;
    const std::vector<LocalEntry>& lists = transposed ? block.t_ptr : block.ptr;
    ptr.push_back(0);
    for (Index i = 0; i < block.rows; ++i)
      for (Index b = 0; b < times; ++b) {
        const auto list = static_cast<std::size_t>(i * relations + relation);
        for (auto e = static_cast<std::size_t>(lists[list]); e < static_cast<std::size_t>(lists[list + 1]);
             ++e) {
          const auto from = static_cast<Index>(transposed ? block.t_row[e] : block.column[e]);
          const auto at = transposed ? static_cast<std::size_t>(block.t_entry[e]) : e;
          column.push_back(static_cast<std::int32_t>(from * times + b));
          value.push_back(weight[at]);
        }
        ptr.push_back(static_cast<std::int32_t>(column.size()));
      }
  }
};

template <class V>
Buffer<V> carried(Device& device, const std::vector<V>& host) {
  Buffer<V> there(static_cast<Index>(host.size()), device);
  device.upload(there.data(), std::span<const V>(host));
  return there;
}

[[nodiscard]] Index most_entries(const CsrBlock& block) {
  std::vector<Index> entries(static_cast<std::size_t>(block.relations));
  for (const RelationNumber k : block.relation) ++entries[static_cast<std::size_t>(k)];
  return entries.empty() ? 0 : *std::max_element(entries.begin(), entries.end());
}

}  // namespace

const SparseApi* cusparse() {
#if defined(ROSSBY_CUDA)
  return cuda::sparse_api();
#else
  return nullptr;
#endif
}

template <class T>
SparseLibrary<T>::SparseLibrary(const Exec& exec, const SparseApi& api, const CsrBlock& block,
                                std::span<const T> weight)
    : exec_(exec), api_(&api), block_(&block), weight_(weight.begin(), weight.end()) {
  require(exec.device != nullptr && std::ssize(weight) == block.entries(),
          "a library of a device's products");
  check(api_->start(&handle_, exec.device->driver()), "starting");
}

template <class T>
SparseLibrary<T>::~SparseLibrary() {
  for (auto& [key, prepared] : prepared_)
    if (prepared.matrix) (void)api_->drop_matrix(prepared.matrix);
  if (handle_) (void)api_->stop(handle_);
}

template <class T>
auto SparseLibrary<T>::shape_of(const NodeView<const T>& y, const NodeView<const T>& x)
    -> std::optional<Shape> {
  const auto whole = [](const NodeView<const T>& view) {
    return view.cols <= 1 || view.col_stride == view.channels;
  };
  const auto pairs = [](const NodeView<const T>& view) {
    return view.rows <= 1 || view.row_stride == view.cols * view.col_stride;
  };
  if (whole(y) && whole(x)) return Shape{1, y.width(), x.row_stride, y.row_stride};
  if (pairs(y) && pairs(x)) return Shape{y.cols, y.channels, x.col_stride, y.col_stride};
  return std::nullopt;
}

template <class T>
bool SparseLibrary<T>::takes(NodeView<const T> y, NodeView<const T> x) const {
  if (block_->ghosts > 0 || y.rows != block_->rows || x.rows != block_->rows || y.size() == 0) return false;
  const std::optional<Shape> shape = shape_of(y, x);
  const Index most = std::numeric_limits<std::int32_t>::max();
  return shape && block_->rows <= most / shape->times && block_->entries() <= most / shape->times;
}

template <class T>
Index SparseLibrary<T>::index_bytes(NodeView<const T> y, NodeView<const T> x) const {
  const std::optional<Shape> shape = shape_of(y, x);
  if (!shape) return 0;
  return shape->times * (most_entries(*block_) * static_cast<Index>(sizeof(std::int32_t) + sizeof(T)) +
                         block_->rows * static_cast<Index>(sizeof(std::int32_t)));
}

template <class T>
auto SparseLibrary<T>::index_of(int relation, bool transposed, Index times) -> const IndexCopy& {
  const auto [place, fresh] = indices_.try_emplace({relation, transposed, times});
  if (fresh) {
    const HostIndex<T> host(*block_, weight_, relation, transposed, times);
    Device& device = *exec_.device;
    place->second = {carried(device, host.ptr), carried(device, host.column), carried(device, host.value)};
    device.wait();  // keep the host's arrays until they are copied
  }
  return place->second;
}

template <class T>
void SparseLibrary<T>::multiply(int relation, bool transposed, NodeView<T> y, T alpha, NodeView<const T> x,
                                T beta) {
  require(takes(y, x), "views that the library takes");
  const Shape shape = *shape_of(y, x);
  const Index rows = block_->rows * shape.times;
  const auto [place, fresh] =
      prepared_.try_emplace({relation, transposed, shape.times, shape.width, shape.x_stride, shape.y_stride});
  Prepared& prepared = place->second;
  SparseApi::Product product{prepared.matrix,
                             {const_cast<T*>(x.data), rows, shape.width, shape.x_stride},
                             {y.data, rows, shape.width, shape.y_stride},
                             static_cast<double>(alpha),
                             static_cast<double>(beta),
                             sizeof(T) == sizeof(double)};
  if (fresh)
    exec_.device->driver().apart([&] {
      const IndexCopy& index = index_of(relation, transposed, shape.times);
      check(api_->make_matrix(&prepared.matrix, {rows, rows, index.column.size(), index.ptr.data(),
                                                 index.column.data(), index.value.data(), product.wide}),
            "taking a matrix");
      product.matrix = prepared.matrix;
      std::size_t bytes = 0;
      check(api_->buffer_bytes(handle_, product, &bytes), "asking for memory");
      prepared.buffer = Buffer<std::byte>(static_cast<Index>(bytes), *exec_.device);
      check(api_->prepare(handle_, product, prepared.buffer.data()), "preparing a product");
    });
  check(api_->multiply(handle_, product, prepared.buffer.data()), "multiplying");
}

template <class T>
void SparseLibrary<T>::check(int error, const char* what) const {
  if (error != 0)
    user_error(
        "cuSPARSE failed while {}: status {}. Set parallel.sparse_products = \"own\" to use other kernels",
        what, error);
}

template class SparseLibrary<float>;
template class SparseLibrary<double>;

}  // namespace rossby
