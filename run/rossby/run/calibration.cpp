#include "rossby/run/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/series_writer.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/planning.hpp"
#include "rossby/run/training_options.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {
namespace {

/// A file of this rank only; the destructor removes it.
class OwnFile {
 public:
  OwnFile(const Communicator& comm, const std::string& folder, const char* ending)
      : path_((std::filesystem::path(folder) /
               fmt::format("rossby_calibrate_{}_{}{}", getpid(), comm.rank(), ending))
                  .string()) {}
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  ~OwnFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_series(const CalibrationCase& of, const std::string& path) {
  SeriesLayout layout;
  layout.gridded = true;
  for (Index i = 0; i < of.lat; ++i) layout.lat.push_back(0.5 * static_cast<double>(i));
  for (Index j = 0; j < of.lon; ++j) layout.lon.push_back(0.5 * static_cast<double>(j));
  layout.nodes = of.lat * of.lon;
  SeriesVariable variable;
  variable.name = "x";
  layout.variables.push_back(variable);
  layout.time = TimeAxis::counter(of.steps + of.validated);
  SeriesWriter writer = SeriesWriter::create(path, layout);
  std::vector<float> values(static_cast<std::size_t>(layout.nodes));
  for (Index t = 0; t < of.steps + of.validated; ++t) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((13 * static_cast<std::size_t>(t) + 7 * i) % 97) / 97;
    writer.append(values);
  }
  writer.finish();
}

template <class T>
TimedOps time_steps(const Communicator& together, const Communicator& own, const Config& config,
                    double seconds, Purpose purpose, WholeGraph* whole) {
  const auto run = agree(together, [&] { return make_run<T>(own, config, purpose, whole); });
  const auto task = agree(together, [&] { return run->make_task(); });
  Optimiser<T> optimiser(optimiser_options(config), run->parameters(), run->device());
  return time_ops<T>(*task, optimiser, run->reducer(), config.optimiser.clip, run->training_exec(), seconds,
                     [&](bool mine) {
                       double wanted = mine ? 1 : 0;
                       MpiReducer(together).max(std::span<double>(&wanted, 1));
                       return wanted > 0;
                     });
}

/// Sums over steps: the slowest rank's time, and the mean time of ranks.
struct Apart {
  double slowest = 0, mean = 0, count = 0;
};

/// Keyed by step time, three classes per factor of ten. A brief disturbance is much of a short step and
/// averages out in a long one.
using ApartByLength = std::map<double, Apart>;

void add_steps(const Communicator& comm, std::vector<double> steps, ApartByLength& apart) {
  MpiReducer reducer(comm);
  double fewest = -static_cast<double>(steps.size());
  reducer.max(std::span<double>(&fewest, 1));
  steps.resize(static_cast<std::size_t>(-fewest));
  std::vector<double> sums = steps;
  reducer.max(steps);
  reducer.sum(sums);
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / comm.size();
  if (mean <= 0) return;
  Apart& of = apart[std::round(3 * std::log10(mean / -fewest))];
  of.slowest += std::accumulate(steps.begin(), steps.end(), 0.0);
  of.mean += mean;
  of.count -= fewest;
}

/// Returns a built-in training on data in a file.
Config config_of(const CalibrationCase& of, const CalibrationOptions& options, const std::string& file) {
  const std::vector<std::string> sets{"data.file=" + file,
                                      "parallel.device=" + options.device,
                                      "parallel.products=" + options.products,
                                      "model.precision=" + options.precision,
                                      fmt::format("parallel.threads={}", options.threads),
                                      fmt::format("split.train={}", of.steps),
                                      fmt::format("split.validation={}", of.validated),
                                      "split.test=0"};
  return Config::parse(of.settings, "calibration", sets);
}

/// Runs two epochs of a training without timing. Returns the resident memory afterwards, in bytes.
template <class T>
double train(const Communicator& comm, const Config& config) {
  const auto run = make_run<T>(comm, config, Purpose::training);
  const auto task = run->make_task();
  Optimiser<T> optimiser(optimiser_options(config), run->parameters());
  TrainerOptions options = trainer_options(config, false);
  options.epochs = 2;
  Trainer<T>(options, schedule_options(config), *task, optimiser, run->reducer(), run->exec())
      .run(TrainerHooks{});
  return resident_bytes();
}

/// Measures one rank's bytes per second while all ranks write to their own files and read them back.
void time_disk(const Communicator& comm, const CalibrationOptions& options, const AddRate& add) {
  const std::size_t bytes = options.quick ? 1 << 20 : 64 << 20;
  const std::vector<char> data(bytes, 'x');
  std::vector<char> back(bytes);
  double seconds[2] = {0, 0};
  agree(comm, [&] {
    const OwnFile file(comm, options.folder, ".bin");
    const int handle = open(file.path().c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (handle < 0)
      user_error(
          "{}: this temporary file cannot be written. Check the permissions and the free space of its folder",
          file.path());
    Stopwatch begin;
    const bool written =
        write(handle, data.data(), bytes) == static_cast<ssize_t>(bytes) && fsync(handle) == 0;
    seconds[0] = begin.seconds();
    // Drop cached pages, or the read would come from memory.
    (void)posix_fadvise(handle, 0, 0, POSIX_FADV_DONTNEED);
    begin.restart();
    const bool read = pread(handle, back.data(), bytes, 0) == static_cast<ssize_t>(bytes);
    seconds[1] = begin.seconds();
    close(handle);
    if (!written || !read)
      user_error(
          "{}: this temporary file cannot be written and read back. Check the free space and the quota of "
          "the "
          "folder",
          file.path());
  });
  add("disk_write", static_cast<double>(bytes), static_cast<double>(bytes) / seconds[0]);
  add("disk_read", static_cast<double>(bytes), static_cast<double>(bytes) / seconds[1]);
}

/// Measures bytes per second from the page cache: the processor time of chunks of streamed relations.
void time_files(const Communicator& comm, const CalibrationOptions& options, const AddRate& add) {
  // As much memory as a file, because chunks of a training do not stay in a CPU cache.
  const std::size_t bytes = options.quick ? 1 << 20 : 128 << 20,
                    piece = std::min<std::size_t>(bytes / 4, 8 << 20);
  constexpr int passes = 4;  // the first one faults pages in
  std::vector<double> seconds[2];
  agree(comm, [&] {
    FileMemory file(options.folder, bytes);
    std::vector<std::byte> memory(bytes);
    for (int pass = 0; pass < passes; ++pass) {
      double of_pass[2] = {0, 0};
      // Alternate, as chunks come and go.
      for (std::size_t at = 0; at < bytes; at += piece)
        for (const bool write : {true, false}) {
          const std::size_t place = write ? at : (at + bytes / 2) % bytes;
          const std::span<std::byte> here = std::span(memory).subspan(place, piece);
          const Stopwatch begin;
          write ? file.write(place, here) : file.read(place, here);
          of_pass[write ? 0 : 1] += begin.seconds();
        }
      for (int way = 0; way < 2 && pass > 0; ++way) seconds[way].push_back(of_pass[way]);
    }
  });
  for (const bool write : {true, false})
    add(write ? "file_write" : "file_read", static_cast<double>(bytes),
        static_cast<double>(bytes) / median_of(seconds[write ? 0 : 1]));
}

}  // namespace

void AddRate::operator()(const char* kind, double size, double rate, double spread) const {
  MpiReducer(comm).sum(std::span<double>(&rate, 1));
  profile.rates.push_back({kind, ranks_on_host(comm), threads, size, rate / comm.size(), spread});
}

Communicator alone_on_host(const Communicator& comm) {
  return Communicator::self(rank_on_host(comm), ranks_on_host(comm));
}

TimedOps time_training(const Communicator& together, const Communicator& own, const Config& config,
                       double seconds, Purpose purpose, WholeGraph* whole) {
  return config.model.precision == "double"
             ? time_steps<double>(together, own, config, seconds, purpose, whole)
             : time_steps<float>(together, own, config, seconds, purpose, whole);
}

std::vector<OpSample> samples_of(const TimedOps& timed, const Config& config, int ranks, int threads) {
  const bool on_device = config.parallel.device != "cpu";
  std::vector<OpSample> samples;
  const auto add = [&](const std::vector<TracedOp>& ops, const std::vector<double>& spread) {
    for (std::size_t o = 0; o < ops.size(); ++o) {
      const TracedOp& op = ops[o];
      const auto calls = static_cast<double>(op.calls);
      if (op.seconds + op.queue_seconds <= 0) continue;
      samples.push_back({op.name,
                         op.backward,
                         precision_of(config, on_device),
                         ranks,
                         threads,
                         {op.cost.flops, op.cost.bytes, 0, 0},
                         op.made,
                         op.footprint,
                         (on_device ? op.queue_seconds : op.seconds) / calls,
                         spread[o],
                         on_device,
                         on_device ? op.seconds / calls : 0});
    }
  };
  add(timed.steps.ops, timed.spread);
  add(timed.steps.validation, timed.validation_spread);
  return samples;
}

namespace {

/// Plans a training with measurements of its own ops, as from a machine file. Returns the bytes of the
/// training's arrays and lists on a rank.
double make_plan(const Communicator& comm, const Config& config, const CalibrationOptions& options,
                 const MachineProfile& profile) {
  MachineProfile measured = profile;
  measured.ops =
      samples_of(time_training(comm, alone_on_host(comm), config, 0), config, comm.size(), options.threads);
  const std::string text = json_of(measured).dump();
  MeasuredMachine machine{profile_of(nlohmann::ordered_json::parse(text), "calibration")};
  machine.profile.process_bytes = machine.profile.cut_bytes = 0;
  return plan_training(comm, config, machine).interpolated.memory_bytes;
}

}  // namespace

void measure_process(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile) {
  const OwnFile file(comm, options.folder, ".nc");
  MpiReducer reducer(comm);
  const auto train_it = [&](const Communicator& ranks, const Config& config) {
    return options.precision == "double" ? train<double>(ranks, config) : train<float>(ranks, config);
  };
  // Not the peak, because reading takes more for a moment, before a model's arrays exist.
  const auto resident_in = [&](const Communicator& ranks, const Config& config) {
    release_unused_memory();
    double bytes = train_it(ranks, config);
    reducer.max(std::span<double>(&bytes, 1));
    return bytes;
  };
  CalibrationCase least = calibration_cases(true).front();
  least.validated = least.horizons + 1;
  least.lat = 4;
  least.lon = 8;
  agree(comm, [&] { write_series(least, file.path()); });
  const Config config = config_of(least, options, file.path());
  // The second run resembles a training that was planned in the same process and writes no series: program
  // and libraries stay resident.
  const Communicator self = Communicator::self();
  (void)train_it(self, config);
  const double model_bytes = make_plan(self, config, options, profile);
  profile.process_bytes = std::max(0.0, resident_in(self, config) - model_bytes);
  if (comm.size() == 1) return;
  const std::string cut = "parallel.partition=graph";
  const Config cut_config = config.with({&cut, 1});
  const double cut_model_bytes = make_plan(comm, cut_config, options, profile);
  profile.cut_bytes = std::max(0.0, resident_in(comm, cut_config) - cut_model_bytes - profile.process_bytes);
}

double measure_ops(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile) {
  constexpr int rounds = 3;
  const int ranks = ranks_on_host(comm);
  const std::vector<CalibrationCase> cases = calibration_cases(options.quick);
  struct Round {
    double seconds = 0;  // per step
    std::vector<OpSample> samples;
  };
  std::vector<std::vector<Round>> trainings(cases.size() + options.own.size());
  ApartByLength apart;
  const auto time = [&](std::size_t training, const Config& config, double seconds) {
    const TimedOps timed = time_training(comm, alone_on_host(comm), config, seconds);
    const std::vector<double>& steps = timed.steps.step_seconds;
    add_steps(comm, steps, apart);
    trainings[training].push_back(
        {std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size()),
         samples_of(timed, config, ranks, options.threads)});
  };
  const Stopwatch begin;
  auto left = static_cast<double>(rounds * cases.size());
  for (int round = 0; round < rounds; ++round) {
    std::size_t training = 0;
    for (const CalibrationCase& of : cases) {
      const OwnFile file(comm, options.folder, ".nc");
      agree(comm, [&] { write_series(of, file.path()); });
      // Data and first steps take as long again.
      const double share = (options.ops_seconds - begin.seconds()) / left-- / 2;
      time(training++, config_of(of, options, file.path()),
           std::clamp(share, 0.1 * options.case_seconds, options.case_seconds));
    }
    for (const Config& config : options.own) time(training++, config, options.case_seconds);
  }
  std::vector<double> differences;
  for (std::vector<Round>& of : trainings) {
    std::sort(of.begin(), of.end(), [](const Round& a, const Round& b) { return a.seconds < b.seconds; });
    differences.push_back(of.back().seconds / of.front().seconds - 1);
    for (OpSample& sample : of[rounds / 2].samples) {
      sample.spread = std::max(sample.spread, differences.back() / 2);
      profile.ops.push_back(std::move(sample));
    }
  }
  if (comm.size() > 1)  // a single rank waits for nobody
    for (const auto& [length, of] : apart)
      profile.stragglers.push_back(
          {comm.size(), hosts_of(comm), of.slowest / of.mean, options.device != "cpu", of.mean / of.count});
  return median_of(std::move(differences));
}

void measure_rates(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile) {
  constexpr int rounds = 3;
  const int threads = options.threads;
  const AddRate add_mean{comm, threads, profile};
  const auto add = [&](const char* kind, double size, const std::function<double()>& measure) {
    double rates[rounds];
    for (double& rate : rates) {
      comm.barrier();
      rate = measure();
    }
    MpiReducer(comm).sum(rates);
    std::sort(std::begin(rates), std::end(rates));
    const double median = rates[rounds / 2];
    add_mean(kind, size, median / comm.size(), (rates[rounds - 1] - rates[0]) / 2 / median);
  };
  const double seconds = (options.quick ? 0.005 : 0.2) / rounds;
  for (const double bytes : {1.0 * (1 << 18), 1.0 * (1 << 21), 1.0 * (1 << 24), 1.0 * (1 << 28)}) {
    if (options.quick && bytes > 1 << 21) break;
    add("stream", bytes, [&] { return measure_stream(Stream::triad, bytes, threads, seconds); });
  }
  for (const int size : {128, 512, 1024}) {
    if (options.quick && size > 128) break;
    add("gemm", size, [&] { return measure_gemm(size, threads); });
  }
  time_disk(comm, options, add_mean);
  comm.barrier();
  time_files(comm, options, add_mean);
}

}  // namespace rossby
