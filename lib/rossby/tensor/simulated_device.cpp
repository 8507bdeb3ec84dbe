#include "rossby/tensor/simulated_device.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

constexpr auto untouched = std::byte{0xFF};  // NaN in float, double and bf16

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Returns a protection key, which opens and closes all its memory at once without a system call. −1 if the
/// processor or the system has none.
int make_key() {
#if defined(PKEY_DISABLE_ACCESS)
  return ::pkey_alloc(0, PKEY_DISABLE_ACCESS);
#else
  return -1;
#endif
}

void open_key([[maybe_unused]] int key, [[maybe_unused]] bool accessible) {
#if defined(PKEY_DISABLE_ACCESS)
  (void)::pkey_set(key, accessible ? 0 : PKEY_DISABLE_ACCESS);
#endif
}

bool give_key([[maybe_unused]] int key, [[maybe_unused]] std::byte* pages,
              [[maybe_unused]] std::size_t bytes) {
#if defined(PKEY_DISABLE_ACCESS)
  return ::pkey_mprotect(pages, bytes, PROT_READ | PROT_WRITE, key) == 0;
#else
  return false;
#endif
}

void free_key([[maybe_unused]] int key) {
#if defined(PKEY_DISABLE_ACCESS)
  (void)::pkey_free(key);
#endif
}

/// True if the process has memory mapped at this address.
bool is_mapped(std::uintptr_t address) {
  const std::uintptr_t page = address / page_bytes() * page_bytes();
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

}  // namespace

SimulatedDriver::~SimulatedDriver() {
  for (const auto& [pointer, mapped] : blocks_) (void)::munmap(mapped.pages, mapped.bytes + page_bytes());
  if (key_ >= 0) free_key(key_);
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
  const std::size_t page = page_bytes(), size = (bytes + page - 1) / page * page;
  const int access = idle_ ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* all = ::mmap(nullptr, size + page, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* pages = static_cast<std::byte*>(all);
  if (!idle_) {
    std::fill_n(pages, size, untouched);
    (void)::mprotect(pages, size + page, PROT_NONE);
    // All blocks have the key, or none.
    if (blocks_.empty() && key_ < 0) key_ = make_key();
    if (key_ >= 0 && !give_key(key_, pages, size)) {
      (void)::munmap(pages, size + page);
      return nullptr;
    }
  }
  std::byte* pointer = pages + (size - bytes) / aligned * aligned;
  blocks_[pointer] = {pages, size, bytes};
  return pointer;
}

void SimulatedDriver::release(void* pointer) noexcept {
  cut_graph();
  run();  // earlier work still reads it
  const auto it = blocks_.find(static_cast<std::byte*>(pointer));
  const auto& [pages, bytes, written, open] = it->second;
  if (!idle_) {
    if (key_ >= 0)
      open_key(key_, true);
    else
      (void)::mprotect(pages, bytes, PROT_READ);
    const auto as_it_was = [](const std::byte* from, const std::byte* to) {
      return std::all_of(from, to, [](std::byte value) { return value == untouched; });
    };
    if (!as_it_was(pages, it->first) || !as_it_was(it->first + written, pages + bytes)) {
      (void)std::fprintf(stderr, "a kernel wrote beside an array of %zu bytes\n", written);
      std::abort();
    }
    if (key_ >= 0) open_key(key_, false);
  }
  (void)::munmap(pages, bytes + page_bytes());
  blocks_.erase(it);
}

bool SimulatedDriver::tells_host_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
  return false;
#else
  return true;
#endif
#else
  return true;
#endif
}

SimulatedDriver::Threads SimulatedDriver::launch(const void* kernel, std::size_t bytes) {
  if (!idle_ && tells_host_memory()) refuse_host_memory(kernel, bytes);
  if (!idle_) next_touched_ = arrays_of(kernel, bytes);
  return std::exchange(next_, static_cast<Threads>((static_cast<int>(next_) + 1) % 3));
}

SimulatedDriver::Mapped* SimulatedDriver::find(std::uintptr_t address) {
  const auto behind = blocks_.upper_bound(reinterpret_cast<std::byte*>(address));
  if (behind == blocks_.begin()) return nullptr;
  Mapped& mapped = std::prev(behind)->second;
  return address <= reinterpret_cast<std::uintptr_t>(mapped.pages) + mapped.bytes ? &mapped : nullptr;
}

std::vector<SimulatedDriver::Mapped*> SimulatedDriver::arrays_of(const void* kernel, std::size_t bytes) {
  std::vector<Mapped*> found;
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(kernel) + at, sizeof word);
    if (Mapped* mapped = find(word)) found.push_back(mapped);
  }
  return found;
}

void SimulatedDriver::refuse_host_memory(const void* kernel, std::size_t bytes) const {
  constexpr std::uintptr_t lowest = std::uintptr_t{1} << 32, highest = std::uintptr_t{1} << 47;
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(kernel) + at, sizeof word);
    // Sizes are smaller, and fractional numbers are larger. Four-byte flags and small numbers have bytes of
    // the stack next to them.
    if (word < lowest || word >= highest || word % 2 != 0 || word % 256 == 0) continue;
    if (static_cast<std::uint32_t>(word) < (1U << 16)) continue;
    auto block = blocks_.upper_bound(reinterpret_cast<std::byte*>(word));
    if (block != blocks_.begin()) {
      const Mapped& mapped = std::prev(block)->second;
      if (word <= reinterpret_cast<std::uintptr_t>(mapped.pages) + mapped.bytes + page_bytes()) continue;
    }
    require(!is_mapped(word), "a kernel takes device memory alone, not an address of the host");
  }
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
  enqueue(
      Queue::compute, [=] { std::memcpy(device, host, bytes); }, device);
}
void SimulatedDriver::copy_out(void* host, const void* device, std::size_t bytes) {
  ++copied_out_;
  enqueue(
      Queue::compute, [=] { std::memcpy(host, device, bytes); }, device);
}
void SimulatedDriver::copy_within(void* to, const void* from, std::size_t bytes) {
  enqueue([=] { std::memmove(to, from, bytes); });
}
void SimulatedDriver::zero(void* device, std::size_t bytes) {
  enqueue(
      Queue::compute, [=] { std::memset(device, 0, bytes); }, device);
}

void SimulatedDriver::travel_in(void* device, const void* host, std::size_t bytes) {
  ++copied_in_;
  enqueue(
      Queue::in, [=] { std::memcpy(device, host, bytes); }, device);
}
void SimulatedDriver::travel_out(void* host, const void* device, std::size_t bytes) {
  ++copied_out_;
  enqueue(
      Queue::out, [=] { std::memcpy(host, device, bytes); }, device);
}

void* SimulatedDriver::make_event() {
  auto point = std::make_unique<Point>();
  void* event = point.get();
  events_.emplace(event, std::move(point));
  return event;
}
void SimulatedDriver::drop_event(void* event) noexcept {
  if (passed_.contains(event)) run();  // queued work still sets its time
  passed_.erase(event);
  events_.erase(event);
}
void* SimulatedDriver::make_timer() {
  void* event = make_event();
  passed_[event] = {};
  return event;
}
double SimulatedDriver::seconds_between(void* earlier, void* later) {
  return passed_.at(later).since(passed_.at(earlier));
}
void SimulatedDriver::record(void* event, Queue queue) {
  cut_graph();
  if (const auto timer = passed_.find(event); timer != passed_.end())
    enqueue(queue, [passed = &timer->second] { passed->restart(); });
  *events_.at(event) = {queue, line(queue).given};
}
void SimulatedDriver::follow(Queue queue, void* event) {
  cut_graph();
  follow(queue, *events_.at(event));
}
void SimulatedDriver::follow(Queue queue, const Point& point) {
  if (idle_) return;
  Line& behind = line(queue);
  behind.items.push_back({{}, point, {}});
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

void SimulatedDriver::enqueue(Queue queue, std::function<void()> work, const void* memory) {
  Mapped* mapped = find(reinterpret_cast<std::uintptr_t>(memory));
  enqueue(queue, std::move(work), mapped ? Touched({mapped}) : Touched());
}

void SimulatedDriver::enqueue(Queue queue, std::function<void()> work, Touched touched) {
  if (idle_) return;
  Line& at = line(queue);
  at.items.push_back({std::move(work), {}, std::move(touched)});
  ++at.given;
}

void SimulatedDriver::open_for(const Item& item) noexcept {
  if (all_open_) return;
  const auto open = [&](Mapped& mapped) {
    if (std::exchange(mapped.open, true)) return;
    (void)::mprotect(mapped.pages, mapped.bytes, PROT_READ | PROT_WRITE);
    open_.push_back(&mapped);
  };
  if (key_ < 0 && item.touched) {
    for (Mapped* mapped : *item.touched) open(*mapped);
    return;
  }
  all_open_ = true;
  if (key_ >= 0) return open_key(key_, true);
  for (auto& [pointer, mapped] : blocks_) open(mapped);
}

void SimulatedDriver::close() noexcept {
  if (all_open_ && key_ >= 0) open_key(key_, false);
  for (Mapped* mapped : open_) {
    (void)::mprotect(mapped->pages, mapped->bytes, PROT_NONE);
    mapped->open = false;
  }
  all_open_ = false;
  open_.clear();
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
    if (item.work) {
      open_for(item);
      item.work();
    }
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
  while (busy() && run_one()) {
  }
  close();
  require(!busy(), "a queue follows what is enqueued");
}

}  // namespace rossby
