#include "rossby/tensor/simulated_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "rossby/base/error.hpp"

namespace rossby {

SimulatedDriver::~SimulatedDriver() {
  for (const auto& [pointer, bytes] : blocks_) (void)::munmap(pointer, bytes);
}

std::unique_ptr<SimulatedDriver> SimulatedDriver::idle(For what) {
  auto driver = std::make_unique<SimulatedDriver>(std::size_t{1} << 50);
  driver->idle_ = true;
  driver->stands_for_host_ = what == For::host;
  return driver;
}

void SimulatedDriver::begin_graph() {
  in_graph_ = true;
  graph_from_ = given();
}
void SimulatedDriver::end_graph() {
  cut_graph();
  in_graph_ = false;
}
void SimulatedDriver::apart(const std::function<void()>& work) {
  cut_graph();
  const bool within = std::exchange(in_graph_, false);
  work();
  in_graph_ = within;
  graph_from_ = given();
}
void SimulatedDriver::cut_graph() {
  if (in_graph_ && given() > graph_from_) ++graphs_;
  graph_from_ = given();
}

void* SimulatedDriver::allocate(std::size_t bytes) {
  cut_graph();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = (bytes + page - 1) / page * page;
  const int access = idle_ ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* pointer = ::mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) return nullptr;
  if (!idle_) std::memset(pointer, 0xFF, size);  // NaN in float, double and bf16
  if (!idle_) (void)::mprotect(pointer, size, PROT_NONE);
  blocks_[pointer] = size;
  return pointer;
}

void SimulatedDriver::release(void* pointer) noexcept {
  cut_graph();
  run();  // what was enqueued before still reads it
  const auto it = blocks_.find(pointer);
  (void)::munmap(pointer, it->second);
  blocks_.erase(it);
}

void* SimulatedDriver::allocate_pinned(std::size_t bytes) {
  cut_graph();
  return std::calloc(bytes, 1);
}

void SimulatedDriver::release_pinned(void* pointer) noexcept {
  cut_graph();
  run();
  std::free(pointer);
}

void SimulatedDriver::copy_in(void* device, const void* host, std::size_t bytes) {
  ++copied_in_;
  enqueue([=] { std::memcpy(device, host, bytes); });
}
void SimulatedDriver::copy_out(void* host, const void* device, std::size_t bytes) {
  ++copied_out_;
  enqueue([=] { std::memcpy(host, device, bytes); });
}
void SimulatedDriver::copy_within(void* to, const void* from, std::size_t bytes) {
  enqueue([=] { std::memmove(to, from, bytes); });
}
void SimulatedDriver::zero(void* device, std::size_t bytes) {
  enqueue([=] { std::memset(device, 0, bytes); });
}

void SimulatedDriver::travel_in(void* device, const void* host, std::size_t bytes) {
  ++copied_in_;
  enqueue(Queue::in, [=] { std::memcpy(device, host, bytes); });
}
void SimulatedDriver::travel_out(void* host, const void* device, std::size_t bytes) {
  ++copied_out_;
  enqueue(Queue::out, [=] { std::memcpy(host, device, bytes); });
}

void* SimulatedDriver::make_event() {
  auto point = std::make_unique<Point>();
  void* event = point.get();
  events_.emplace(event, std::move(point));
  return event;
}
void SimulatedDriver::drop_event(void* event) noexcept {
  if (passed_.contains(event)) run();  // which still tells it the time
  passed_.erase(event);
  events_.erase(event);
}
void* SimulatedDriver::make_timer() {
  void* event = make_event();
  passed_[event] = {};
  return event;
}
double SimulatedDriver::seconds_between(void* earlier, void* later) {
  return std::chrono::duration<double>(passed_.at(later) - passed_.at(earlier)).count();
}
void SimulatedDriver::record(void* event, Queue queue) {
  cut_graph();
  if (const auto timer = passed_.find(event); timer != passed_.end())
    enqueue(queue, [passed = &timer->second] { *passed = std::chrono::steady_clock::now(); });
  *events_.at(event) = {queue, line(queue).given};
}
void SimulatedDriver::follow(Queue queue, void* event) {
  cut_graph();
  follow(queue, *events_.at(event));
}
void SimulatedDriver::follow(Queue queue, const Point& point) {
  if (idle_) return;
  Line& behind = line(queue);
  behind.items.push_back({[] {}, point});
  ++behind.given;
}

void SimulatedDriver::fork() {
  forked_ = line(Queue::compute).given;
  follow(side, Point{Queue::compute, forked_});
}
void SimulatedDriver::join() {
  follow(Queue::compute, Point{side, line(side).given});
}
void SimulatedDriver::SideQueue::enqueue(std::function<void()> work) {
  require(driver_->forked_ == driver_->line(Queue::compute).given,
          "the second queue follows what the first has been given");
  driver_->enqueue(side, std::move(work));
}

void SimulatedDriver::enqueue(Queue queue, std::function<void()> work) {
  if (idle_) return;
  Line& at = line(queue);
  at.items.push_back({std::move(work), {}});
  ++at.given;
}

void SimulatedDriver::open(bool accessible) noexcept {
  for (const auto& [pointer, bytes] : blocks_)
    (void)::mprotect(pointer, bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void SimulatedDriver::wait() {
  cut_graph();
  ++waits_;
  run();
}

bool SimulatedDriver::run_one() {
  for (const Queue queue : {order_[0], order_[1], order_[2], side}) {
    Line& at = line(queue);
    if (at.items.empty()) continue;
    const Point after = at.items.front().after;
    if (line(after.queue).done < after.count) continue;
    const Item item = std::move(at.items.front());
    at.items.pop_front();
    item.work();
    ++at.done;
    return true;
  }
  return false;
}

void SimulatedDriver::wait(void* event) {
  if (idle_) return;
  cut_graph();
  const Point until = *events_.at(event);
  run(&until);
}

void SimulatedDriver::run(const Point* until) {
  const auto busy = [&] {
    if (until) return line(until->queue).done < until->count;
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& at) { return !at.items.empty(); });
  };
  if (!busy()) return;
  open(true);
  while (busy() && run_one()) {
  }
  open(false);
  require(!busy(), "a queue follows what is enqueued");
}

}  // namespace rossby
