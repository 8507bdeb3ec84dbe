#include "rossby/kernels/cuda/cusparse.hpp"

#include <memory>

#include <cusparse.h>

#include "rossby/kernels/cuda/library.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/tensor/cuda_device.hpp"

namespace rossby::cuda {
namespace {

class Cusparse final : public SparseApi {
 public:
  Cusparse() : library_("cusparse", CUSPARSE_VER_MAJOR) {
    library_.find(create_, "cusparseCreate");
    library_.find(destroy_, "cusparseDestroy");
    library_.find(set_stream_, "cusparseSetStream");
    library_.find(create_csr_, "cusparseCreateCsr");
    library_.find(destroy_csr_, "cusparseDestroySpMat");
    library_.find(create_dense_, "cusparseCreateDnMat");
    library_.find(destroy_dense_, "cusparseDestroyDnMat");
    library_.find(buffer_size_, "cusparseSpMM_bufferSize");
    library_.find(preprocess_, "cusparseSpMM_preprocess");
    library_.find(multiply_, "cusparseSpMM");
  }
  [[nodiscard]] bool there() const { return library_.complete(); }

  int start(void** handle, DeviceDriver& driver) const override {
    if (const int error = create_(reinterpret_cast<cusparseHandle_t*>(handle)); error != 0) return error;
    const auto& gpu = static_cast<const CudaDriver&>(driver);
    return set_stream_(static_cast<cusparseHandle_t>(*handle), static_cast<cudaStream_t>(gpu.stream()));
  }
  int stop(void* handle) const override { return destroy_(static_cast<cusparseHandle_t>(handle)); }
  int make_matrix(void** matrix, const Csr& csr) const override {
    return create_csr_(reinterpret_cast<cusparseSpMatDescr_t*>(matrix), csr.rows, csr.columns, csr.entries,
                       const_cast<std::int32_t*>(csr.ptr), const_cast<std::int32_t*>(csr.column),
                       const_cast<void*>(csr.value), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                       CUSPARSE_INDEX_BASE_ZERO, type(csr.wide));
  }
  int drop_matrix(void* matrix) const override {
    return destroy_csr_(static_cast<cusparseSpMatDescr_t>(matrix));
  }
  int buffer_bytes(void* handle, const Product& product, std::size_t* bytes) const override {
    return with_operands(product, [&](const auto&... operands) {
      return buffer_size_(static_cast<cusparseHandle_t>(handle), operands..., bytes);
    });
  }
  int prepare(void* handle, const Product& product, void* buffer) const override {
    return with_operands(product, [&](const auto&... operands) {
      return preprocess_(static_cast<cusparseHandle_t>(handle), operands..., buffer);
    });
  }
  int multiply(void* handle, const Product& product, void* buffer) const override {
    return with_operands(product, [&](const auto&... operands) {
      return multiply_(static_cast<cusparseHandle_t>(handle), operands..., buffer);
    });
  }

 private:
  static cudaDataType type(bool wide) { return wide ? CUDA_R_64F : CUDA_R_32F; }

  /// Runs call(the arguments common to all calls of a product), with dense matrices that live until it
  /// returns.
  template <class Call>
  int with_operands(const Product& product, const Call& call) const {
    cusparseDnMatDescr_t x = nullptr, y = nullptr;
    const auto made = [&](cusparseDnMatDescr_t& to, const Dense& dense) {
      return static_cast<int>(create_dense_(&to, dense.rows, dense.columns, dense.stride, dense.data,
                                            type(product.wide), CUSPARSE_ORDER_ROW));
    };
    int error = made(x, product.x);
    if (error == 0) error = made(y, product.y);
    if (error == 0) {
      const auto alpha = static_cast<float>(product.alpha), beta = static_cast<float>(product.beta);
      const void* const scale = product.wide ? static_cast<const void*>(&product.alpha) : &alpha;
      const void* const keep = product.wide ? static_cast<const void*>(&product.beta) : &beta;
      error = call(CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, scale,
                   static_cast<cusparseSpMatDescr_t>(product.matrix), x, keep, y, type(product.wide),
                   CUSPARSE_SPMM_CSR_ALG3);
    }
    if (x) (void)destroy_dense_(x);
    if (y) (void)destroy_dense_(y);
    return error;
  }

  Library library_;
  decltype(&cusparseCreate) create_ = nullptr;
  decltype(&cusparseDestroy) destroy_ = nullptr;
  decltype(&cusparseSetStream) set_stream_ = nullptr;
  decltype(&cusparseCreateCsr) create_csr_ = nullptr;
  decltype(&cusparseDestroySpMat) destroy_csr_ = nullptr;
  decltype(&cusparseCreateDnMat) create_dense_ = nullptr;
  decltype(&cusparseDestroyDnMat) destroy_dense_ = nullptr;
  decltype(&cusparseSpMM_bufferSize) buffer_size_ = nullptr;
  decltype(&cusparseSpMM_preprocess) preprocess_ = nullptr;
  decltype(&cusparseSpMM) multiply_ = nullptr;
};

}  // namespace

const SparseApi* sparse_api() {
  static const Cusparse library;
  return library.there() ? &library : nullptr;
}

}  // namespace rossby::cuda
