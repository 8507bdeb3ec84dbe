#include "rossby/tensor/cuda_device.hpp"

#if defined(ROSSBY_CUDA)
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#endif

namespace rossby {

#if defined(ROSSBY_CUDA)
namespace {

class Runtime final : public CudaApi {
 public:
  int device_count(int* count) const override { return cudaGetDeviceCount(count); }
  int properties(int device, Properties* out) const override {
    cudaDeviceProp properties{};
    const int error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) return error;
    *out = {{}, properties.name, properties.major, properties.minor, properties.totalGlobalMem};
    for (const char byte : properties.uuid.bytes)
      out->id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return error;
  }
  int set_device(int device) const override { return cudaSetDevice(device); }
  int stream_create(void** stream) const override {
    // Not the default stream, because it waits for all other streams.
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking);
  }
  int stream_destroy(void* stream) const override { return cudaStreamDestroy(cast(stream)); }
  int stream_synchronize(void* stream) const override { return cudaStreamSynchronize(cast(stream)); }
  int event_create(void** event, bool timed) const override {
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event),
                                    timed ? cudaEventDefault : cudaEventDisableTiming);
  }
  int event_destroy(void* event) const override { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
  int event_record(void* event, void* stream) const override {
    return cudaEventRecord(static_cast<cudaEvent_t>(event), cast(stream));
  }
  int event_synchronize(void* event) const override {
    return cudaEventSynchronize(static_cast<cudaEvent_t>(event));
  }
  int event_elapsed(float* milliseconds, void* earlier, void* later) const override {
    return cudaEventElapsedTime(milliseconds, static_cast<cudaEvent_t>(earlier),
                                static_cast<cudaEvent_t>(later));
  }
  int stream_wait(void* stream, void* event) const override {
    return cudaStreamWaitEvent(cast(stream), static_cast<cudaEvent_t>(event), 0);
  }
  int allocate(void** pointer, std::size_t bytes) const override { return cudaMalloc(pointer, bytes); }
  int release(void* pointer) const override { return cudaFree(pointer); }
  int allocate_host(void** pointer, std::size_t bytes) const override {
    return cudaMallocHost(pointer, bytes);
  }
  int release_host(void* pointer) const override { return cudaFreeHost(pointer); }
  int copy(void* to, const void* from, std::size_t bytes, Direction direction, void* stream) const override {
    const cudaMemcpyKind kind = direction == Direction::in    ? cudaMemcpyHostToDevice
                                : direction == Direction::out ? cudaMemcpyDeviceToHost
                                                              : cudaMemcpyDeviceToDevice;
    return cudaMemcpyAsync(to, from, bytes, kind, cast(stream));
  }
  int fill_zero(void* pointer, std::size_t bytes, void* stream) const override {
    return cudaMemsetAsync(pointer, 0, bytes, cast(stream));
  }
  int capture_begin(void* stream) const override {
    // The relaxed mode, because other threads (of communication libraries) may allocate meanwhile.
    return cudaStreamBeginCapture(cast(stream), cudaStreamCaptureModeRelaxed);
  }
  int capture_end(void* stream, void** graph) const override {
    return cudaStreamEndCapture(cast(stream), reinterpret_cast<cudaGraph_t*>(graph));
  }
  int graph_size(void* graph, std::size_t* nodes) const override {
    return cudaGraphGetNodes(static_cast<cudaGraph_t>(graph), nullptr, nodes);
  }
  int graph_destroy(void* graph) const override { return cudaGraphDestroy(static_cast<cudaGraph_t>(graph)); }
  int graph_make(void** executable, void* graph) const override {
    return cudaGraphInstantiateWithFlags(reinterpret_cast<cudaGraphExec_t*>(executable),
                                         static_cast<cudaGraph_t>(graph), 0);
  }
  int graph_update(void* executable, void* graph, bool* same) const override {
    const auto to = static_cast<cudaGraphExec_t>(executable);
    const auto from = static_cast<cudaGraph_t>(graph);
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo info{};
    const int error = cudaGraphExecUpdate(to, from, &info);
#else
    cudaGraphNode_t node = nullptr;
    cudaGraphExecUpdateResult info{};
    const int error = cudaGraphExecUpdate(to, from, &node, &info);
#endif
    *same = error == cudaSuccess;
    if (error != cudaErrorGraphExecUpdateFailure) return error;
    (void)cudaGetLastError();  // clear it, or the next launch reports it
    return cudaSuccess;
  }
  int graph_drop(void* executable) const override {
    return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable));
  }
  int graph_launch(void* executable, void* stream) const override {
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), cast(stream));
  }
  int last_error() const override {
    return cudaGetLastError();
  }
  [[nodiscard]] std::string error_text(int error) const override {
    return cudaGetErrorString(static_cast<cudaError_t>(error));
  }

 private:
  static cudaStream_t cast(void* stream) {
    return static_cast<cudaStream_t>(stream);
  }
};

const Runtime runtime;

}  // namespace

const CudaApi* cuda_runtime() {
  return &runtime;
}
#else
const CudaApi* cuda_runtime() {
  return nullptr;
}
#endif

}  // namespace rossby
