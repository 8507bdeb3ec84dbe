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

/// Port: a processor with its own memory and one queue, in which it does what it is given in order. Nothing
/// waits but `wait`. Errors of the queue come out there, as UserError.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  /// Maker, name, architecture.
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::size_t total_bytes() const = 0;

  /// Whether its memory is addresses alone, of which those that nothing touches cost nothing.
  [[nodiscard]] virtual bool only_addresses() const { return false; }
  /// Whether it is there for the host: a trace of what that would do.
  [[nodiscard]] virtual bool stands_for_host() const { return false; }

  /// Device memory, aligned to 256 bytes; null where there is not enough.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  /// Host memory that copies to and from without a detour; null where there is not enough.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* pointer) noexcept = 0;

  /// Enqueue. Host memory must stay as it is, or is not filled yet, until `wait`.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* device, std::size_t bytes) = 0;
  virtual void wait() = 0;

  /// What the first queue is given from `begin_graph` on, and the second one between `fork` and `join`, may
  /// be kept back and started at once by `end_graph`, as a driver can: it need not, and what has to be
  /// started sooner, as somebody waits, is. Calls of `begin_graph` do not nest.
  virtual void begin_graph() {}
  virtual void end_graph() {}
  /// work(), to which nothing that is kept back may happen: what starts libraries, or prepares something
  /// once.
  virtual void apart(const std::function<void()>& work) { work(); }

  /// A second queue, for what travels while the first one computes; libraries enqueue there. `fork`: what is
  /// enqueued there from now on comes after what the first queue has; `join`: the other way round.
  [[nodiscard]] virtual void* side_queue() = 0;
  virtual void fork() = 0;
  virtual void join() = 0;

  /// Queues of copies alone, one a direction: both travel while the others compute. The host waits for copies
  /// whose host memory is not pinned.
  virtual void travel_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void travel_out(void* host, const void* device, std::size_t bytes) = 0;
  enum class Queue { compute, in, out };
  /// An event: the point that a queue had come to when it was last recorded. Who follows an event that was
  /// never recorded waits for nothing.
  [[nodiscard]] virtual void* make_event() = 0;
  virtual void drop_event(void* event) noexcept = 0;
  /// An event that remembers when its queue came to it.
  [[nodiscard]] virtual void* make_timer() = 0;
  /// Seconds that a queue took from one such event to a later one; the host has waited for both.
  [[nodiscard]] virtual double seconds_between(void* earlier, void* later) = 0;
  /// The event is all that the queue has been given by now.
  virtual void record(void* event, Queue queue) = 0;
  /// What the queue is given from now on comes after what the event is now.
  virtual void follow(Queue queue, void* event) = 0;
  /// The host waits for what the event is now.
  virtual void wait(void* event) = 0;
};

struct DeviceOptions {
  std::size_t limit = 0;                             // bytes that may be allocated; 0: all there are
  std::size_t staging_bytes = std::size_t{4} << 20;  // of trays for a step's lists
  std::size_t scratch_bytes = std::size_t{8} << 20;  // of partial sums
  Products products = Products::model;
};

/// One device as kernels and tensors see it: memory within a budget, trays that carry a step's small host
/// arrays over, copies of host arrays that do not change. Not for several threads at once.
class Device {
 public:
  explicit Device(std::unique_ptr<DeviceDriver> driver, const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] DeviceDriver& driver() const { return *driver_; }

  /// What memory is asked for while this lives, for the message of what does not fit: "the gradient of W",
  /// and what would make it fit ("fewer windows a batch"; empty: more ranks). The innermost counts.
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

  /// Uninitialised. Throws UserError naming what was asked for, what is in use, and what would make it fit.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* pointer) noexcept;
  [[nodiscard]] std::size_t used_bytes() const { return used_; }
  /// What is left of the budget.
  [[nodiscard]] std::size_t free_bytes() const { return limit() > used_ ? limit() - used_ : 0; }
  /// Whether an address lies in its memory.
  [[nodiscard]] bool owns(const void* pointer) const;
  [[nodiscard]] std::size_t peak_bytes() const { return peak_; }
  /// What of it is the device's own: room for lists that travel and for partial sums.
  [[nodiscard]] std::size_t own_bytes() const;

  /// What all its arrays but its own would take of the host's resident memory, were they there.
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

  /// A double of the device, 0 at first, that the next `settle` adds to *host, which stays where it is until
  /// then; the same one for the same host's. To be added to.
  [[nodiscard]] double* later(double* host);
  /// At the next `settle`, after all that: *to += *from, both of the host.
  void then_add(double* to, const double* from) { adds_.emplace_back(to, from); }
  /// Whether a `settle` has to come before anybody sets such a `from` anew.
  [[nodiscard]] bool adds_later() const { return !adds_.empty(); }
  /// Waits, and brings all sums home. Copies to the host that were enqueued have arrived then, too.
  void settle();

  /// Device memory for partial sums, good for one kernel's two halves: `count` values. Throws BugError beyond
  /// DeviceOptions::scratch_bytes.
  template <class T>
  [[nodiscard]] T* scratch(Index count) {
    return static_cast<T*>(scratch_of(static_cast<std::size_t>(count) * sizeof(T)));
  }
  [[nodiscard]] std::size_t scratch_bytes() const { return options_.scratch_bytes; }
  [[nodiscard]] Products products() const { return options_.products; }
  /// What kernels keep with a device: the handle of a library.
  [[nodiscard]] std::shared_ptr<void>& library() { return library_; }

  /// What a host array holds, on the device: its copy where one is kept, otherwise one that travels now and
  /// is good until a kernel has been launched and lists_of_a_launch more have travelled. The host array may
  /// change at once.
  static constexpr std::size_t lists_of_a_launch = 16;
  template <class T>
  [[nodiscard]] const T* on_device(std::span<const T> host) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(on_device_bytes(host.data(), host.size_bytes()));
  }

  /// Told by all who launch kernels: those that were given lists by now have been enqueued.
  void launched() { ++launches_; }

  /// Keeps a copy of a host array that does not change for as long as the handle lives.
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
  /// Room for lists that travel, filled from its begin.
  struct Tray {
    std::byte* host = nullptr;  // pinned
    std::byte* device = nullptr;
    std::size_t bytes = 0;
    std::size_t filled = 0;
    std::size_t last = 0;      // number of the last list in it
    std::size_t launches = 0;  // before that
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
  std::vector<Tray> trays_;  // the last one is being filled
  std::size_t lists_ = 0;    // that have travelled
  std::size_t launches_ = 0;
  std::shared_ptr<void> library_;
  double* sums_ = nullptr;       // on the device
  double* sums_host_ = nullptr;  // pinned
  std::vector<double*> owed_;    // where each of them goes
  std::vector<std::pair<double*, const double*>> adds_;
};

}  // namespace rossby
