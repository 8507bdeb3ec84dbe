#pragma once

namespace rossby {
class SparseApi;
}

namespace rossby::cuda {

/// cuSPARSE, loaded at the first call; null if the library is not available.
[[nodiscard]] const SparseApi* sparse_api();

}  // namespace rossby::cuda
