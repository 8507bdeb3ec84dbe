#include "benchmarks/step_run.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <sys/resource.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "benchmarks/step_floor.hpp"

namespace rossby::bench {
namespace {

constexpr std::array<Pass, 2> passes = {Pass::decoder, Pass::dynamics};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Returns the bytes that the host reads and writes to update weights from `gradient_bytes` of gradients.
double host_bytes(const StepCase& item, double gradient_bytes) {
  if (!item.host_updates) return 0;
  const double arrays = item.beta1 > 0 ? 3 : 2, word = item.bf16 ? sizeof(Bf16) : sizeof(float);
  return gradient_bytes / sizeof(float) * (2 * arrays * word + sizeof(float));
}

Index measured_batches(const StepCase& item, Index all) {
  return item.measured > 0 ? std::min(item.measured, all) : all;
}

/// Times of all measured batches of one pass, by part.
class Samples {
 public:
  void add(const StepTime& time) { times_.push_back(time); }

  /// Returns medians over batches of the slowest rank's times, and the shortest whole step. Collective.
  [[nodiscard]] StepTime medians(Reducer& reducer, double& best) const {
    StepTime result;
    for (double StepTime::*part : {&StepTime::total, &StepTime::forward, &StepTime::backward,
                                   &StepTime::allreduce, &StepTime::optimiser, &StepTime::exchange}) {
      std::vector<double> values;
      for (const StepTime& time : times_) values.push_back(time.*part);
      reducer.max(values);
      if (part == &StepTime::total) best = *std::min_element(values.begin(), values.end());
      result.*part = median(values);
    }
    return result;
  }

 private:
  std::vector<StepTime> times_;
};

/// Returns one number per rank, on every rank.
std::vector<double> of_all(double value, Ranks& ranks, Reducer& reducer) {
  std::vector<double> values(static_cast<std::size_t>(ranks.size()), 0.0);
  values[static_cast<std::size_t>(ranks.rank())] = value;
  reducer.sum(values);
  return values;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

/// Converts the tape's totals of `steps` steps to costs of one step. Returns their sum without the work that
/// the floor counts itself: the relation layer and the weights' L1 norm, which the layer's passes compute as
/// well.
Cost collect_ops(Tape<float>& tape, double steps, std::vector<PassResult::Op>& ops) {
  Cost others;
  ops.clear();
  for (const auto& total : tape.totals()) {
    PassResult::Op op{std::string(total.op), total.cost, static_cast<double>(total.calls) / steps};
    op.cost.flops /= steps;
    op.cost.bytes /= steps;
    op.cost.messages /= steps;
    op.cost.message_bytes /= steps;
    if (!op.name.starts_with("relate") && op.name != "clamp_l1") others += op.cost;
    ops.push_back(std::move(op));
  }
  tape.clear_totals();
  return others;
}

struct Measurement {
  std::array<Samples, 2> samples;
  std::array<Cost, 2> ops;
  std::array<double, 2> sent{};  // bytes per step
  std::vector<double> epochs;    // seconds
  std::vector<double> settling;  // seconds of each epoch
};

/// Runs one epoch or the measured share of it. Returns its seconds, scaled to a whole epoch.
double run_epoch(StepProblem<float>& problem, Index epoch, bool keep, Measurement& into, CaseResult& result) {
  const auto begin = Clock::now();
  problem.start_epoch(epoch);
  double seconds = seconds_between(begin, Clock::now());
  for (std::size_t p = 0; p < passes.size(); ++p) {
    const Index all = problem.batches(passes[p]);
    const Index count = measured_batches(problem.item(), all);
    const auto before = problem.travelled();
    const Index sent = problem.exchanged().bytes + problem.reduced().bytes;
    problem.tape().clear_totals();
    double pass_seconds = 0;
    for (Index index = 0; index < count; ++index) {
      StepTime time;
      result.final_loss = problem.run(passes[p], index, time);
      pass_seconds += time.total;
      if (keep) into.samples[p].add(time);
    }
    const auto steps = static_cast<double>(count);
    seconds += pass_seconds * static_cast<double>(all) / steps;
    into.sent[p] = static_cast<double>(problem.exchanged().bytes + problem.reduced().bytes - sent) / steps;
    into.ops[p] = collect_ops(problem.tape(), steps, result.pass[p].ops);
    result.pass[p].batches = static_cast<double>(all);
    result.pass[p].travelled = {(problem.travelled().in - before.in) / steps,
                                (problem.travelled().out - before.out) / steps};
    result.extrapolated = result.extrapolated || count < all;
  }
  const auto settling = Clock::now();
  problem.settle();
  if (keep) into.settling.push_back(seconds_between(settling, Clock::now()));
  return seconds + seconds_between(settling, Clock::now());
}

void measure_ahead(StepProblem<float>& problem, int epochs, CaseResult& result) {
  for (std::size_t p = 0; p < passes.size(); ++p) {
    const Index count = measured_batches(problem.item(), problem.batches(passes[p]));
    std::vector<double> each;
    for (Index epoch = 1; epoch < std::max(epochs, 2); ++epoch) {
      problem.start_epoch(epoch);
      each.push_back(problem.run_ahead(passes[p], count) / static_cast<double>(count));
    }
    problem.reducer().max(each);
    result.pass[p].ahead_seconds = median(each);
  }
}

template <class Truth>
double check_against(const StepCase& small, Ranks& ranks, const Exec& exec) {
  StepProblem<float> fast(small, ranks, exec);
  StepProblem<Truth> truth(small, ranks, {Backend::reference, 1});
  double worst = 0;
  StepTime time;
  for (Index epoch = 0; epoch < 2; ++epoch) {
    fast.start_epoch(epoch);
    truth.start_epoch(epoch);
    for (const Pass pass : passes)
      for (Index index = 0; index < measured_batches(small, fast.batches(pass)); ++index) {
        const double expected = truth.run(pass, index, time);
        const double difference = std::abs(fast.run(pass, index, time) - expected) / std::abs(expected);
        worst =
            std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
      }
  }
  return worst;
}

}  // namespace

double check_case(const StepCase& item, Ranks& ranks, const Exec& exec) {
  const StepCase small = small_version(item);
  // Bf16 is stored from floats, and the reference kernels round it in the same way.
  return small.bf16 ? check_against<float>(small, ranks, exec) : check_against<double>(small, ranks, exec);
}

CaseResult measure_case(const StepCase& item, Ranks& ranks, const Exec& exec, int epochs, Machine& machine,
                        Sampler* sampler) {
  CaseResult result;
  forget_peak();
  const auto begin = Clock::now();
  StepProblem<float> problem(item, ranks, exec);
  result.setup_seconds = seconds_between(begin, Clock::now());
  ranks.barrier();
  Measurement measured;
  for (Index epoch = 0; epoch < std::max(epochs, 2); ++epoch) {
    if (sampler && epoch == 1) sampler->start();
    const double seconds = run_epoch(problem, epoch, epoch > 0, measured, result);
    if (epoch > 0) measured.epochs.push_back(seconds);
  }
  if (sampler) sampler->stop();
  if (exec.device) measure_ahead(problem, epochs, result);
  const auto rss = of_all(peak_resident_bytes_since(), ranks, problem.reducer());
  result.peak_rss_bytes = sum_of(rss);
  result.peak_rss_bytes_max = largest(rss);
  problem.reducer().max(measured.epochs);
  problem.reducer().max(measured.settling);
  result.settle_seconds = median(measured.settling);
  result.epoch_seconds = median(measured.epochs);
  result.best_epoch_seconds = *std::min_element(measured.epochs.begin(), measured.epochs.end());
  const double pairs = static_cast<double>(item.nodes()) * static_cast<double>(2 * item.steps - 1);
  result.node_steps_per_second = pairs / result.epoch_seconds;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    PassResult& pass = result.pass[p];
    pass.time = measured.samples[p].medians(problem.reducer(), pass.best_seconds);
    pass.exchange_bytes = sum_of(of_all(measured.sent[p], ranks, problem.reducer()));
    pass.work = step_work(problem, passes[p], measured.ops[p]);
    double floor = machine.floor_seconds(pass.work);
    if (pass.travelled.in > 0)
      floor = std::max({floor, pass.travelled.in / machine.copy_in(), pass.travelled.out / machine.copy_out(),
                        host_bytes(item, pass.travelled.out) / machine.host_bandwidth()});
    pass.floor_seconds = largest(of_all(floor, ranks, problem.reducer()));
    const bool fits = machine.cache_of(pass.work.working_set).bytes > 0;
    if (largest(of_all(fits ? 0 : 1, ranks, problem.reducer())) > 0) continue;
    ranks.barrier();  // all ranks measure the cache's bandwidth at once
    pass.cache_floor_seconds =
        largest(of_all(machine.cache_floor_seconds(pass.work), ranks, problem.reducer()));
  }
  return result;
}

double peak_resident_bytes_since() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

void forget_peak() {
#if defined(__GLIBC__)
  malloc_trim(0);  // return memory that earlier measurements have freed
#endif
  // Linux: 5 resets the high-water mark. If the write fails, the mark is that of the whole run.
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace rossby::bench
