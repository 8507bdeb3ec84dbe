#pragma once

#include <cstddef>
#include <string>

namespace rossby {

/// The NCCL calls that Rossby uses. Tests replace them, so that they need no GPU. All except error_text
/// return an ncclResult_t; 0 means success. `queue` is a cudaStream_t.
class NcclApi {
 public:
  struct Id {
    char bytes[128];
  };

  virtual ~NcclApi() = default;
  virtual int unique_id(Id* id) const = 0;
  virtual int comm_init(void** comm, int ranks, const Id& id, int rank) const = 0;
  virtual int comm_destroy(void* comm) const = 0;
  /// Does not wait for other ranks, which may be in the middle of an exchange.
  virtual int comm_abort(void* comm) const = 0;
  virtual int group_start() const = 0;
  virtual int group_end() const = 0;
  virtual int send(const void* from, std::size_t bytes, int peer, void* comm, void* queue) const = 0;
  virtual int receive(void* to, std::size_t bytes, int peer, void* comm, void* queue) const = 0;
  /// values[i] = Σ over ranks, in place.
  virtual int all_reduce(void* values, std::size_t count, bool is_double, void* comm, void* queue) const = 0;
  /// A background error; 0: none.
  virtual int async_error(void* comm) const = 0;
  [[nodiscard]] virtual std::string error_text(int error) const = 0;
};

/// Returns NCCL, loaded at the first call; null if the library is missing or the build has no CUDA.
[[nodiscard]] const NcclApi* nccl_library();

}  // namespace rossby
