#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "rossby/kernels/autotune.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Port to a library that multiplies sparse matrices on a device's queue. All calls return 0 or the library's
/// error.
class SparseApi {
 public:
  /// Row-major; rows lie `stride` values apart.
  struct Dense {
    void* data;
    Index rows, columns, stride;
  };
  /// Compressed rows, all on the device.
  struct Csr {
    Index rows, columns, entries;
    const std::int32_t* ptr;
    const std::int32_t* column;
    const void* value;
    bool wide;  // doubles
  };
  /// y = alpha·A x + beta·y.
  struct Product {
    void* matrix;
    Dense x, y;
    double alpha, beta;
    bool wide;
  };

  virtual ~SparseApi() = default;
  /// The library enqueues on the queue of the driver's kernels.
  virtual int start(void** handle, DeviceDriver& driver) const = 0;
  virtual int stop(void* handle) const = 0;
  virtual int make_matrix(void** matrix, const Csr& csr) const = 0;
  virtual int drop_matrix(void* matrix) const = 0;
  /// Device memory that a product of these shapes needs.
  virtual int buffer_bytes(void* handle, const Product& product, std::size_t* bytes) const = 0;
  /// Stores in `buffer` the parts of a product that depend on its shapes only. Nobody else may write to
  /// `buffer` afterwards.
  virtual int prepare(void* handle, const Product& product, void* buffer) const = 0;
  virtual int multiply(void* handle, const Product& product, void* buffer) const = 0;
};

/// cuSPARSE with CUSPARSE_SPMM_CSR_ALG3, whose results are bit-equal from run to run. Loaded at the first
/// call; null if it is not available.
[[nodiscard]] const SparseApi* cusparse();

/// The relations of one block, in the library's format, for ranks that own every node, so that there are no
/// ghosts. Holds one copy of the index per relation and direction. If a node's columns are not contiguous,
/// the copy's rows are (node, column) pairs, and its entries are repeated once per column.
template <class T>
class SparseLibrary {
 public:
  /// `exec` has a device; its device, `api` and `block` outlive this object. `weight` (entries) is a host
  /// array.
  SparseLibrary(const Exec& exec, const SparseApi& api, const CsrBlock& block, std::span<const T> weight);
  ~SparseLibrary();
  SparseLibrary(const SparseLibrary&) = delete;
  SparseLibrary& operator=(const SparseLibrary&) = delete;

  /// True if multiply accepts such views: all nodes, one layout, an index of 32 bits.
  [[nodiscard]] bool takes(NodeView<const T> y, NodeView<const T> x) const;
  /// Device memory of the index of one relation and direction for such views.
  [[nodiscard]] Index index_bytes(NodeView<const T> y, NodeView<const T> x) const;

  /// y = alpha·S x + beta·y, with S = relation number `relation` or its transpose. Throws UserError with the
  /// library's error.
  void multiply(int relation, bool transposed, NodeView<T> y, T alpha, NodeView<const T> x, T beta);

 private:
  /// Views as matrices: a row is a node or a (node, column) pair.
  struct Shape {
    Index times;  // 1, or the number of columns
    Index width, x_stride, y_stride;
  };
  struct IndexCopy {
    Buffer<std::int32_t> ptr, column;
    Buffer<T> value;
  };
  struct Prepared {
    void* matrix = nullptr;
    Buffer<std::byte> buffer;
  };

  [[nodiscard]] static std::optional<Shape> shape_of(const NodeView<const T>& y, const NodeView<const T>& x);
  const IndexCopy& index_of(int relation, bool transposed, Index times);
  void check(int error, const char* what) const;

  Exec exec_;
  const SparseApi* api_;
  const CsrBlock* block_;
  std::vector<T> weight_;
  void* handle_ = nullptr;
  std::map<std::tuple<int, bool, Index>, IndexCopy> indices_;
  std::map<std::tuple<int, bool, Index, Index, Index, Index>, Prepared> prepared_;
};

/// The kernels that multiply with the relations of diffusions on a device.
enum class SparseKernel { own, library };
[[nodiscard]] constexpr std::string_view to_string(SparseKernel kernel) {
  return kernel == SparseKernel::own ? "own" : "cusparse";
}
/// The library must save a tenth, because it needs memory for an index of its own.
using SparseChoice = Choice<SparseKernel>;
constexpr double must_save(SparseKernel) {
  return 0.1;
}

}  // namespace rossby
