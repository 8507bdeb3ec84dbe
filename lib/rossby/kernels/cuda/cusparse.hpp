#pragma once

namespace rossby {
class SparseApi;
}

namespace rossby::cuda {

/// cuSPARSE, loaded the first time; null where the library is not there.
[[nodiscard]] const SparseApi* sparse_api();

}  // namespace rossby::cuda
