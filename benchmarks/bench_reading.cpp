// Times the reading of a series: seconds to open it (headers, checks), to get memory for its values from the
// system (first touch), and to load all of them as float32.
//
//     bench_reading [--repeats N] FILE...      files as data.file names them
//
// One process on one core. The last line is JSON: the best of all repeats.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "rossby/base/error.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/tensor/buffer.hpp"

using namespace rossby;

namespace {

struct Times {
  double open = 0, touch = 0, read = 0;
  double core = 0;  // core seconds in `open` and `read`: their time on an idle core
  [[nodiscard]] double sum() const { return open + read; }
};

/// Returns the core seconds that this process has used.
double core_seconds() {
  timespec at{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

void run(int repeats, const std::vector<std::string>& entries) {
  Times best;
  double bytes = 0, least = 0;
  Index steps = 0, nodes = 0, files = 0;
  for (int r = 0; r < repeats; ++r) {
    Times times;
    double begin = core_seconds();
    const Stopwatch opening;
    const SeriesFile file = SeriesFile::open(entries, {});
    times.open = opening.seconds();
    times.core = core_seconds() - begin;
    const SeriesInfo& info = file.info();
    const Stopwatch touching;
    Buffer<float> values(info.steps * info.file_nodes * info.features);
    std::fill(values.span().begin(), values.span().end(), 0.0F);
    times.touch = touching.seconds();
    begin = core_seconds();
    const Stopwatch reading;
    std::vector<Index> all(static_cast<std::size_t>(info.file_nodes));
    std::iota(all.begin(), all.end(), Index{0});
    file.read(all, values.data());
    times.read = reading.seconds();
    times.core += core_seconds() - begin;
    steps = info.steps;
    nodes = info.file_nodes;
    files = static_cast<Index>(info.parts.size());
    bytes = static_cast<double>(values.span().size_bytes());
    least = r == 0 ? times.core : std::min(least, times.core);
    if (r == 0 || times.sum() < best.sum()) best = times;
    fmt::print("opened in {:.3f} s, touched in {:.3f} s, read in {:.3f} s; {:.3f} s of a core\n", times.open,
               times.touch, times.read, times.core);
  }
  fmt::print(
      "{{\"files\": {}, \"steps\": {}, \"nodes\": {}, \"bytes\": {:.0f}, \"open_seconds\": {:.4f}, "
      "\"touch_seconds\": {:.4f}, "
      "\"read_seconds\": {:.4f}, \"core_seconds\": {:.4f}, \"bytes_per_second\": {:.4g}}}\n",
      files, steps, nodes, bytes, best.open, best.touch, best.read, least, bytes / best.sum());
}

}  // namespace

int main(int argc, char** argv) {
  int repeats = 3;
  std::vector<std::string> entries;
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--repeats") == 0 && i + 1 < argc)
      repeats = std::max(1, std::atoi(argv[++i]));
    else
      entries.emplace_back(argv[i]);
  try {
    run(repeats, entries);
  } catch (const UserError& error) {
    fmt::print(stderr, "bench_reading: {}\n", error.what());
    return 1;
  }
  return 0;
}
