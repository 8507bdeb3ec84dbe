#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/tensor/cuda_device.hpp"

// Steps as CUDA graphs, on a runtime that keeps the rules of stream capture: what a GPU would have done must
// be what it does without graphs, in that order.

namespace rossby::test {
namespace {

/// A CUDA runtime whose copies are notes of what was copied. It refuses what a capture may not hold.
class Capturing final : public CudaApi {
 public:
  enum Error { fine, unsupported = 900, invalidated = 901, unjoined = 904, isolation = 905 };
  mutable std::vector<std::string> done;  // what has run
  mutable int made = 0, updated = 0, launched = 0, fail_end = 0, fail_make = 0, fail_update = 0,
              fail_launch = 0;
  mutable std::set<void*> alive;  // graphs and executables

  int device_count(int* count) const override { return *count = 1, 0; }
  int properties(int, Properties* out) const override { return *out = {"id", "Fake GPU", 9, 0, 1 << 20}, 0; }
  int set_device(int) const override { return 0; }
  int stream_create(void** stream) const override {
    streams_.push_back(std::make_unique<Stream>());
    return *stream = streams_.back().get(), 0;
  }
  int stream_destroy(void*) const override { return 0; }
  int stream_synchronize(void* stream) const override {
    return as<Stream>(stream).capture ? spoil(unsupported) : fine;
  }
  int event_create(void** event, bool) const override {
    events_.push_back(std::make_unique<Event>());
    return *event = events_.back().get(), 0;
  }
  int event_destroy(void*) const override { return 0; }
  int event_record(void* event, void* stream) const override {
    as<Event>(event) = {as<Stream>(stream).capture, &as<Stream>(stream)};
    return fine;
  }
  int event_synchronize(void* event) const override {
    return as<Event>(event).capture ? spoil(unsupported) : fine;
  }
  int event_elapsed(float*, void*, void*) const override { return 0; }
  int stream_wait(void* behind, void* event) const override {
    Stream& stream = as<Stream>(behind);
    const Event& point = as<Event>(event);
    if (point.capture && point.capture != capture_.get()) return spoil(isolation);  // of a graph before
    if (!point.capture) return stream.capture ? spoil(isolation) : fine;
    stream.capture = point.capture;
    if (stream.capture->origin == &stream)
      point.stream->open = false;
    else
      stream.open = true;
    return fine;
  }
  int allocate(void** pointer, std::size_t bytes) const override {
    return capture_ ? spoil(unsupported) : (*pointer = std::malloc(bytes), 0);
  }
  int release(void* pointer) const override {
    return capture_ ? spoil(unsupported) : (std::free(pointer), 0);
  }
  int allocate_host(void** pointer, std::size_t bytes) const override { return allocate(pointer, bytes); }
  int release_host(void* pointer) const override { return release(pointer); }
  int copy(void* to, const void* from, std::size_t bytes, Direction direction, void* stream) const override {
    return give("copy " + std::to_string(static_cast<int>(direction)),
                name(to) + " " + name(from) + " " + std::to_string(bytes), stream);
  }
  int fill_zero(void* pointer, std::size_t bytes, void* stream) const override {
    return give("zero", name(pointer) + " " + std::to_string(bytes), stream);
  }
  int capture_begin(void* stream) const override {
    if (capture_) return unsupported;
    capture_ = std::make_unique<Capture>(Capture{&as<Stream>(stream), {}, fine});
    as<Stream>(stream).capture = capture_.get();
    return fine;
  }
  int capture_end(void* stream, void** graph) const override {
    if (!capture_ || capture_->origin != &as<Stream>(stream)) return unsupported;
    int error = fail_end != 0 ? fail_end : capture_->error;
    for (const auto& other : streams_)
      if (other->capture) {
        if (other->open && error == fine) error = unjoined;
        other->capture = nullptr;
        other->open = false;
      }
    auto nodes = std::move(capture_->nodes);
    past_.push_back(std::move(capture_));  // events still point to it
    if (error != fine) return error;
    return *graph = keep(std::move(nodes)), fine;
  }
  int graph_size(void* graph, std::size_t* nodes) const override {
    return *nodes = as<Graph>(graph).size(), fine;
  }
  int graph_destroy(void* graph) const override { return alive.erase(graph) == 1 ? fine : 1; }
  int graph_make(void** executable, void* graph) const override {
    if (fail_make != 0) return fail_make;
    return ++made, *executable = keep(as<Graph>(graph)), fine;
  }
  int graph_update(void* executable, void* graph, bool* same) const override {
    Graph &to = as<Graph>(executable), &from = as<Graph>(graph);
    *same = std::equal(to.begin(), to.end(), from.begin(), from.end(),
                       [](const Node& a, const Node& b) { return a.kind == b.kind; });
    if (*same) to = from, ++updated;
    return fail_update;
  }
  int graph_drop(void* executable) const override { return alive.erase(executable) == 1 ? fine : 1; }
  int graph_launch(void* executable, void*) const override {
    if (fail_launch != 0) return fail_launch;
    ++launched;
    for (const Node& node : as<Graph>(executable)) done.push_back(node.kind + " " + node.arguments);
    return fine;
  }
  int last_error() const override { return 0; }
  std::string error_text(int error) const override { return "text of " + std::to_string(error); }

 private:
  struct Node {
    std::string kind, arguments;
  };
  using Graph = std::vector<Node>;
  struct Stream;
  struct Capture {
    Stream* origin;
    Graph nodes;
    int error;
  };
  struct Stream {
    Capture* capture = nullptr;
    bool open = false;  // part of a capture that has not come back to where it began
  };
  struct Event {
    Capture* capture = nullptr;
    Stream* stream = nullptr;
  };

  template <class Thing>
  static Thing& as(void* pointer) {
    return *static_cast<Thing*>(pointer);
  }
  static std::string name(const void* pointer) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(pointer));
  }
  int spoil(int error) const {
    if (capture_) capture_->error = invalidated;
    return error;
  }
  int give(const std::string& kind, const std::string& arguments, void* stream) const {
    Stream& to = as<Stream>(stream);
    if (to.capture) {
      to.capture->nodes.push_back({kind, arguments});
      if (to.capture->origin != &to) to.open = true;
    } else {
      done.push_back(kind + " " + arguments);
    }
    return fine;
  }
  void* keep(Graph graph) const {
    things_.push_back(std::make_unique<Graph>(std::move(graph)));
    alive.insert(things_.back().get());
    return things_.back().get();
  }

  mutable std::vector<std::unique_ptr<Stream>> streams_;
  mutable std::vector<std::unique_ptr<Event>> events_;
  mutable std::vector<std::unique_ptr<Graph>> things_;
  mutable std::unique_ptr<Capture> capture_;
  mutable std::vector<std::unique_ptr<Capture>> past_;
};

void* address(int number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}

/// What has run after `steps` of a program, with graphs and without; as graphs nothing is left behind.
void expect_the_same(int steps, const std::function<void(CudaDriver&, const Capturing&, int step)>& program,
                     const std::function<void(const CudaDriver&)>& check = {}) {
  std::vector<std::string> done[2];
  for (const bool graphs : {false, true}) {
    const Capturing api;
    {
      CudaDriver driver(0, &api, graphs);
      for (int step = 0; step < steps; ++step) {
        driver.begin_graph();
        program(driver, api, step);
        driver.end_graph();
      }
      driver.wait();
      if (graphs && check) check(driver);
      if (!graphs) {
        EXPECT_EQ(driver.graphs_launched(), 0U);
      }
    }
    EXPECT_TRUE(api.alive.empty()) << "what was made is given back";
    done[graphs] = api.done;
  }
  EXPECT_FALSE(done[0].empty());
  EXPECT_EQ(done[1], done[0]);
}

TEST(CudaGraphs, StepsOfOneShapeShareOne) {
  expect_the_same(
      5,
      [](CudaDriver& driver, const Capturing&, int step) {
        driver.copy_in(address(1 + step), address(2), 8);
        driver.zero(address(3), static_cast<std::size_t>(16 * (step + 1)));
        driver.copy_within(address(4), address(3), 8);
      },
      [](const CudaDriver& driver) {
        EXPECT_EQ(driver.graphs_launched(), 5U);
        EXPECT_EQ(driver.graphs_made(), 1U);
      });
}

TEST(CudaGraphs, ShapesThatTakeTurnsKeepTheirs) {
  const auto program = [](int shapes) {
    return [shapes](CudaDriver& driver, const Capturing&, int step) {
      const int shape = step % shapes;
      // Two of each number of nodes.
      for (int k = 0; k <= shape / 2; ++k) driver.zero(address(k + 1), static_cast<std::size_t>(step + 1));
      if (shape % 2 == 0)
        driver.copy_in(address(7), address(8), static_cast<std::size_t>(step + 1));
      else
        driver.copy_out(address(7), address(8), static_cast<std::size_t>(step + 1));
    };
  };
  expect_the_same(40, program(16), [](const CudaDriver& driver) { EXPECT_EQ(driver.graphs_made(), 16U); });
  // More than are kept: each is made anew, and the oldest goes.
  expect_the_same(40, program(18), [](const CudaDriver& driver) {
    EXPECT_EQ(driver.graphs_launched(), 40U);
    EXPECT_EQ(driver.graphs_made(), 40U);
  });
}

TEST(CudaGraphs, ThatAreUsedOftenAreKept) {
  expect_the_same(
      40,
      [](CudaDriver& driver, const Capturing&, int step) {
        const int shape = step % 2 == 0 ? 0 : 1 + step / 2 % 17;
        for (int k = 0; k <= shape; ++k) driver.zero(address(k + 1), static_cast<std::size_t>(step + 1));
      },
      [](const CudaDriver& driver) { EXPECT_EQ(driver.graphs_made(), 1U + 20U); });
}

TEST(CudaGraphs, HoldWhatTheSecondQueueDoes) {
  expect_the_same(
      3,
      [](CudaDriver& driver, const Capturing& api, int step) {
        driver.zero(address(1), 8);
        driver.fork();
        (void)api.copy(address(2), address(1), static_cast<std::size_t>(step + 1), CudaApi::Direction::within,
                       driver.side_queue());
        driver.join();
        driver.zero(address(3), 8);
        driver.join();  // of nothing
      },
      [](const CudaDriver& driver) {
        EXPECT_EQ(driver.graphs_launched(), 3U);
        EXPECT_EQ(driver.graphs_made(), 1U);
      });
  // A join of what was forked before the graph began, and nothing forked in it.
  expect_the_same(2, [](CudaDriver& driver, const Capturing&, int) {
    driver.join();
    driver.zero(address(1), 8);
  });
}

/// Whatever a capture may not hold, and in the middle of what the second queue does, too.
TEST(CudaGraphs, AreCutWhereACaptureMayNotGoOn) {
  using Act = std::function<void(CudaDriver&)>;
  void* host = nullptr;
  void* event = nullptr;
  const std::vector<Act> acts = {[](CudaDriver& d) { d.wait(); },
                                 [](CudaDriver& d) { d.release(d.allocate(64)); },
                                 [&](CudaDriver& d) { d.release_pinned(host = d.allocate_pinned(64)); },
                                 [&](CudaDriver& d) {
                                   event = d.make_event();
                                   d.record(event, DeviceDriver::Queue::compute);
                                   d.follow(DeviceDriver::Queue::in, event);
                                   d.travel_in(address(5), address(6), 8);
                                   d.record(event, DeviceDriver::Queue::in);
                                   d.follow(DeviceDriver::Queue::compute, event);
                                   d.wait(event);
                                 }};
  for (const Act& act : acts)
    for (const bool forked : {false, true})
      expect_the_same(
          3,
          [&](CudaDriver& driver, const Capturing& api, int step) {
            driver.zero(address(1), 8);
            if (forked) {
              driver.fork();
              (void)api.copy(address(2), address(1), static_cast<std::size_t>(step + 1),
                             CudaApi::Direction::within, driver.side_queue());
            }
            act(driver);
            if (forked) {
              (void)api.copy(address(9), address(1), 4, CudaApi::Direction::within, driver.side_queue());
              driver.join();
            }
            driver.zero(address(3), 8);
          },
          [](const CudaDriver& driver) { EXPECT_GE(driver.graphs_launched(), 6U); });
}

/// What starts a library waits, takes memory and enqueues, at once; the step goes on as a graph.
TEST(CudaGraphs, HoldNothingOfWhatIsDoneApart) {
  for (const bool forked : {false, true})
    expect_the_same(
        3,
        [&](CudaDriver& driver, const Capturing& api, int step) {
          driver.zero(address(1), 8);
          if (forked) driver.fork();
          driver.apart([&] {
            driver.wait();
            driver.release(driver.allocate(64));
            void* memory = nullptr;
            EXPECT_EQ(api.allocate(&memory, 64), 0) << "of a library, past the driver";
            driver.copy_in(address(4), address(5), static_cast<std::size_t>(step + 1));
            EXPECT_EQ(api.stream_synchronize(driver.stream()), 0);
            EXPECT_EQ(api.release(memory), 0);
          });
          if (forked) driver.join();
          driver.zero(address(3), 8);
        },
        [](const CudaDriver& driver) { EXPECT_GE(driver.graphs_launched(), 6U); });
}

/// A fork that the step before left open comes into the next graph.
TEST(CudaGraphs, GoOnWithWhatWasForkedBefore) {
  expect_the_same(4, [](CudaDriver& driver, const Capturing& api, int step) {
    if (step % 2 == 0) {
      driver.zero(address(1), 8);
      driver.fork();
    }
    (void)api.copy(address(2), address(1), static_cast<std::size_t>(step + 1), CudaApi::Direction::within,
                   driver.side_queue());
    if (step % 2 == 1) {
      driver.join();
      driver.zero(address(3), 8);
    }
  });
}

TEST(CudaGraphs, OfNothingAreNotLaunched) {
  const Capturing api;
  CudaDriver driver(0, &api, true);
  driver.begin_graph();
  driver.wait();
  driver.end_graph();
  driver.end_graph();
  EXPECT_EQ(driver.graphs_launched(), 0U);
  EXPECT_EQ(api.made, 0);
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(CudaGraphs, ThatFailSaySoOnce) {
  struct Case {
    int Capturing::*fails;
    const char* what;
  };
  for (const Case& at :
       {Case{&Capturing::fail_end, "ending a graph"}, Case{&Capturing::fail_make, "making a graph"},
        Case{&Capturing::fail_update, "giving a graph its arguments"},
        Case{&Capturing::fail_launch, "starting a graph"}}) {
    Capturing api;
    {
      CudaDriver driver(0, &api, true);
      const auto step = [&] {
        driver.begin_graph();
        driver.zero(address(1), 8);
        driver.end_graph();
      };
      if (at.fails != &Capturing::fail_make) step();
      api.*at.fails = 700;
      EXPECT_EQ(error_of(step), std::string("GPU 0 failed while ") + at.what +
                                    ": CUDA error 700: text of 700. "
                                    "Check the GPU with nvidia-smi, then start again");
      EXPECT_EQ(error_of([&] { driver.wait(); }), "") << "nothing is captured any more";
      // Memory is given back whatever happens.
      void* memory = driver.allocate(64);
      driver.begin_graph();
      driver.zero(address(1), 8);
      driver.release(memory);
    }
    EXPECT_TRUE(api.alive.empty());
  }
}

TEST(CudaGraphs, LeaveNothingWhereAStepEndsWithinOne) {
  const Capturing api;
  {
    CudaDriver driver(0, &api, true);
    driver.begin_graph();
    driver.zero(address(1), 8);
  }
  EXPECT_TRUE(api.alive.empty());
  EXPECT_TRUE(api.done.empty());
}

}  // namespace
}  // namespace rossby::test
