#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rossby/base/stopwatch.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Name of the simulated device.
inline constexpr const char* simulated_device = "simulated device";

/// A stand-in for a GPU that runs the same program flow on the host, for tests. It is stricter than a GPU:
/// - Only work in its queues may access device memory. Any other access ends the process with a segmentation
///   fault.
/// - Queues run only in `wait`, so results that nobody waited for are missing. Sources of copies are read
///   only then.
/// - One queue runs as far as it can before the next one, in the given order. A missing event thus shows as
///   work that runs too early or too late.
/// - Fresh device memory holds NaN. Writes beside an array end the process, at once or when the array is
///   released.
/// - Kernels with addresses of host memory are refused.
/// - Each launch runs its threads in another order, so a kernel that relies on an order reads missing values.
class SimulatedDriver final : public DeviceDriver {
 public:
  using Order = std::array<Queue, 3>;
  /// Returns a driver that runs nothing. Steps then take only the time of their host part, at any size. It
  /// counts the work of a device or of the host. Its memory is addresses only, values are meaningless, and
  /// sums are 0.
  enum class For { host, device };
  [[nodiscard]] static std::unique_ptr<SimulatedDriver> idle(For what = For::host);
  explicit SimulatedDriver(std::size_t total_bytes = std::size_t{4} << 30,
                           const Order& order = {Queue::in, Queue::out, Queue::compute})
      : total_(total_bytes), order_(order) {
    side_.driver_ = this;
  }
  ~SimulatedDriver() override;

  /// Enqueues a kernel.
  void enqueue(std::function<void()> work) {
    enqueue(Queue::compute, std::move(work), std::exchange(next_touched_, std::nullopt));
  }

  /// Order of a kernel's threads and blocks, because a GPU promises none.
  enum class Threads { up, down, scattered };
  /// Sets the order of the next launch.
  void begin_with(Threads order) { next_ = order; }
  /// Returns the order for a launch whose kernel object is copied from `kernel`. Throws BugError if the
  /// object contains a host address.
  [[nodiscard]] Threads launch(const void* kernel, std::size_t bytes);
  /// False under sanitizers: they map so much memory that many numbers look like addresses.
  [[nodiscard]] static bool tells_host_memory();

  [[nodiscard]] std::string name() const override { return simulated_device; }
  [[nodiscard]] std::size_t total_bytes() const override { return total_; }
  [[nodiscard]] bool only_addresses() const override { return idle_; }
  [[nodiscard]] bool stands_for_host() const override { return stands_for_host_; }
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void release(void* pointer) noexcept override;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* pointer) noexcept override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void zero(void* device, std::size_t bytes) override;
  void wait() override;
  /// Nothing is held back; the graphs that a GPU would start are counted.
  void begin_graph() override;
  void end_graph() override;
  void apart(const std::function<void()>& work) override;
  /// The queue of libraries. It runs only when kernels wait for it (join), so that without a join results are
  /// missing. It accepts work only directly after a fork.
  class SideQueue {
   public:
    void enqueue(std::function<void()> work);

   private:
    friend class SimulatedDriver;
    SimulatedDriver* driver_ = nullptr;
  };
  /// Returns a SideQueue.
  [[nodiscard]] void* side_queue() override { return &side_; }
  void fork() override;
  void join() override;
  void travel_in(void* device, const void* host, std::size_t bytes) override;
  void travel_out(void* host, const void* device, std::size_t bytes) override;
  [[nodiscard]] void* make_event() override;
  void drop_event(void* event) noexcept override;
  [[nodiscard]] void* make_timer() override;
  /// Always 0 on an idle driver.
  [[nodiscard]] double seconds_between(void* earlier, void* later) override;
  void record(void* event, Queue queue) override;
  void follow(Queue queue, void* event) override;
  /// Runs the queues no further than needed.
  void wait(void* event) override;

  /// Number of calls of `wait`, for tests of steps without waiting.
  [[nodiscard]] Index waits() const { return waits_; }
  /// Number of graphs for a GPU: one between `begin_graph` and `end_graph`, and one more for each wait,
  /// followed event, allocation or release in between.
  [[nodiscard]] Index graphs() const { return graphs_; }
  /// Items given to its queues so far: kernels, copies, points to wait for.
  [[nodiscard]] Index given() const {
    return lines_[0].given + lines_[1].given + lines_[2].given + lines_[3].given;
  }
  /// Number of copies into and out of device memory.
  [[nodiscard]] Index copied_in() const { return copied_in_; }
  [[nodiscard]] Index copied_out() const { return copied_out_; }
  /// Items not done yet.
  [[nodiscard]] Index left() const {
    return given() - lines_[0].done - lines_[1].done - lines_[2].done - lines_[3].done;
  }

 private:
  /// The first `count` items of a queue.
  struct Point {
    Queue queue = Queue::compute;
    Index count = 0;
  };
  /// Mapped memory. Its array ends less than `aligned` bytes before the guard page.
  struct Mapped {
    std::byte* pages = nullptr;
    std::size_t bytes = 0;    // of the pages, without the guard page
    std::size_t written = 0;  // bytes of the array
    bool open = false;        // accessible, without a key
  };
  /// The arrays that an item touches; none: any.
  using Touched = std::optional<std::vector<Mapped*>>;
  struct Item {
    std::function<void()> work;
    Point after;
    Touched touched;
  };
  struct Line {
    std::deque<Item> items;
    Index given = 0;
    Index done = 0;
  };

  static constexpr Queue side = static_cast<Queue>(3);

  void enqueue(Queue queue, std::function<void()> work, const void* memory);
  void enqueue(Queue queue, std::function<void()> work, Touched touched = {});
  /// The array with this address, or whose end it is; null: none.
  [[nodiscard]] Mapped* find(std::uintptr_t address);
  /// The arrays with addresses in a kernel's object.
  [[nodiscard]] std::vector<Mapped*> arrays_of(const void* kernel, std::size_t bytes);
  void follow(Queue queue, const Point& point);
  [[nodiscard]] Line& line(Queue queue) { return lines_[static_cast<std::size_t>(queue)]; }
  /// Runs the first item of the first queue whose item may run. Returns false if there is none.
  bool run_one();
  void cut_graph();
  /// Makes the item's memory accessible, until `close`.
  void open_for(const Item& item) noexcept;
  void close() noexcept;
  void refuse_host_memory(const void* kernel, std::size_t bytes) const;
  /// Runs until all is done, or the first `until.count` items of its queue are.
  void run(const Point* until = nullptr);

  std::size_t total_;
  Order order_;
  bool idle_ = false, stands_for_host_ = false;
  static constexpr std::size_t aligned = 256;
  std::map<std::byte*, Mapped> blocks_;  // by the array's address
  int key_ = -1;                         // protection key of all blocks; −1: none
  // Without a key, opening an array needs a system call, so that copies and kernels open only their own.
  bool all_open_ = false;
  std::vector<Mapped*> open_;  // open arrays, unless all are open
  Touched next_touched_;       // by the kernel that is launched
  Threads next_ = Threads::up;
  std::array<Line, 4> lines_;  // by Queue, then the side queue
  SideQueue side_;
  Index forked_ = 0;  // items given to the compute queue at the last fork
  std::map<void*, std::unique_ptr<Point>> events_;
  std::map<void*, Stopwatch> passed_;  // times of timer events
  Index waits_ = 0;
  Index copied_in_ = 0, copied_out_ = 0;
  bool in_graph_ = false;
  Index graphs_ = 0;
  Index graph_from_ = 0;  // items given to the queues when the graph began
};

}  // namespace rossby
