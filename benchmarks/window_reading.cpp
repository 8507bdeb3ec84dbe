#include "benchmarks/window_reading.hpp"

#include <cstring>

#include "rossby/base/user_error.hpp"

namespace rossby::bench {

Reading time_reading(WindowTraining& training, int repeats) {
  const WindowCase& o = training.o;
  std::vector<Index> starts;
  training.plan->starts_of(0, training.grid.group(), starts);
  if (o.sampling == WindowSampling::global && o.groups > 1 && !o.everything) return {};
  const Index rows = training.store->rows();
  const auto cols = static_cast<Index>(starts.size());
  std::vector<float> inputs(static_cast<std::size_t>(rows * cols * 2)),
      targets(static_cast<std::size_t>(rows * cols));
  std::vector<Index> steps(starts.size());
  Reading reading;
  reading.bytes = static_cast<double>(rows * cols * (o.inputs + o.outputs)) * sizeof(float);
  std::vector<float> from(static_cast<std::size_t>(reading.bytes / sizeof(float)), 1.0F), to(from.size());
  std::vector<double> read, copy;
  for (int r = 0; r < 4 * repeats; ++r) {
    auto begin = Clock::now();
    for (Index t = 0; t < o.inputs + o.outputs; ++t) {
      for (std::size_t b = 0; b < starts.size(); ++b) steps[b] = starts[b] + t;
      if (t < o.inputs)
        training.reader->read(training.exec, {inputs.data(), rows, cols, 2}, steps);
      else
        training.reader->read_truth(training.exec, {targets.data(), rows, cols, 1}, steps);
    }
    read.push_back(seconds_since(begin));
    begin = Clock::now();
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    copy.push_back(seconds_since(begin));
    from[static_cast<std::size_t>(r)] = to.back();
  }
  reading.read = median(read);
  reading.copy = median(copy);
  return reading;
}

Materialised time_materialised(WindowTraining& training, int repeats) {
  const WindowCase& o = training.o;
  Materialised result;
  if (!o.materialised) return result;
  std::vector<Index> windows, starts, batch;
  for (Index k = 0; k < training.plan->batches(); ++k) {
    training.plan->starts_of(k, training.grid.group(), batch);
    if (k == 0) starts = batch;
    windows.insert(windows.end(), batch.begin(), batch.end());
  }
  std::sort(windows.begin(), windows.end());
  const StepStore& store = *training.store;
  const auto rows = static_cast<std::size_t>(store.rows()),
             steps = static_cast<std::size_t>(o.inputs + o.outputs);
  const std::size_t window = steps * rows * 2;
  result.bytes = static_cast<double>(windows.size() * window * sizeof(double));
  if (result.bytes > 8.0 * (1 << 30))
    user_error("materialised windows would take {:.3g} GiB a rank. Give fewer --steps",
               result.bytes / (1 << 30));
  auto begin = Clock::now();
  std::vector<double> tensors(windows.size() * window);
  double* to = tensors.data();
  for (const Index start : windows)
    for (Index t = start; t < start + o.inputs + o.outputs; ++t)
      for (std::size_t i = 0; i < rows; ++i) {
        *to++ = static_cast<double>(store.at(t)[i]);
        *to++ = static_cast<double>(training.times.values[static_cast<std::size_t>(t)]);
      }
  result.build = seconds_since(begin);
  std::vector<double> out(starts.size() * window), seconds;
  for (int r = 0; r < 4 * repeats; ++r) {
    begin = Clock::now();
    for (std::size_t b = 0; b < starts.size(); ++b) {
      const auto place = static_cast<std::size_t>(
          std::lower_bound(windows.begin(), windows.end(), starts[b]) - windows.begin());
      std::copy_n(tensors.data() + place * window, window, out.data() + b * window);
    }
    seconds.push_back(seconds_since(begin));
  }
  result.read = median(seconds);
  result.read_bytes = static_cast<double>(out.size() * sizeof(double));
  return result;
}

std::pair<double, double> time_fetching(WindowTraining& training, int repeats) {
  const WindowCase& o = training.o;
  if (o.groups == 1 || o.sampling != WindowSampling::global || o.everything) return {0, 0};
  std::vector<double> seconds;
  const Traffic before = training.between->sent();
  training.plan->start_epoch(1);
  const int count = std::min<int>(2 * repeats, static_cast<int>(training.plan->batches()));
  if (training.store->on_the_way()) training.store->arrive();
  for (int k = 0; k < count; ++k) {
    StepLists wanted;
    std::vector<Index> starts;
    for (int g = 0; g < o.groups; ++g) {
      training.plan->starts_of(k, g, starts);
      wanted.push_back(training.plan->steps_of(starts));
    }
    training.grid.world().barrier();
    const auto begin = Clock::now();
    training.store->prefetch(wanted);
    training.store->arrive();
    seconds.push_back(seconds_since(begin));
  }
  const auto bytes = static_cast<double>(training.between->sent().bytes - before.bytes) / count;
  return {median(seconds), bytes};
}

}  // namespace rossby::bench
