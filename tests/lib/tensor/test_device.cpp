#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "rossby/base/error.hpp"
#include "rossby/tensor/arena.hpp"
#include "rossby/tensor/cuda_device.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
namespace {

Device simulated(std::size_t bytes = std::size_t{1} << 30, DeviceOptions options = {}) {
  return Device(std::make_unique<SimulatedDriver>(bytes), options);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Device, BuffersAreZeroAndCopiesComeBackAfterWaiting) {
  Device device = simulated();
  Buffer<int> buffer(1000, device);
  std::vector<int> host(1000, 7);
  device.download(std::span(host), buffer.data());
  EXPECT_EQ(host[0], 7);  // the download has not run yet
  device.wait();
  EXPECT_EQ(std::count(host.begin(), host.end(), 0), 1000);
  std::iota(host.begin(), host.end(), 0);
  device.upload(buffer.data(), std::span<const int>(host));
  std::vector<int> back(1000);
  device.download(std::span(back), buffer.data());
  device.wait();
  EXPECT_EQ(back, host);
  EXPECT_EQ(buffer.memory(), Memory::device);
  EXPECT_EQ(buffer.device(), &device);
}

/// Takes all protection keys of the process, as if the processor had none.
class NoKeys {
 public:
  NoKeys() {
    for (int key = ::pkey_alloc(0, 0); key >= 0; key = ::pkey_alloc(0, 0)) keys_.push_back(key);
  }
  ~NoKeys() {
    for (const int key : keys_) (void)::pkey_free(key);
  }
  NoKeys(const NoKeys&) = delete;
  NoKeys& operator=(const NoKeys&) = delete;

 private:
  std::vector<int> keys_;
};

void expect_the_host_is_kept_out() {
  Device device = simulated();
  Buffer<double> buffer(8, device);
  EXPECT_DEATH({ buffer[3] = 1; }, "");
  device.wait();
  EXPECT_DEATH({ buffer[3] = 1; }, "");
  EXPECT_DEATH({ std::fprintf(stderr, "%f", buffer[3]); }, "");
  Buffer<double>(8, device);
  EXPECT_DEATH({ std::fprintf(stderr, "%f", buffer[3]); }, "") << "nor after another one was given back";
}

TEST(DeviceDeathTest, TheHostMayNotTouchDeviceMemory) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  expect_the_host_is_kept_out();
}

TEST(DeviceDeathTest, TheHostMayNotTouchDeviceMemoryWithoutProtectionKeys) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const NoKeys taken;
  expect_the_host_is_kept_out();
}

TEST(Device, FreshMemoryIsNotANumber) {
  Device device = simulated();
  auto* fresh = static_cast<float*>(device.allocate(400));
  std::vector<float> host(100, 0);
  device.download(std::span(host), fresh);
  device.wait();
  for (const float value : host) EXPECT_NE(value, value);
  device.release(fresh);
  Arena arena(&device);
  const auto zeros = arena.take_zeroed<float>(100);
  device.download(std::span(host), zeros.data());
  device.wait();
  for (const float value : host) EXPECT_EQ(value, 0);
}

TEST(Device, AnArenaOfAddressesTellsWhatTheHostsTakes) {
  Device idle(SimulatedDriver::idle());
  Arena traced(&idle), real;
  const auto steps = [](Arena& arena) {
    (void)arena.take<float>(3 << 20);
    arena.reset();
    for (const Index size : {1 << 18, 1 << 20, 5 << 20}) {
      (void)arena.take<float>(size);
      const auto mark = arena.mark();
      (void)arena.take<double>(size + 7);
      arena.rewind(mark);
    }
  };
  steps(traced);
  steps(real);
  EXPECT_EQ(traced.resident_peak(), real.resident_peak());
  EXPECT_EQ(traced.taken_bytes(), real.taken_bytes());
  EXPECT_GE(real.resident_peak(), real.peak_bytes());
  EXPECT_LE(real.resident_peak(), real.taken_bytes() + (std::size_t{4} << 21));
  EXPECT_EQ(idle.resident_on_host(), traced.resident_whole());
  // Small blocks are cleared; larger ones count the whole pages that are touched.
  EXPECT_EQ(detail::resident_bytes(100, 0), 128U);
  EXPECT_EQ(detail::resident_bytes(std::size_t{1} << 20, 5000), 8192U);
  EXPECT_EQ(detail::resident_bytes(std::size_t{9} << 20, 1), std::size_t{1} << 21);
}

/// The tape of the host uses one arena for values and lists, its trace uses two. Both change how blocks grow.
TEST(Device, ListsCountInTheArenaThatStandsForTheHosts) {
  Device idle(SimulatedDriver::idle());
  Arena values(&idle), lists, apart(&idle), real;
  lists.count_in(&values);
  const auto steps = [](Arena& large, Arena& small) {
    for (int step = 0; step < 3; ++step) {
      for (const Index size : {1 << 20, 1 << 20, 5 << 20, 3 << 20, 9 << 20}) {
        (void)small.take<std::byte>(1000);
        (void)large.take<float>(size);
      }
      if (&large != &small) small.reset();
      large.reset();
    }
  };
  steps(values, lists);
  steps(real, real);
  Arena no_lists;
  steps(apart, no_lists);
  EXPECT_EQ(values.resident_peak(), real.resident_peak());
  EXPECT_EQ(values.peak_bytes(), real.peak_bytes());
  EXPECT_NE(apart.resident_peak(), real.resident_peak()) << "the test would see nothing";
}

TEST(Device, AnArenaOfAddressesTellsWhatADevicesTakes) {
  Device real = simulated(), there(SimulatedDriver::idle(SimulatedDriver::For::device)),
         host(SimulatedDriver::idle());
  for (Device* device : {&real, &there, &host}) {
    Arena arena(device);
    for (int k = 1; k <= 20; ++k) (void)arena.take<std::byte>(Index{k} << 16);
    arena.reset();
    (void)arena.take<std::byte>(Index{1} << 16);
  }
  EXPECT_EQ(there.peak_bytes(), real.peak_bytes());
  EXPECT_GT(host.peak_bytes(), real.peak_bytes()) << "whose blocks are as large as all before";
}

TEST(Device, AnArenaHoldsNoMoreThanItNeeds) {
  constexpr Index mib = Index{1} << 20;
  Device device = simulated();
  const std::size_t before = device.used_bytes();
  Arena arena(&device);
  for (int k = 1; k <= 8; ++k) {  // temporary memory that is given back, then a larger block that stays
    const auto mark = arena.mark();
    (void)arena.take<std::byte>(k * mib);
    arena.rewind(mark);
    (void)arena.take<std::byte>((k + 1) * mib);
  }
  EXPECT_EQ(arena.peak_bytes(), std::size_t{44} << 20);
  EXPECT_LE(device.used_bytes() - before, arena.peak_bytes());
  arena.reset();
  EXPECT_EQ(device.used_bytes() - before, arena.peak_bytes());
}

TEST(Device, BeyondItsBudgetItSaysWhatWouldFit) {
  DeviceOptions options;
  options.limit = std::size_t{64} << 20;
  Device device = simulated(std::size_t{1} << 30, options);
  const std::size_t before = device.used_bytes();
  {
    Buffer<std::byte> most(std::size_t{40} << 20, device);
    EXPECT_EQ(device.used_bytes(), before + (std::size_t{40} << 20));
    const std::string error = error_of([&] { Buffer<std::byte> more(std::size_t{40} << 20, device); });
    EXPECT_NE(
        error.find("out of device memory: cannot allocate 40.000 MiB for an array, because 44.000 MiB of "
                   "64.000 MiB are in use"),
        std::string::npos)
        << error;
    EXPECT_NE(error.find("Use 2 times as many ranks or more"), std::string::npos) << error;
    const std::string named = error_of([&] {
      const Device::For outer(&device, "the gradient of W", "fewer of it");
      { const Device::For inner(&device, "nothing"); }
      Buffer<std::byte> more(std::size_t{100} << 20, device);
    });
    EXPECT_NE(named.find("memory: cannot allocate 100.000 MiB for the gradient of W, because"),
              std::string::npos)
        << named;
    EXPECT_NE(named.find("Use fewer of it, or 3 times as many ranks or more"), std::string::npos) << named;
    const std::string far = error_of([&] { Buffer<std::byte> more(Index{1} << 40, device); });
    EXPECT_NE(far.find("Use a larger device"), std::string::npos) << far;
  }
  EXPECT_EQ(device.used_bytes(), before);
  Buffer<std::byte> fits(std::size_t{40} << 20, device);
}

TEST(Device, ListsTravelHoweverManyAndLarge) {
  DeviceOptions options;
  options.staging_bytes = 4096;
  Device device = simulated(std::size_t{1} << 30, options);
  std::vector<std::vector<int>> got;
  std::vector<Buffer<int>> places;
  for (int k = 0; k < 100; ++k) {
    std::vector<int> list(static_cast<std::size_t>(k == 50 ? 5000 : 1 + k % 7), k);
    const int* there = device.on_device(std::span<const int>(list));
    // Read after it was enqueued, as a kernel reads it.
    places.emplace_back(std::ssize(list), device);
    device.driver().copy_within(places.back().data(), there, list.size() * sizeof(int));
    list.assign(list.size(), -1);  // the host array may change at once
    got.emplace_back(list.size());
  }
  for (std::size_t k = 0; k < got.size(); ++k) device.download(std::span(got[k]), places[k].data());
  device.wait();
  for (std::size_t k = 0; k < got.size(); ++k)
    EXPECT_EQ(got[k], std::vector<int>(got[k].size(), static_cast<int>(k)));
  EXPECT_EQ(device.on_device(std::span<const int>()), nullptr);
}

TEST(Device, ListsOfOneLaunchStayHoweverLarge) {
  DeviceOptions options;
  options.staging_bytes = 4096;
  auto owner = std::make_unique<SimulatedDriver>();
  SimulatedDriver* driver = owner.get();
  Device device(std::move(owner), options);
  std::size_t most = 0;
  for (int launch = 0; launch < 40; ++launch) {
    std::vector<std::vector<int>> lists((launch % 3 + 1) * Device::lists_of_a_launch);
    std::vector<const int*> there;
    for (std::size_t k = 0; k < lists.size(); ++k) {
      lists[k].assign(std::size_t{1} << (k % 3 == 0 ? 8 + k % 4 : k % 7), launch * 100 + static_cast<int>(k));
      there.push_back(device.on_device(std::span<const int>(lists[k])));
    }
    driver->enqueue([lists, there] {
      for (std::size_t k = 0; k < lists.size(); ++k) {
        EXPECT_TRUE(std::equal(lists[k].begin(), lists[k].end(), there[k])) << k;
      }
    });
    device.launched();
    if (launch == 5) most = device.own_bytes();
  }
  device.wait();
  EXPECT_EQ(device.own_bytes(), most) << "what launches of this kind take is there by then";
}

TEST(SimulatedDevice, EachLaunchRunsInAnotherOrder) {
  SimulatedDriver driver;
  using Threads = SimulatedDriver::Threads;
  const int nothing = 0;
  std::vector<Threads> orders;
  for (int k = 0; k < 4; ++k) orders.push_back(driver.launch(&nothing, sizeof nothing));
  EXPECT_EQ(orders, (std::vector{Threads::up, Threads::down, Threads::scattered, Threads::up}));
  driver.begin_with(Threads::up);
  EXPECT_EQ(driver.launch(&nothing, sizeof nothing), Threads::up);
}

TEST(SimulatedDevice, KernelsAreGivenNoMemoryOfTheHost) {
  if (!SimulatedDriver::tells_host_memory()) GTEST_SKIP() << "a build with a sanitizer";
  Device device = simulated();
  auto& driver = static_cast<SimulatedDriver&>(device.driver());
  const Buffer<double> there(100, device);
  const std::vector<double> here(100);
  struct Kernel {
    Index size;
    const double* from;
    double value;
  } kernel{100, there.data() + 3, 0.5};
  EXPECT_NO_THROW((void)driver.launch(&kernel, sizeof kernel));
  kernel.from = there.data() + 100;  // points into no array
  EXPECT_NO_THROW((void)driver.launch(&kernel, sizeof kernel));
  kernel.from = nullptr;
  EXPECT_NO_THROW((void)driver.launch(&kernel, sizeof kernel));
  kernel.from = here.data() + 3;
  EXPECT_THROW((void)driver.launch(&kernel, sizeof kernel), BugError);
  const double local = 0;
  kernel.from = reinterpret_cast<std::uintptr_t>(&local) % 256 == 0 ? here.data() + 1 : &local;
  EXPECT_THROW((void)driver.launch(&kernel, sizeof kernel), BugError);
}

void expect_nothing_beside_an_array_is_touched() {
  const auto write = [](Index size, Index at) {
    Device device = simulated();
    auto* array = static_cast<float*>(device.allocate(static_cast<std::size_t>(size) * sizeof(float)));
    static_cast<SimulatedDriver&>(device.driver()).enqueue([=] { array[at] = 1; });
    device.wait();
    device.release(array);
  };
  write(64, 63);
  EXPECT_DEATH(write(64, 64), "");  // 256 bytes: the next page
  EXPECT_DEATH(write(60, 60), "a kernel wrote beside an array of 240 bytes");
  EXPECT_DEATH(write(60, -1), "a kernel wrote beside an array of 240 bytes");
  EXPECT_DEATH(write(10000, 10016), "");
}

TEST(SimulatedDeviceDeathTest, NothingBesideAnArrayIsTouched) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  expect_nothing_beside_an_array_is_touched();
}

TEST(SimulatedDeviceDeathTest, NothingBesideAnArrayIsTouchedWithoutProtectionKeys) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const NoKeys taken;
  expect_nothing_beside_an_array_is_touched();
}

TEST(Device, KeptArraysTravelOnce) {
  Device device = simulated();
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  const std::size_t before = device.used_bytes();
  {
    Device::Copy copy = device.keep(values);
    const Device::Copy second = device.keep(values);
    const int* all = device.on_device(std::span<const int>(values));
    EXPECT_EQ(device.on_device(std::span<const int>(values).subspan(40, 60)), all + 40);
    copy = {};
    EXPECT_EQ(device.on_device(std::span<const int>(values)), all);
    EXPECT_GT(device.used_bytes(), before);
    std::vector<int> back(60);
    device.download(std::span(back), all + 40);
    device.wait();
    EXPECT_EQ(back[0], 40);
  }
  EXPECT_EQ(device.used_bytes(), before);
}

TEST(Device, SumsOfOneHostDoubleShareAPlace) {
  auto owner = std::make_unique<SimulatedDriver>();
  SimulatedDriver* driver = owner.get();
  Device device(std::move(owner));
  double one = 1, other = 0;
  const auto add = [&](double* host, double value) {
    double* there = device.later(host);
    driver->enqueue([there, value] { *there += value; });
    return there;
  };
  double* first = add(&one, 2);
  EXPECT_NE(add(&other, 5), first);
  const Index waits = driver->waits();
  for (int k = 0; k < 2000; ++k) EXPECT_EQ(add(&one, 1), first);
  EXPECT_EQ(driver->waits(), waits) << "places are not used up";
  device.settle();
  EXPECT_EQ(one, 2003);
  EXPECT_EQ(other, 5);
  (void)add(&one, 1);
  device.settle();
  EXPECT_EQ(one, 2004) << "0 again after a settlement";
}

TEST(Device, TheHostWaitsForAnEventAndNoMore) {
  SimulatedDriver driver;
  int done = 0;
  void* event = driver.make_event();
  driver.wait(event);  // never recorded
  driver.enqueue([&] { ++done; });
  driver.record(event, DeviceDriver::Queue::compute);
  driver.enqueue([&] { ++done; });
  EXPECT_EQ(done, 0);
  driver.wait(event);
  EXPECT_EQ(done, 1);
  driver.wait(event);
  EXPECT_EQ(done, 1);
  driver.wait();
  EXPECT_EQ(done, 2);
  driver.drop_event(event);
}

TEST(Device, TimersTellWhatAQueueTook) {
  SimulatedDriver driver;
  void* timers[] = {driver.make_timer(), driver.make_timer(), driver.make_timer()};
  const auto spend = [&](double seconds) {
    driver.enqueue([seconds] {
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
      }
    });
  };
  driver.record(timers[0], DeviceDriver::Queue::compute);
  spend(2e-3);
  driver.record(timers[1], DeviceDriver::Queue::compute);
  driver.record(timers[2], DeviceDriver::Queue::compute);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time of the host is not time of the queue
  driver.wait();
  EXPECT_GE(driver.seconds_between(timers[0], timers[1]), 2e-3);
  EXPECT_LT(driver.seconds_between(timers[1], timers[2]), 1e-3);
  driver.record(timers[0], DeviceDriver::Queue::compute);
  for (void* timer : timers) driver.drop_event(timer);
}

TEST(Device, ScratchHasItsSize) {
  Device device = simulated();
  EXPECT_NE(device.scratch<double>(100), nullptr);
  EXPECT_THROW((void)device.scratch<double>(Index{1} << 30), BugError);
}

/// A CUDA runtime whose calls fail on request.
class FakeApi final : public CudaApi {
 public:
  int devices = 2;
  int fail_count = 0, fail_set = 0, fail_stream = 0, fail_copy = 0, fail_wait = 0, fail_launch = 0,
      fail_event = 0;
  int fail_allocate = 0;  // 2: not enough memory
  int fail_properties = 0;
  int major = 9;
  mutable int streams = 0, forgotten = 0;

  int device_count(int* count) const override {
    if (fail_count != 0) return fail_count;
    *count = devices;
    return 0;
  }
  int properties(int, Properties* out) const override {
    *out = {"id", "Fake GPU", major, 0, std::size_t{1} << 30};
    return fail_properties;
  }
  int set_device(int) const override { return fail_set; }
  int stream_create(void** stream) const override {
    if (fail_stream == 0) *stream = &streams, ++streams;
    return fail_stream;
  }
  int stream_destroy(void*) const override { return --streams, 0; }
  int stream_synchronize(void*) const override { return fail_wait; }
  int event_create(void** event, bool) const override { return *event = &streams, 0; }
  int event_destroy(void*) const override { return 0; }
  int event_record(void*, void*) const override { return fail_event; }
  int event_synchronize(void*) const override { return fail_wait; }
  int event_elapsed(float* milliseconds, void*, void*) const override {
    return *milliseconds = 2.5F, fail_event;
  }
  int stream_wait(void*, void*) const override { return 0; }
  int allocate(void** pointer, std::size_t bytes) const override { return take(pointer, bytes); }
  int release(void* pointer) const override { return std::free(pointer), 0; }
  int allocate_host(void** pointer, std::size_t bytes) const override { return take(pointer, bytes); }
  int release_host(void* pointer) const override { return std::free(pointer), 0; }
  int copy(void*, const void*, std::size_t, Direction, void*) const override { return fail_copy; }
  int fill_zero(void*, std::size_t, void*) const override { return 0; }
  int capture_begin(void*) const override { return 0; }
  int capture_end(void*, void**) const override { return 0; }
  int graph_size(void*, std::size_t*) const override { return 0; }
  int graph_destroy(void*) const override { return 0; }
  int graph_make(void**, void*) const override { return 0; }
  int graph_update(void*, void*, bool*) const override { return 0; }
  int graph_drop(void*) const override { return 0; }
  int graph_launch(void*, void*) const override { return 0; }
  int last_error() const override { return ++forgotten, fail_launch; }
  std::string error_text(int error) const override { return "text of " + std::to_string(error); }

 private:
  int take(void** pointer, std::size_t bytes) const {
    if (fail_allocate != 0) return fail_allocate;
    *pointer = std::malloc(bytes);
    return 0;
  }
};

TEST(Cuda, ItsErrorsNameTheGpuAndWhatItDid) {
  FakeApi api;
  {
    CudaDriver driver(1, &api);
    EXPECT_EQ(driver.name(), "Fake GPU (sm_90)");
    api.fail_copy = 700;
    EXPECT_EQ(error_of([&] { driver.copy_in(nullptr, nullptr, 1); }),
              "GPU 1 failed while copying to it: CUDA error 700: text of 700. "
              "Check the GPU with nvidia-smi, then start again");
    api.fail_wait = 719;
    EXPECT_EQ(error_of([&] { driver.wait(); }),
              "GPU 1 failed while it exchanged: CUDA error 719: text of 719. "
              "Check the GPU with nvidia-smi, then start again");
    EXPECT_EQ(error_of([&] { driver.wait(driver.make_event()); }),
              "GPU 1 failed while it worked up to an event: CUDA error 719: text of 719. "
              "Check the GPU with nvidia-smi, then start again");
    api.fail_event = 400;
    EXPECT_EQ(error_of([&] { driver.fork(); }),
              "GPU 1 failed while recording an event: CUDA error 400: text of 400. "
              "Check the GPU with nvidia-smi, then start again");
    EXPECT_EQ(error_of([&] { (void)driver.seconds_between(nullptr, nullptr); }),
              "GPU 1 failed while measuring time: CUDA error 400: text of 400. "
              "Check the GPU with nvidia-smi, then start again");
    api.fail_event = 0;
    EXPECT_FLOAT_EQ(static_cast<float>(driver.seconds_between(nullptr, nullptr)), 2.5e-3F);
    driver.check_launch("a kernel");
    api.fail_launch = 9;
    EXPECT_EQ(error_of([&] { driver.check_launch("a kernel"); }),
              "GPU 1 failed to start a kernel: CUDA error 9: text of 9. "
              "Check the GPU with nvidia-smi, then start again");
    api.fail_launch = 0;
    api.fail_allocate = 2;
    const int before = api.forgotten;
    EXPECT_EQ(driver.allocate(100), nullptr);
    EXPECT_EQ(driver.allocate_pinned(100), nullptr);
    EXPECT_EQ(api.forgotten, before + 2);
    api.fail_allocate = 700;  // an error of an earlier kernel
    const std::string kernels =
        "GPU 1 failed while allocating memory: CUDA error 700: text of 700. "
        "Check the GPU with nvidia-smi, then start again";
    EXPECT_EQ(error_of([&] { (void)driver.allocate(100); }), kernels);
    EXPECT_EQ(error_of([&] { (void)driver.allocate_pinned(100); }), kernels);
  }
  EXPECT_EQ(api.streams, 0);
}

TEST(Cuda, KernelsAreNotForOldGpus) {
  FakeApi api;
  EXPECT_EQ(cuda_devices(&api).count, 2);
  api.major = 7;
  const CudaDevices found = cuda_devices(&api);
  api.fail_properties = 46;
  EXPECT_EQ(cuda_devices(&api).reason,
            "GPU 0 cannot be identified: CUDA error 46: text of 46. Check the GPU with nvidia-smi");
  EXPECT_EQ(found.count, 0);
  EXPECT_EQ(found.reason.find("GPU 0 is Fake GPU (sm_70), but the kernels need sm_80 or newer"), 0U)
      << found.reason;
}

TEST(Cuda, OutOfMemoryIsTheUsersToMend) {
  FakeApi api;
  Device device(std::make_unique<CudaDriver>(0, &api));
  api.fail_allocate = 2;
  const std::string error = error_of([&] { Buffer<float> more(1 << 20, device); });
  EXPECT_NE(error.find("out of device memory: cannot allocate 4.000 MiB for an array"), std::string::npos)
      << error;
  EXPECT_NE(error.find("Fake GPU (sm_90)"), std::string::npos) << error;
}

TEST(Cuda, DevicesThatAreNotThereAreNamed) {
  EXPECT_EQ(error_of([] { CudaDriver driver(0, nullptr); }),
            "no GPU can be used: this build has no CUDA. "
            "Use a host with a GPU, or set parallel.device = \"cpu\"");
  FakeApi api;
  EXPECT_EQ(cuda_devices(&api).count, 2);
  EXPECT_EQ(error_of([&] { CudaDriver driver(2, &api); }),
            "GPU 2 does not exist: this process sees 2 GPUs. Check CUDA_VISIBLE_DEVICES");
  api.devices = 0;
  EXPECT_EQ(cuda_devices(&api).reason, "the driver sees no GPU");
  api.fail_count = 35;
  EXPECT_EQ(cuda_devices(&api).reason,
            "the GPU driver is missing or too old for this build: CUDA error 35: text of 35");
  api.fail_count = 0;
  api.devices = 1;
  api.fail_set = 101;
  EXPECT_EQ(error_of([&] { CudaDriver driver(0, &api); }),
            "GPU 0 failed while choosing it: CUDA error 101: text of 101. "
            "Check the GPU with nvidia-smi, then start again");
  api.fail_set = 0;
  api.fail_stream = 2;
  EXPECT_EQ(error_of([&] { CudaDriver driver(0, &api); }),
            "GPU 0 failed while making a stream: CUDA error 2: text of 2. "
            "Check the GPU with nvidia-smi, then start again");
}

TEST(Cuda, TheRealRuntimeSaysWhyThereIsNoGpu) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.count > 0, found.reason.empty());
}

}  // namespace
}  // namespace rossby
