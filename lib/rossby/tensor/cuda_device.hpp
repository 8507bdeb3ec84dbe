#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// The calls of the CUDA runtime that Rossby makes, so that what happens when they fail can be tested without
/// a GPU. All return a cudaError_t, 0 where they did what they should.
class CudaApi {
 public:
  struct Properties {
    std::string id;  // no other GPU of the host has it, and all processes see the same
    std::string name;
    int major = 0;
    int minor = 0;
    std::size_t total_bytes = 0;
  };
  enum class Direction { in, out, within };

  virtual ~CudaApi() = default;
  /// `count` stays untouched where there is no driver.
  virtual int device_count(int* count) const = 0;
  virtual int properties(int device, Properties* out) const = 0;
  virtual int set_device(int device) const = 0;
  virtual int stream_create(void** stream) const = 0;
  virtual int stream_destroy(void* stream) const = 0;
  virtual int stream_synchronize(void* stream) const = 0;
  virtual int event_create(void** event, bool timed) const = 0;
  virtual int event_destroy(void* event) const = 0;
  virtual int event_record(void* event, void* stream) const = 0;
  virtual int event_synchronize(void* event) const = 0;
  virtual int event_elapsed(float* milliseconds, void* earlier, void* later) const = 0;
  virtual int stream_wait(void* stream, void* event) const = 0;
  virtual int allocate(void** pointer, std::size_t bytes) const = 0;
  virtual int release(void* pointer) const = 0;
  virtual int allocate_host(void** pointer, std::size_t bytes) const = 0;
  virtual int release_host(void* pointer) const = 0;
  virtual int copy(void* to, const void* from, std::size_t bytes, Direction direction,
                   void* stream) const = 0;
  virtual int fill_zero(void* pointer, std::size_t bytes, void* stream) const = 0;
  /// What the stream is given between both, and streams that follow it, becomes a graph and does not run.
  virtual int capture_begin(void* stream) const = 0;
  virtual int capture_end(void* stream, void** graph) const = 0;
  virtual int graph_size(void* graph, std::size_t* nodes) const = 0;
  virtual int graph_destroy(void* graph) const = 0;
  virtual int graph_make(void** executable, void* graph) const = 0;
  /// Gives an executable graph the arguments of another graph; `same`: whether it has the shape for that.
  virtual int graph_update(void* executable, void* graph, bool* same) const = 0;
  virtual int graph_drop(void* executable) const = 0;
  virtual int graph_launch(void* executable, void* stream) const = 0;
  /// The last error of a kernel's launch, which is forgotten.
  virtual int last_error() const = 0;
  [[nodiscard]] virtual std::string error_text(int error) const = 0;
};

/// The CUDA runtime; null in a build without it.
[[nodiscard]] const CudaApi* cuda_runtime();

/// Devices that can be used, or why there are none ("no driver", "a build without CUDA").
struct CudaDevices {
  int count = 0;
  std::string reason;  // where count is 0
};
[[nodiscard]] CudaDevices cuda_devices(const CudaApi* api = cuda_runtime());

/// Of one of them. Throws UserError.
[[nodiscard]] CudaApi::Properties properties_of(int device, const CudaApi* api = cuda_runtime());

/// Has the driver load all kernels when it starts, unless CUDA_MODULE_LOADING says otherwise: the first
/// launch of one is no work for a capture. To be called before any of the others.
void load_kernels_at_once();

/// One GPU and four streams: for kernels, for libraries that exchange, and for copies in and out.
///
/// With `graphs`, what comes between `begin_graph` and `end_graph` is captured as a CUDA graph. Executable
/// graphs are kept by the number of their nodes and given each step's arguments (cudaGraphExecUpdate), so
/// that steps may differ in addresses, indices and constants; one of a new shape is made where none fits.
/// What a capture cannot hold (waits, events that others follow, memory) ends the piece captured so far,
/// which is launched, and begins another.
class CudaDriver final : public DeviceDriver {
 public:
  /// Throws UserError where the device cannot be used.
  explicit CudaDriver(int device, const CudaApi* api = cuda_runtime(), bool graphs = false);
  ~CudaDriver() override;
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  /// The cudaStream_t that all work goes to.
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] bool graphs() const { return graphs_; }
  /// Graphs launched so far, and those that had to be made for it.
  [[nodiscard]] std::size_t graphs_launched() const { return launched_; }
  [[nodiscard]] std::size_t graphs_made() const { return made_; }
  /// Throws UserError where a kernel could not be launched.
  void check_launch(const char* kernel) const;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::size_t total_bytes() const override { return properties_.total_bytes; }
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void release(void* pointer) noexcept override;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* pointer) noexcept override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void zero(void* device, std::size_t bytes) override;
  void wait() override;
  void begin_graph() override;
  void end_graph() override;
  void apart(const std::function<void()>& work) override;
  [[nodiscard]] void* side_queue() override { return side_; }
  void fork() override;
  void join() override;
  void travel_in(void* device, const void* host, std::size_t bytes) override;
  void travel_out(void* host, const void* device, std::size_t bytes) override;
  [[nodiscard]] void* make_event() override { return make_event(false); }
  void drop_event(void* event) noexcept override { (void)api_->event_destroy(event); }
  [[nodiscard]] void* make_timer() override { return make_event(true); }
  [[nodiscard]] double seconds_between(void* earlier, void* later) override;
  void record(void* event, Queue queue) override;
  void follow(Queue queue, void* event) override;
  void wait(void* event) override;

 private:
  void check(int error, const char* what) const;
  void follow(void* behind, void* ahead);
  [[nodiscard]] void* make_event(bool timed);
  [[nodiscard]] void* stream_of(Queue queue) const;
  void launch_captured();
  [[nodiscard]] void* executable_of(void* graph);
  /// What a capture cannot hold: after what has been captured so far, which is launched.
  template <class Work>
  auto uncaptured(const Work& work);
  template <class Work>
  void give_back(const Work& work) noexcept;

  const CudaApi* api_;
  int device_;
  bool graphs_;
  CudaApi::Properties properties_;
  void* stream_ = nullptr;
  void* side_ = nullptr;
  void* in_ = nullptr;
  void* out_ = nullptr;
  void* event_ = nullptr;
  struct Executable {
    std::size_t nodes = 0;
    void* graph = nullptr;
  };
  static constexpr std::size_t most_executables =
      16;  // scheduled sampling has a graph for each number of truths that are fed
  std::vector<Executable> executables_;  // the one launched last comes last
  bool capturing_ = false;
  bool forked_ = false;  // and not joined
  std::size_t launched_ = 0;
  std::size_t made_ = 0;
};

}  // namespace rossby
