#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// The CUDA runtime calls that Rossby uses. Tests replace them to check failures without a GPU. All return a
/// cudaError_t; 0 means success.
class CudaApi {
 public:
  struct Properties {
    std::string id;  // unique among the host's GPUs, the same in all processes
    std::string name;
    int major = 0;
    int minor = 0;
    std::size_t total_bytes = 0;
  };
  enum class Direction { in, out, within };

  virtual ~CudaApi() = default;
  /// Leaves `count` unchanged if there is no driver.
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
  /// Work given to the stream between begin and end, and to streams that follow it, becomes a graph and does
  /// not run.
  virtual int capture_begin(void* stream) const = 0;
  virtual int capture_end(void* stream, void** graph) const = 0;
  virtual int graph_size(void* graph, std::size_t* nodes) const = 0;
  virtual int graph_destroy(void* graph) const = 0;
  virtual int graph_make(void** executable, void* graph) const = 0;
  /// Gives an executable graph the arguments of another graph. `same`: true if the shapes match.
  virtual int graph_update(void* executable, void* graph, bool* same) const = 0;
  virtual int graph_drop(void* executable) const = 0;
  virtual int graph_launch(void* executable, void* stream) const = 0;
  /// Returns the last error of a kernel launch, and clears it.
  virtual int last_error() const = 0;
  [[nodiscard]] virtual std::string error_text(int error) const = 0;
};

/// The CUDA runtime; null in a build without it.
[[nodiscard]] const CudaApi* cuda_runtime();

/// Usable devices, or why there are none ("no driver", "a build without CUDA").
struct CudaDevices {
  int count = 0;
  std::string reason;  // if count is 0
};
[[nodiscard]] CudaDevices cuda_devices(const CudaApi* api = cuda_runtime());

/// Properties of one device. Throws UserError.
[[nodiscard]] CudaApi::Properties properties_of(int device, const CudaApi* api = cuda_runtime());

/// Makes the driver load all kernels at its start, unless CUDA_MODULE_LOADING is set. The first launch of a
/// kernel cannot be captured otherwise. Call before all other functions.
void load_kernels_at_once();

/// One GPU with four streams: for kernels, for communication libraries, and for copies in and out.
///
/// With `graphs`, work between `begin_graph` and `end_graph` is captured as a CUDA graph. Executable graphs
/// are kept by their number of nodes and updated with each step's arguments (cudaGraphExecUpdate). Steps may
/// thus differ in addresses, indices and constants; a new shape gets a new graph. Work that cannot be
/// captured (waits, events that others follow, allocation) launches the piece captured so far, then begins
/// another.
class CudaDriver final : public DeviceDriver {
 public:
  /// Throws UserError if the device cannot be used.
  explicit CudaDriver(int device, const CudaApi* api = cuda_runtime(), bool graphs = false);
  ~CudaDriver() override;
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  /// The cudaStream_t that receives all work.
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] bool graphs() const { return graphs_; }
  /// Graphs launched so far, and graphs that had to be created.
  [[nodiscard]] std::size_t graphs_launched() const { return launched_; }
  [[nodiscard]] std::size_t graphs_made() const { return made_; }
  /// Throws UserError if a kernel could not be launched.
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
  /// Runs work that cannot be captured, after launching what has been captured so far.
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
      16;                                // scheduled sampling has one graph per number of fed true values
  std::vector<Executable> executables_;  // the last launched is last
  bool capturing_ = false;
  bool forked_ = false;  // forked, and not joined
  std::size_t launched_ = 0;
  std::size_t made_ = 0;
};

}  // namespace rossby
