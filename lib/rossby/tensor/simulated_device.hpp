#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "rossby/base/stopwatch.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// What the simulated device calls itself.
inline constexpr const char* simulated_device = "simulated device";

/// A device that is none: the same program flow where there is no GPU, for tests. It is stricter than one.
/// Device memory can be touched by what runs in its queues alone (anything else ends the process with a
/// segmentation fault), the queues run at `wait` and not before, so that what was not waited for is not
/// there, and what is copied in is read then. One queue runs as far as it can before the next one may, in the
/// order that was given: what no event holds back comes too early or too late. Fresh device memory holds NaN,
/// and behind each array lies memory that nobody may touch (what writes between both ends the process when
/// the array is given back). A kernel that was handed memory of the host is refused, and each launch runs its
/// threads in another order than the one before: who relies on one reads what is not there yet.
class SimulatedDriver final : public DeviceDriver {
 public:
  using Order = std::array<Queue, 3>;
  /// One that does nothing that it is given: steps run over it as fast as their host part, at any size, to
  /// count what they would do, there or on the host. Its memory is addresses alone; values are meaningless,
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
  void enqueue(std::function<void()> work) { enqueue(Queue::compute, std::move(work)); }

  /// In which order the threads of a kernel run, and its blocks: those of a GPU promise none.
  enum class Threads { up, down, scattered };
  /// What the next launch takes.
  void begin_with(Threads order) { next_ = order; }
  /// Of a launch whose kernel is a copy of what lies at `kernel`. Throws BugError where an address of the
  /// host is in there.
  [[nodiscard]] Threads launch(const void* kernel, std::size_t bytes);
  /// Whether it can tell: sanitizers map so much that many a number looks like an address.
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
  /// Nothing is kept back; what a GPU would start at once is counted.
  void begin_graph() override;
  void end_graph() override;
  void apart(const std::function<void()>& work) override;
  /// Where libraries enqueue. It runs when the kernels wait for it (join) and no sooner, so that who forgets
  /// to have them wait reads what is not there yet; and it takes nothing but right after a fork.
  class SideQueue {
   public:
    void enqueue(std::function<void()> work);

   private:
    friend class SimulatedDriver;
    SimulatedDriver* driver_ = nullptr;
  };
  /// A SideQueue.
  [[nodiscard]] void* side_queue() override { return &side_; }
  void fork() override;
  void join() override;
  void travel_in(void* device, const void* host, std::size_t bytes) override;
  void travel_out(void* host, const void* device, std::size_t bytes) override;
  [[nodiscard]] void* make_event() override;
  void drop_event(void* event) noexcept override;
  [[nodiscard]] void* make_timer() override;
  /// 0 of one that does nothing.
  [[nodiscard]] double seconds_between(void* earlier, void* later) override;
  void record(void* event, Queue queue) override;
  void follow(Queue queue, void* event) override;
  /// The queues run no further than they must.
  void wait(void* event) override;

  /// How often `wait` was called: what a test of a step without waiting counts.
  [[nodiscard]] Index waits() const { return waits_; }
  /// Graphs that a GPU would have been given: one between `begin_graph` and `end_graph`, and one more for
  /// each time in between that somebody waited, followed an event, or took or gave back memory.
  [[nodiscard]] Index graphs() const { return graphs_; }
  /// What its queues have been given so far: kernels, copies, points to wait for.
  [[nodiscard]] Index given() const {
    return lines_[0].given + lines_[1].given + lines_[2].given + lines_[3].given;
  }
  /// How often something was copied into the device's memory, or out of it.
  [[nodiscard]] Index copied_in() const { return copied_in_; }
  [[nodiscard]] Index copied_out() const { return copied_out_; }
  /// What of it has not been done yet.
  [[nodiscard]] Index left() const {
    return given() - lines_[0].done - lines_[1].done - lines_[2].done - lines_[3].done;
  }

 private:
  /// A queue's first `count` items.
  struct Point {
    Queue queue = Queue::compute;
    Index count = 0;
  };
  struct Item {
    std::function<void()> work;
    Point after;
    const void* memory = nullptr;  // in the one array that it touches; null: it may touch all
  };
  struct Line {
    std::deque<Item> items;
    Index given = 0;
    Index done = 0;
  };

  static constexpr Queue side = static_cast<Queue>(3);

  void enqueue(Queue queue, std::function<void()> work, const void* memory = nullptr);
  void follow(Queue queue, const Point& point);
  [[nodiscard]] Line& line(Queue queue) { return lines_[static_cast<std::size_t>(queue)]; }
  /// Runs the first item of the first queue that has one which may run; false where there is none.
  bool run_one();
  void cut_graph();
  /// Makes what the item touches accessible, until `close`.
  void open_for(const Item& item) noexcept;
  void close() noexcept;
  void refuse_host_memory(const void* kernel, std::size_t bytes) const;
  /// Until all is done, or the first `until.count` items of its queue are.
  void run(const Point* until = nullptr);

  std::size_t total_;
  Order order_;
  bool idle_ = false, stands_for_host_ = false;
  /// Memory that is mapped: its array ends less than `aligned` bytes before the page behind it.
  struct Mapped {
    std::byte* pages = nullptr;
    std::size_t bytes = 0;    // of the pages, without the one behind
    std::size_t written = 0;  // of the array
  };
  static constexpr std::size_t aligned = 256;
  std::map<std::byte*, Mapped> blocks_;  // by the array's address
  int key_ = -1;                         // the protection key of all of them, where there is one
  // Without a key each array is opened by a call of the system: copies, which are most of what runs, open
  // theirs.
  bool all_open_ = false;
  std::vector<const Mapped*> open_;  // unless all are
  Threads next_ = Threads::up;
  std::array<Line, 4> lines_;  // by Queue, and the side's
  SideQueue side_;
  Index forked_ = 0;  // what the kernels had been given at the last fork
  std::map<void*, std::unique_ptr<Point>> events_;
  std::map<void*, Stopwatch> passed_;  // events that are timers: when
  Index waits_ = 0;
  Index copied_in_ = 0, copied_out_ = 0;
  bool in_graph_ = false;
  Index graphs_ = 0;
  Index graph_from_ = 0;  // what the queues had been given when the graph began
};

}  // namespace rossby
