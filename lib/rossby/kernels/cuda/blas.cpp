#include "rossby/kernels/cuda/blas.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <cublas_v2.h>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/cuda/library.hpp"
#include "rossby/tensor/cuda_device.hpp"

namespace rossby::cuda {
namespace {

/// cuBLAS with a handle for one stream. Without atomics its results are bit-equal from run to run.
class Blas {
 public:
  explicit Blas(const Device& device)
      : driver_(&device.driver()), products_(device.products()), library_("cublas", CUBLAS_VER_MAJOR) {
    library_.find(create_, "cublasCreate_v2");
    library_.find(destroy_, "cublasDestroy_v2");
    library_.find(set_stream_, "cublasSetStream_v2");
    library_.find(set_math_mode_, "cublasSetMathMode");
    library_.find(set_workspace_, "cublasSetWorkspace_v2");
    library_.find(single_, "cublasSgemm_v2_64");
    library_.find(double_, "cublasDgemm_v2_64");
    library_.find(mixed_, "cublasGemmEx_64");
    if (!library_.complete()) return;
    check(create_(&handle_), "starting");
    const auto& driver = static_cast<const CudaDriver&>(device.driver());
    check(set_stream_(handle_, static_cast<cudaStream_t>(driver.stream())), "taking a stream");
    check(set_math_mode_(handle_,
                         products_ == Products::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
          "choosing its arithmetic");
    if (driver.graphs()) {  // otherwise graphs would hold allocations and could not take other arguments
      workspace_ = driver_->allocate(workspace_bytes);
      if (!workspace_)
        user_error(
            "out of device memory: cannot allocate {} bytes for cuBLAS. Lower parallel.device_memory, or use "
            "more ranks",
            workspace_bytes);
      check(set_workspace_(handle_, workspace_, workspace_bytes), "taking memory");
    }
  }
  ~Blas() {
    if (handle_) (void)destroy_(handle_);
    if (workspace_) driver_->release(workspace_);
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  [[nodiscard]] bool there() const { return handle_ != nullptr; }

  /// Column-major c (m, n) = op(a) op(b) + beta·c.
  void multiply(cublasOperation_t op_a, cublasOperation_t op_b, Index m, Index n, Index k, const float* a,
                Index lda, const float* b, Index ldb, float beta, float* c, Index ldc) const {
    const float one = 1;
    if (products_ == Products::bf16) {  // the library rounds its operands
      check(mixed_(handle_, op_a, op_b, m, n, k, &one, a, CUDA_R_32F, lda, b, CUDA_R_32F, ldb, &beta, c,
                   CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_GEMM_DEFAULT),
            "multiplying");
      return;
    }
    check(single_(handle_, op_a, op_b, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc), "multiplying");
  }
  void multiply(cublasOperation_t op_a, cublasOperation_t op_b, Index m, Index n, Index k, const double* a,
                Index lda, const double* b, Index ldb, double beta, double* c, Index ldc) const {
    const double one = 1;
    check(double_(handle_, op_a, op_b, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc), "multiplying");
  }

 private:
  static void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
      user_error(
          "cuBLAS failed while {}: status {}. Check the GPU with nvidia-smi, and the CUDA installation", what,
          int(status));
  }

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what it recommends on sm_90

  DeviceDriver* driver_;
  Products products_;
  void* workspace_ = nullptr;
  Library library_;
  cublasHandle_t handle_ = nullptr;
  decltype(&cublasCreate_v2) create_ = nullptr;
  decltype(&cublasDestroy_v2) destroy_ = nullptr;
  decltype(&cublasSetStream_v2) set_stream_ = nullptr;
  decltype(&cublasSetMathMode) set_math_mode_ = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace_ = nullptr;
  decltype(&cublasSgemm_v2_64) single_ = nullptr;
  decltype(&cublasDgemm_v2_64) double_ = nullptr;
  // Declared by hand: the function is overloaded, so decltype cannot name its type.
  cublasStatus_t (*mixed_)(cublasHandle_t, cublasOperation_t, cublasOperation_t, std::int64_t, std::int64_t,
                           std::int64_t, const void*, const void*, cudaDataType, std::int64_t, const void*,
                           cudaDataType, std::int64_t, const void*, void*, cudaDataType, std::int64_t,
                           cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
};

}  // namespace

template <class T>
bool blas_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                  MatrixView<const T> b, bool accumulate) {
  const Index depth = op_a == Operand::transposed ? a.rows : a.cols;
  if (depth == 0) return false;
  std::shared_ptr<void>& kept = exec.device->library();
  if (!kept) exec.device->driver().apart([&] { kept = std::make_shared<Blas>(*exec.device); });
  const auto& blas = *static_cast<const Blas*>(kept.get());
  if (!blas.there()) return false;
  // Our rows are cuBLAS's columns: cᵀ = op(b)ᵀ op(a)ᵀ.
  const auto op = [](Operand ours) { return ours == Operand::transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto lead = [](Index stride, Index cols) { return std::max({stride, cols, Index{1}}); };
  blas.multiply(op(op_b), op(op_a), c.cols, c.rows, depth, b.data, lead(b.stride, b.cols), a.data,
                lead(a.stride, a.cols), accumulate ? T(1) : T(0), c.data, lead(c.stride, c.cols));
  return true;
}

std::string lacking_cublas() {
  Library library("cublas", CUBLAS_VER_MAJOR);
  void (*function)() = nullptr;
  for (const char* name : {"cublasCreate_v2", "cublasSgemm_v2_64", "cublasGemmEx_64"})
    library.find(function, name);
  return library.complete() ? "" : library.file() + " is missing or too old";
}

ROSSBY_FOR_SCALARS(blas_product)

}  // namespace rossby::cuda
