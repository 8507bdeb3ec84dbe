#include "rossby/tensor/cuda_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <type_traits>

#include "rossby/base/user_error.hpp"

namespace rossby {

namespace {
// cudaErrorInsufficientDriver: also returned if there is no driver.
constexpr int old_driver = 35;
constexpr int out_of_memory = 2;
constexpr int least_major = 8;  // kernels are built for this and later
}  // namespace

CudaDevices cuda_devices(const CudaApi* api) {
  if (!api) return {0, "this build has no CUDA"};
  int count = 0;
  if (const int error = api->device_count(&count); error != 0) {
    const char* why = error == old_driver ? "the GPU driver is missing or too old for this build: " : "";
    return {0, fmt::format("{}CUDA error {}: {}", why, error, api->error_text(error))};
  }
  if (count <= 0) return {0, "the driver sees no GPU"};
  for (int device = 0; device < count; ++device) {
    CudaApi::Properties is;
    if (const int error = api->properties(device, &is); error != 0)
      return {0, fmt::format("GPU {} cannot be identified: CUDA error {}: {}. Check the GPU with nvidia-smi",
                             device, error, api->error_text(error))};
    if (is.major < least_major)
      return {0, fmt::format("GPU {} is {} (sm_{}{}), but the kernels need sm_{}0 or newer. Choose other "
                             "GPUs with CUDA_VISIBLE_DEVICES",
                             device, is.name, is.major, is.minor, least_major)};
  }
  return {count, {}};
}

CudaApi::Properties properties_of(int device, const CudaApi* api) {
  CudaApi::Properties properties;
  if (const int error = api->properties(device, &properties); error != 0)
    user_error("GPU {} cannot be identified: CUDA error {}: {}. Check the GPU with nvidia-smi", device, error,
               api->error_text(error));
  return properties;
}

CudaDriver::CudaDriver(int device, const CudaApi* api, bool graphs)
    : api_(api), device_(device), graphs_(graphs) {
  const CudaDevices found = cuda_devices(api);
  if (found.count == 0)
    user_error("no GPU can be used: {}. Use a host with a GPU, or set parallel.device = \"cpu\"",
               found.reason);
  if (device < 0 || device >= found.count)
    user_error("GPU {} does not exist: this process sees {} GPUs. Check CUDA_VISIBLE_DEVICES", device,
               found.count);
  check(api_->set_device(device), "choosing it");
  properties_ = properties_of(device, api_);
  for (void** stream : {&stream_, &side_, &in_, &out_}) check(api_->stream_create(stream), "making a stream");
  event_ = make_event(false);
}

void CudaDriver::follow(void* behind, void* ahead) {
  // The event may be recorded again at once, because the waiting stream has noted this state.
  check(api_->event_record(event_, ahead), "recording an event");
  check(api_->stream_wait(behind, event_), "waiting for an event");
}

void CudaDriver::fork() {
  follow(side_, stream_);
  forked_ = true;
}
void CudaDriver::join() {
  if (capturing_ && !forked_) return;  // nothing to join, and the graph does not contain that queue
  follow(stream_, side_);
  forked_ = false;
}

CudaDriver::~CudaDriver() {
  if (void* graph = nullptr; capturing_ && api_->capture_end(stream_, &graph) == 0)
    (void)api_->graph_destroy(graph);
  for (const Executable& executable : executables_) (void)api_->graph_drop(executable.graph);
  if (event_) drop_event(event_);
  for (void* stream : {out_, in_, side_, stream_})
    if (stream) (void)api_->stream_destroy(stream);
}

void CudaDriver::check(int error, const char* what) const {
  if (error != 0)
    user_error("GPU {} failed while {}: CUDA error {}: {}. Check the GPU with nvidia-smi, then start again",
               device_, what, error, api_->error_text(error));
}

void CudaDriver::check_launch(const char* kernel) const {
  if (const int error = api_->last_error(); error != 0)
    user_error(
        "GPU {} failed to start {}: CUDA error {}: {}. Check the GPU with nvidia-smi, then start again",
        device_, kernel, error, api_->error_text(error));
}

std::string CudaDriver::name() const {
  return fmt::format("{} (sm_{}{})", properties_.name, properties_.major, properties_.minor);
}

void load_kernels_at_once() {
  (void)::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

template <class Work>
auto CudaDriver::uncaptured(const Work& work) {
  if (!capturing_) return work();
  launch_captured();
  if constexpr (std::is_void_v<decltype(work())>) {
    work();
    begin_graph();
  } else {
    auto result = work();
    begin_graph();
    return result;
  }
}

void CudaDriver::apart(const std::function<void()>& work) {
  uncaptured(work);
}

/// If the device fails, the next call reports it.
template <class Work>
void CudaDriver::give_back(const Work& work) noexcept {
  const bool again = capturing_;
  try {
    end_graph();  // launches work that uses the memory
  } catch (const UserError&) {
  }
  work();
  try {
    if (again) begin_graph();
  } catch (const UserError&) {
  }
}

void CudaDriver::begin_graph() {
  if (!graphs_ || capturing_) return;
  check(api_->capture_begin(stream_), "beginning a graph");
  capturing_ = true;
  if (forked_) follow(side_, stream_);  // fork again: a graph may not wait for work outside it
}

void CudaDriver::end_graph() {
  if (capturing_) launch_captured();
}

void CudaDriver::launch_captured() {
  // If something fails here, it is not tried again.
  capturing_ = false;
  if (forked_) follow(stream_, side_);  // a graph ends in the stream where it began
  void* graph = nullptr;
  check(api_->capture_end(stream_, &graph), "ending a graph");
  const auto drop = [this](void* captured) { (void)api_->graph_destroy(captured); };
  const std::unique_ptr<void, decltype(drop)> owner(graph, drop);
  if (void* executable = executable_of(graph)) {
    check(api_->graph_launch(executable, stream_), "starting a graph");
    ++launched_;
  }
}

/// Returns null for an empty graph.
void* CudaDriver::executable_of(void* graph) {
  std::size_t nodes = 0;
  check(api_->graph_size(graph, &nodes), "counting the nodes of a graph");
  if (nodes == 0) return nullptr;
  for (auto at = executables_.rbegin(); at != executables_.rend(); ++at) {
    if (at->nodes != nodes) continue;
    bool same = false;
    check(api_->graph_update(at->graph, graph, &same), "giving a graph its arguments");
    if (!same) continue;
    std::rotate(std::prev(at.base()), at.base(), executables_.end());
    return executables_.back().graph;
  }
  void* made = nullptr;
  check(api_->graph_make(&made, graph), "making a graph");
  ++made_;
  if (executables_.size() == most_executables) {
    (void)api_->graph_drop(executables_.front().graph);
    executables_.erase(executables_.begin());
  }
  executables_.push_back({nodes, made});
  return made;
}

void* CudaDriver::allocate(std::size_t bytes) {
  return uncaptured([&]() -> void* {
    void* pointer = nullptr;
    const int error = api_->allocate(&pointer, bytes);
    if (error == 0) return pointer;
    (void)api_->last_error();                                       // clear it, or the next launch reports it
    if (error != out_of_memory) check(error, "allocating memory");  // an error of earlier kernels
    return nullptr;
  });
}

void CudaDriver::release(void* pointer) noexcept {
  give_back([&] { (void)api_->release(pointer); });
}

void* CudaDriver::allocate_pinned(std::size_t bytes) {
  return uncaptured([&]() -> void* {
    void* pointer = nullptr;
    const int error = api_->allocate_host(&pointer, bytes);
    if (error == 0) return pointer;
    (void)api_->last_error();                                       // clear it, or the next launch reports it
    if (error != out_of_memory) check(error, "allocating memory");  // an error of earlier kernels
    return nullptr;
  });
}

void CudaDriver::release_pinned(void* pointer) noexcept {
  give_back([&] { (void)api_->release_host(pointer); });
}

void CudaDriver::copy_in(void* device, const void* host, std::size_t bytes) {
  check(api_->copy(device, host, bytes, CudaApi::Direction::in, stream_), "copying to it");
}
void CudaDriver::copy_out(void* host, const void* device, std::size_t bytes) {
  check(api_->copy(host, device, bytes, CudaApi::Direction::out, stream_), "copying from it");
}
void CudaDriver::copy_within(void* to, const void* from, std::size_t bytes) {
  check(api_->copy(to, from, bytes, CudaApi::Direction::within, stream_), "copying within it");
}
void CudaDriver::zero(void* device, std::size_t bytes) {
  check(api_->fill_zero(device, bytes, stream_), "clearing memory");
}

void CudaDriver::travel_in(void* device, const void* host, std::size_t bytes) {
  check(api_->copy(device, host, bytes, CudaApi::Direction::in, in_), "copying to it");
}
void CudaDriver::travel_out(void* host, const void* device, std::size_t bytes) {
  check(api_->copy(host, device, bytes, CudaApi::Direction::out, out_), "copying from it");
}

void* CudaDriver::stream_of(Queue queue) const {
  return queue == Queue::in ? in_ : queue == Queue::out ? out_ : stream_;
}

void* CudaDriver::make_event(bool timed) {
  void* event = nullptr;
  check(api_->event_create(&event, timed), "making an event");
  return event;
}
double CudaDriver::seconds_between(void* earlier, void* later) {
  float milliseconds = 0;
  check(api_->event_elapsed(&milliseconds, earlier, later), "measuring time");
  return 1e-3 * static_cast<double>(milliseconds);
}
void CudaDriver::record(void* event, Queue queue) {
  uncaptured([&] { check(api_->event_record(event, stream_of(queue)), "recording an event"); });
}
void CudaDriver::follow(Queue queue, void* event) {
  uncaptured([&] { check(api_->stream_wait(stream_of(queue), event), "waiting for an event"); });
}
void CudaDriver::wait(void* event) {
  uncaptured([&] { check(api_->event_synchronize(event), "it worked up to an event"); });
}

void CudaDriver::wait() {
  uncaptured([this] {
    check(api_->stream_synchronize(side_), "it exchanged");
    check(api_->stream_synchronize(stream_), "it computed");
    check(api_->stream_synchronize(in_), "copying to it");
    check(api_->stream_synchronize(out_), "copying from it");
  });
}

}  // namespace rossby
