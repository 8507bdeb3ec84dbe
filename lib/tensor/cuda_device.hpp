#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "rossby/tensor/device.hpp"

namespace rossby {

/// The calls of the CUDA runtime that Rossby makes, so that what happens when they fail can be tested without
/// a GPU. All return a cudaError_t, 0 where they did what they should.
class CudaApi {
 public:
  struct Properties {
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

/// One GPU and four streams: for kernels, for libraries that exchange, and for copies in and out.
class CudaDriver final : public DeviceDriver {
 public:
  /// Throws UserError where the device cannot be used.
  explicit CudaDriver(int device, const CudaApi* api = cuda_runtime());
  ~CudaDriver() override;
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  /// The cudaStream_t that all work goes to.
  [[nodiscard]] void* stream() const { return stream_; }
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
  [[nodiscard]] void* side_queue() override { return side_; }
  void fork() override { follow(side_, stream_); }
  void join() override { follow(stream_, side_); }
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

  const CudaApi* api_;
  int device_;
  CudaApi::Properties properties_;
  void* stream_ = nullptr;
  void* side_ = nullptr;
  void* in_ = nullptr;
  void* out_ = nullptr;
  void* event_ = nullptr;
};

}  // namespace rossby
