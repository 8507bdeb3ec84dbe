#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/products.hpp"

namespace rossby {

/// Port: a processor with its own memory and a queue that runs work in order. Only `wait` waits. It throws
/// errors of the queue as UserError.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  /// Vendor, name, architecture.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::size_t total_bytes() const = 0;

  /// True if its memory is addresses only; untouched addresses cost nothing.
  [[nodiscard]] virtual bool only_addresses() const { return false; }
  /// True if it represents the host, in a trace of the host's work.
  [[nodiscard]] virtual bool stands_for_host() const { return false; }

  /// Device memory, aligned to 256 bytes; null if there is not enough.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  /// Host memory for direct copies; null if there is not enough.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* pointer) noexcept = 0;

  /// Enqueue work. Until `wait`, source memory on the host must not change, and target memory on the host is
  /// not filled.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* device, std::size_t bytes) = 0;
  virtual void wait() = 0;

  /// A driver may hold back the work of the first queue after `begin_graph`, and of the second queue between
  /// `fork` and `join`, and start it at once in `end_graph`. Holding back is optional, and work that somebody
  /// waits for starts sooner. `begin_graph` does not nest.
  virtual void begin_graph() {}
  virtual void end_graph() {}
  /// Calls work() outside any work held back: for starting libraries and one-time preparation.
  virtual void apart(const std::function<void()>& work) { work(); }

  /// A second queue, for communication while the first one computes; libraries enqueue there. `fork`: its
  /// next work waits for the first queue. `join`: the first queue's next work waits for it.
  [[nodiscard]] virtual void* side_queue() = 0;
  virtual void fork() = 0;
  virtual void join() = 0;

  /// Queues for copies only, one per direction. They run while the others compute. If the host memory is not
  /// pinned, the host waits.
  virtual void travel_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void travel_out(void* host, const void* device, std::size_t bytes) = 0;
  enum class Queue { compute, in, out };
  /// An event: the point that a queue had reached when the event was last recorded. Following an event that
  /// was never recorded waits for nothing.
  [[nodiscard]] virtual void* make_event() = 0;
  virtual void drop_event(void* event) noexcept = 0;
  /// An event that stores the time when its queue reached it.
  [[nodiscard]] virtual void* make_timer() = 0;
  /// Seconds of a queue between two such events. The host must have waited for both.
  [[nodiscard]] virtual double seconds_between(void* earlier, void* later) = 0;
  /// Sets the event to the queue's last item so far.
  virtual void record(void* event, Queue queue) = 0;
  /// The queue's next work waits for the event's current point.
  virtual void follow(Queue queue, void* event) = 0;
  /// The host waits for the event's current point.
  virtual void wait(void* event) = 0;
};

struct DeviceOptions {
  std::size_t limit = 0;                             // bytes that may be allocated; 0: all
  std::size_t staging_bytes = std::size_t{4} << 20;  // for trays of a step's lists
  std::size_t scratch_bytes = std::size_t{8} << 20;  // for partial sums
  Products products = Products::model;
};

/// A device as kernels and tensors see it: memory within a budget, trays for a step's small host arrays, and
/// copies of constant host arrays. Not thread-safe.
class Device {
 public:
  explicit Device(std::unique_ptr<DeviceDriver> driver, const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] DeviceDriver& driver() const { return *driver_; }

  /// Purpose of the allocations during its lifetime, for out-of-memory messages: "the gradient of W", and a
  /// remedy ("fewer windows a batch"; empty: more ranks). The innermost one counts.
  class For {
   public:
    For(Device* device, std::string what, std::string_view remedy = {});
    ~For();
    For(const For&) = delete;
    For& operator=(const For&) = delete;

   private:
    friend class Device;
    Device* device_;
    std::string what_;
    std::string_view remedy_;
    const For* outer_ = nullptr;
  };

  /// Returns uninitialised memory. Throws UserError with the purpose, the memory in use, and a remedy.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* pointer) noexcept;
  [[nodiscard]] std::size_t used_bytes() const { return used_; }
  /// Rest of the budget.
  [[nodiscard]] std::size_t free_bytes() const { return limit() > used_ ? limit() - used_ : 0; }
  /// True if the address lies in its memory.
  [[nodiscard]] bool owns(const void* pointer) const;
  [[nodiscard]] std::size_t peak_bytes() const { return peak_; }
  /// Memory for its own use: trays and partial sums.
  [[nodiscard]] std::size_t own_bytes() const;

  /// Resident memory that all other arrays would need on the host.
  [[nodiscard]] std::size_t resident_on_host() const;

  template <class T>
  void upload(T* device, std::span<const T> host) {
    if (!host.empty()) driver_->copy_in(device, host.data(), host.size_bytes());
  }
  template <class T>
  void download(std::span<T> host, const T* device) {
    if (!host.empty()) driver_->copy_out(host.data(), device, host.size_bytes());
  }
  void wait();

  /// Returns a device double, initially 0. The next `settle` adds it to *host, which must stay in place until
  /// then. The same `host` returns the same double. Kernels add to it.
  [[nodiscard]] double* later(double* host);
  /// At the next `settle`, after those sums: *to += *from, both on the host.
  void then_add(double* to, const double* from) { adds_.emplace_back(to, from); }
  /// True if a `settle` must come before such a `from` is set again.
  [[nodiscard]] bool adds_later() const { return !adds_.empty(); }
  /// Waits and adds all sums on the host. Copies to the host that were enqueued have then arrived, too.
  void settle();

  /// Device memory for `count` partial sums, valid for the two halves of one kernel. Throws BugError beyond
  /// DeviceOptions::scratch_bytes.
  template <class T>
  [[nodiscard]] T* scratch(Index count) {
    return static_cast<T*>(scratch_of(static_cast<std::size_t>(count) * sizeof(T)));
  }
  [[nodiscard]] std::size_t scratch_bytes() const { return options_.scratch_bytes; }
  [[nodiscard]] Products products() const { return options_.products; }
  /// State of kernels, kept with the device: the handle of a library.
  [[nodiscard]] std::shared_ptr<void>& library() { return library_; }

  /// Returns a host array's content on the device: its kept copy, or a new copy. A new copy is valid until a
  /// kernel has been launched and lists_of_a_launch more lists have been copied. The host array may change at
  /// once.
  static constexpr std::size_t lists_of_a_launch = 16;
  template <class T>
  [[nodiscard]] const T* on_device(std::span<const T> host) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(on_device_bytes(host.data(), host.size_bytes()));
  }

  /// Call after every kernel launch: kernels with earlier lists are enqueued.
  void launched() { ++launches_; }

  /// Keeps a copy of a host array, which must not change during the lifetime of the handle.
  class Copy {
   public:
    Copy() = default;
    Copy(Device& device, const void* host, std::size_t bytes);
    Copy(Copy&& other) noexcept;
    Copy& operator=(Copy&& other) noexcept;
    ~Copy();

   private:
    Device* device_ = nullptr;
    const void* host_ = nullptr;
  };
  template <class Range>
  [[nodiscard]] Copy keep(const Range& host) {
    return Copy(*this, std::data(host), std::size(host) * sizeof(*std::data(host)));
  }

 private:
  struct Kept {
    std::size_t bytes = 0;
    void* device = nullptr;
    int holders = 0;
  };

  [[nodiscard]] std::size_t limit() const {
    return options_.limit > 0 ? options_.limit : driver_->total_bytes();
  }
  [[nodiscard]] void* scratch_of(std::size_t bytes);
  [[nodiscard]] const void* on_device_bytes(const void* host, std::size_t bytes);
  [[nodiscard]] const void* stage(const void* host, std::size_t bytes);
  /// Room for copied lists, filled from its beginning.
  struct Tray {
    std::byte* host = nullptr;  // pinned
    std::byte* device = nullptr;
    std::size_t bytes = 0;
    std::size_t filled = 0;
    std::size_t last = 0;      // number of its last list
    std::size_t launches = 0;  // launches before that list
  };
  void add_tray(std::size_t bytes);
  void drop_trays() noexcept;
  void drop(const void* host) noexcept;

  std::unique_ptr<DeviceDriver> driver_;
  DeviceOptions options_;
  const For* purpose_ = nullptr;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::map<void*, std::size_t> sizes_;
  std::map<const void*, Kept> kept_;  // by host address
  void* scratch_ = nullptr;
  std::vector<Tray> trays_;  // the last one is in use
  std::size_t lists_ = 0;    // lists copied so far
  std::size_t launches_ = 0;
  std::shared_ptr<void> library_;
  double* sums_ = nullptr;       // on the device
  double* sums_host_ = nullptr;  // pinned
  std::vector<double*> owed_;    // the host target of each sum
  std::vector<std::pair<double*, const double*>> adds_;
};

}  // namespace rossby
