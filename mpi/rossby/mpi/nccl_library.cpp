#include "rossby/mpi/nccl_api.hpp"

#if defined(ROSSBY_NCCL)
#include <cstring>

#include <dlfcn.h>
#include <nccl.h>

#include "rossby/base/error.hpp"
#endif

namespace rossby {

#if defined(ROSSBY_NCCL)
namespace {

class Library final : public NcclApi {
 public:
  Library() {
    library_ = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library_) library_ = ::dlopen("/usr/local/cuda/lib64/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return;
    find(unique_id_, "ncclGetUniqueId");
    find(comm_init_, "ncclCommInitRank");
    find(comm_destroy_, "ncclCommDestroy");
    find(comm_abort_, "ncclCommAbort");
    find(group_start_, "ncclGroupStart");
    find(group_end_, "ncclGroupEnd");
    find(send_, "ncclSend");
    find(receive_, "ncclRecv");
    find(all_reduce_, "ncclAllReduce");
    find(async_error_, "ncclCommGetAsyncError");
    find(error_text_, "ncclGetErrorString");
  }
  [[nodiscard]] bool there() const { return library_ && complete_; }

  int unique_id(Id* id) const override {
    ncclUniqueId own;
    const int error = unique_id_(&own);
    static_assert(sizeof own == sizeof id->bytes);
    std::memcpy(id->bytes, &own, sizeof own);
    return error;
  }
  int comm_init(void** comm, int ranks, const Id& id, int rank) const override {
    ncclUniqueId own;
    std::memcpy(&own, id.bytes, sizeof own);
    return comm_init_(reinterpret_cast<ncclComm_t*>(comm), ranks, own, rank);
  }
  int comm_destroy(void* comm) const override { return comm_destroy_(cast(comm)); }
  int comm_abort(void* comm) const override { return comm_abort_(cast(comm)); }
  int group_start() const override { return group_start_(); }
  int group_end() const override { return group_end_(); }
  int send(const void* from, std::size_t bytes, int peer, void* comm, void* queue) const override {
    return send_(from, bytes, ncclChar, peer, cast(comm), static_cast<cudaStream_t>(queue));
  }
  int receive(void* to, std::size_t bytes, int peer, void* comm, void* queue) const override {
    return receive_(to, bytes, ncclChar, peer, cast(comm), static_cast<cudaStream_t>(queue));
  }
  int all_reduce(void* values, std::size_t count, bool is_double, void* comm, void* queue) const override {
    return all_reduce_(values, values, count, is_double ? ncclDouble : ncclFloat, ncclSum, cast(comm),
                       static_cast<cudaStream_t>(queue));
  }
  int async_error(void* comm) const override {
    ncclResult_t error = ncclSuccess;
    const int own = async_error_(cast(comm), &error);
    return own != 0 ? own : error == ncclInProgress ? 0 : error;
  }
  [[nodiscard]] std::string error_text(int error) const override {
    return error_text_(static_cast<ncclResult_t>(error));
  }

 private:
  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    complete_ = complete_ && function;
  }
  static ncclComm_t cast(void* comm) { return static_cast<ncclComm_t>(comm); }

  void* library_ = nullptr;
  bool complete_ = true;
  decltype(&ncclGetUniqueId) unique_id_ = nullptr;
  decltype(&ncclCommInitRank) comm_init_ = nullptr;
  decltype(&ncclCommDestroy) comm_destroy_ = nullptr;
  decltype(&ncclCommAbort) comm_abort_ = nullptr;
  decltype(&ncclGroupStart) group_start_ = nullptr;
  decltype(&ncclGroupEnd) group_end_ = nullptr;
  decltype(&ncclSend) send_ = nullptr;
  decltype(&ncclRecv) receive_ = nullptr;
  decltype(&ncclAllReduce) all_reduce_ = nullptr;
  decltype(&ncclCommGetAsyncError) async_error_ = nullptr;
  decltype(&ncclGetErrorString) error_text_ = nullptr;
};

}  // namespace

const NcclApi* nccl_library() {
  static const Library library;
  return library.there() ? &library : nullptr;
}
#else
const NcclApi* nccl_library() {
  return nullptr;
}
#endif

}  // namespace rossby
