#include "rossby/plan/asynchronous.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Time of an update if none is under way.
constexpr double nothing = std::numeric_limits<double>::infinity();

/// Draws random numbers from one stream.
class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view stream) : random_(seed, stream) {}
  double uniform() { return random_.uniform(next_++); }
  double of(const std::vector<double>& values) {
    const auto at = static_cast<std::size_t>(uniform() * static_cast<double>(values.size()));
    return values[std::min(at, values.size() - 1)];
  }
  /// Draws the value whose interval contains a random moment: the probability is proportional to its length.
  double around_a_moment(const std::vector<double>& values, double most) {
    for (double value = of(values);; value = of(values))
      if (uniform() * most <= value) return value;
  }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

void check(const AsyncQuestion& question) {
  const auto bad = [](const std::vector<double>& seconds) {
    return seconds.empty() ||
           std::any_of(seconds.begin(), seconds.end(), [](double s) { return !(s > 0) || std::isinf(s); });
  };
  bool none = question.workers.empty() || bad(question.update_seconds);
  for (const AsyncWorkers& workers : question.workers)
    none = none || workers.count < 1 || workers.sub_batches < 0 || bad(workers.seconds);
  if (none)
    user_error(
        "asynchronous training cannot be predicted: a time of a sub-batch or of an update is not a positive "
        "number. Measure the machine again with 'rossby calibrate --replace'");
}

void add(Shares& shares, Index value, double share = 1) {
  if (std::ssize(shares) <= value) shares.resize(static_cast<std::size_t>(value + 1), 0.0);
  shares[static_cast<std::size_t>(value)] += share;
}

void normalise(Shares& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum > 0)
    for (double& share : shares) share /= sum;
}

void normalise(AsyncStatistics& all) {
  normalise(all.mini_batch);
  normalise(all.staleness);
}

/// Returns the distribution of the sum of two independent numbers, without negligible shares.
Shares convolve(const Shares& a, const Shares& b) {
  constexpr double negligible = 1e-12;
  Shares sum(a.size() + b.size() - 1, 0.0);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] > negligible)
      for (std::size_t k = 0; k < b.size(); ++k) sum[i + k] += a[i] * b[k];
  while (sum.size() > 1 && sum.back() < negligible) sum.pop_back();
  return sum;
}

Shares sum_of(Shares one, Index times) {
  Shares sum{1.0};
  for (; times > 0; times /= 2) {
    if (times % 2 == 1) sum = convolve(sum, one);
    if (times > 1) one = convolve(one, one);
  }
  return sum;
}

/// Distribution of the sub-batches that a worker finishes in `span` seconds from a random moment.
Shares finished_in(double span, const std::vector<double>& seconds, Draws& draws) {
  constexpr int most = 8'000;
  const double longest = largest(seconds);
  Shares shares;
  if (seconds.size() == 1) {
    const double q = span / seconds.front(), whole = std::floor(q);
    add(shares, static_cast<Index>(whole), 1 - (q - whole));
    add(shares, static_cast<Index>(whole) + 1, q - whole);
    return shares;
  }
  for (int k = 0; k < most; ++k) {
    double at = draws.uniform() * draws.around_a_moment(seconds, longest);
    Index count = 0;
    for (; at <= span; at += draws.of(seconds)) ++count;
    add(shares, count);
  }
  normalise(shares);
  return shares;
}

/// Returns when all ranks have joined the update of a gradient that arrives at `now`; no gradient since
/// `idle`.
double joined(const AsyncQuestion& question, double idle, double now) {
  double at = idle, rest = question.shortest_rest;
  if (rest <= 0) return now;
  while (true) {
    at += rest;
    if (now <= at) return at;
    at += question.empty_seconds;
    rest = std::min(2 * rest, question.longest_rest);
    if (now <= at) return at + rest;  // the round under way began without this gradient
  }
}

/// Returns some values that represent all, with equal weights.
std::vector<double> quantiles(std::vector<double> values) {
  constexpr std::size_t most = 64;
  if (values.size() <= most) return values;
  std::sort(values.begin(), values.end());
  std::vector<double> some;
  for (std::size_t k = 0; k < most; ++k) some.push_back(values[(2 * k + 1) * values.size() / (2 * most)]);
  return some;
}

/// Seconds by which the last of equal workers ends later than the average, for the class that ends last. The
/// largest of N normal numbers is sqrt(2 ln N) − (ln ln N + ln 4π) / sqrt(8 ln N) deviations above their mean
/// for large N.
double behind_its_mean(const AsyncQuestion& question) {
  double last = 0, behind = 0;
  for (const AsyncWorkers& workers : question.workers) {
    const auto n = static_cast<double>(workers.sub_batches), m = mean(workers.seconds);
    if (n * m <= last) continue;
    last = n * m;
    double squares = 0;
    for (const double s : workers.seconds) squares += (s - m) * (s - m);
    const double deviation = std::sqrt(n * squares / static_cast<double>(workers.seconds.size()));
    const double ln = std::log(static_cast<double>(std::max<Index>(workers.count, 2)));
    constexpr double ln_four_pi = 2.5310242;
    const double largest = std::sqrt(2 * ln) - (std::log(ln) + ln_four_pi) / std::sqrt(8 * ln);
    behind = workers.count > 1 ? largest * deviation : 0;
  }
  return behind;
}

/// The two loops while a fixed set of workers is active.
class Stretch {
 public:
  Stretch(const AsyncQuestion& question, const std::vector<std::size_t>& active, Draws& draws)
      : question_(question), active_(active), draws_(draws) {
    for (const std::size_t c : active)
      rate_ += static_cast<double>(workers(c).count) / mean(workers(c).seconds);
    const Shares others = join();
    const std::vector<double> updates = quantiles(question.update_seconds);
    for (const double u : updates) {
      Shares all{1.0};
      for (const std::size_t c : active)
        all = convolve(all, sum_of(finished_in(u, workers(c).seconds, draws), workers(c).count));
      empty_ += all[0] / static_cast<double>(updates.size());
      if (all.size() == 1) all.push_back(0.0);
      const double none = std::exchange(all[0], 0.0);  // the loop waits for a gradient
      for (std::size_t k = 0; k < others.size(); ++k) add(all, static_cast<Index>(k + 1), none * others[k]);
      for (std::size_t k = 0; k < all.size(); ++k) add(mini_batch_, static_cast<Index>(k), all[k]);
    }
    normalise(mini_batch_);
  }

  [[nodiscard]] const Shares& mini_batch() const { return mini_batch_; }
  [[nodiscard]] double updates_a_second() const {
    return 1 / (mean(question_.update_seconds) + empty_ * (1 / rate_ + join_seconds_));
  }
  /// Staleness of the sub-batches of a worker of class c.
  [[nodiscard]] Shares staleness(std::size_t c) {
    constexpr double seldom = 0.01;
    const int draws = empty_ < seldom ? 20'000 : 5'000;
    Shares shares;
    for (int k = 0; k < draws; ++k) add(shares, empty_ < seldom ? published_in_turn(c) : published_among(c));
    normalise(shares);
    return shares;
  }

 private:
  /// Updates published while one sub-batch is computed, plus the one under way at its end. Updates follow
  /// each other without a pause.
  [[nodiscard]] Index published_in_turn(std::size_t c) {
    const std::vector<double>& updates = question_.update_seconds;
    const double span = draws_.of(workers(c).seconds);
    Index count = 1;
    double published = draws_.uniform() * draws_.around_a_moment(updates, largest(updates));
    for (; published <= span; published += draws_.of(updates)) ++count;
    return count;
  }

  /// As published_in_turn, if the loop sometimes waits for gradients. Other gradients arrive at independent
  /// moments; the last one of this worker arrived at 0.
  [[nodiscard]] Index published_among(std::size_t c) {
    const std::vector<double>& updates = question_.update_seconds;
    const double span = draws_.of(workers(c).seconds), before = -3 * largest(updates);
    std::vector<double> moments{0};
    for (const std::size_t other : active_) {
      const std::vector<double>& seconds = workers(other).seconds;
      const double longest = largest(seconds);
      for (Index k = other == c ? 1 : 0; k < workers(other).count; ++k)
        for (double at = before + draws_.uniform() * draws_.around_a_moment(seconds, longest); at < span;
             at += draws_.of(seconds))
          moments.push_back(at);
    }
    std::sort(moments.begin(), moments.end());
    double begin = 0, idle = before;  // start of the update under way; start of the pause before it
    double publication = nothing;     // of the update under way
    bool waiting = false;             // a gradient waits for the next update
    Index count = 0;
    const auto publish_until = [&](double now) {
      while (publication <= now) {
        if (publication > 0) ++count;
        begin = idle = publication;
        publication = waiting ? publication + draws_.of(updates) : nothing;
        waiting = false;
      }
    };
    for (const double now : moments) {
      publish_until(now);
      if (publication == nothing) {
        begin = joined(question_, idle, now);
        publication = begin + draws_.of(updates);
      } else if (now > begin) {
        waiting = true;
      }
    }
    publish_until(span);
    return count + (publication < nothing && begin < span ? 1 : 0);
  }

  /// Distribution of the gradients that arrive at random moments while ranks join an update, beside the
  /// gradient that starts it.
  [[nodiscard]] Shares join() {
    if (question_.shortest_rest <= 0) return {1.0};
    constexpr int draws = 4'000;
    double all = 0;
    for (const std::size_t c : active_) all += static_cast<double>(workers(c).count);
    const double others = rate_ * (1 - 1 / all);  // this worker has just begun
    Shares shares;
    for (int k = 0; k < draws; ++k) {
      const double now = -std::log(1 - draws_.uniform()) / rate_, begin = joined(question_, 0, now);
      join_seconds_ += (begin - now) / draws;
      Index count = 0;
      for (double at = now; (at -= std::log(1 - draws_.uniform()) / others) <= begin;) ++count;
      add(shares, count);
    }
    normalise(shares);
    return shares;
  }

  [[nodiscard]] const AsyncWorkers& workers(std::size_t c) const { return question_.workers[c]; }

  const AsyncQuestion& question_;
  const std::vector<std::size_t>& active_;
  Draws& draws_;
  double rate_ = 0;   // sub-batches per second
  double empty_ = 0;  // share of updates that leave no gradient behind
  double join_seconds_ = 0;
  Shares mini_batch_;
};

}  // namespace

double mean_of(const Shares& shares) {
  double sum = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) sum += static_cast<double>(k) * shares[k];
  return sum;
}

double total_variation(const Shares& a, const Shares& b) {
  double sum = 0;
  for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k)
    sum += std::abs((k < a.size() ? a[k] : 0) - (k < b.size() ? b[k] : 0));
  return sum / 2;
}

AsyncStatistics asynchronous_law(const AsyncQuestion& question) {
  check(question);
  Draws draws(question.seed, "asynchronous law");
  const auto end_of = [&](std::size_t c) {
    return mean(question.workers[c].seconds) * static_cast<double>(question.workers[c].sub_batches);
  };
  std::vector<double> ends{0};
  for (std::size_t c = 0; c < question.workers.size(); ++c) ends.push_back(end_of(c));
  if (question.repeats) {
    double batches = 0, rate = 0;
    for (const AsyncWorkers& workers : question.workers) {
      batches += static_cast<double>(workers.count * workers.sub_batches);
      rate += static_cast<double>(workers.count) / mean(workers.seconds);
    }
    ends = {0, batches / rate};
  }
  std::sort(ends.begin(), ends.end());
  AsyncStatistics all;
  for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
    const double length = ends[k + 1] - ends[k];
    if (length <= 0) continue;
    std::vector<std::size_t> active;
    for (std::size_t c = 0; c < question.workers.size(); ++c)
      if (question.repeats || end_of(c) > ends[k]) active.push_back(c);
    Stretch stretch(question, active, draws);
    const double updates = length * stretch.updates_a_second();
    all.updates += updates;
    for (std::size_t i = 0; i < stretch.mini_batch().size(); ++i)
      add(all.mini_batch, static_cast<Index>(i), updates * stretch.mini_batch()[i]);
    for (const std::size_t c : active) {
      const Shares staleness = stretch.staleness(c);
      const double batches =
          length / mean(question.workers[c].seconds) * static_cast<double>(question.workers[c].count);
      for (std::size_t i = 0; i < staleness.size(); ++i)
        add(all.staleness, static_cast<Index>(i), batches * staleness[i]);
    }
  }
  normalise(all);
  all.epoch_seconds = ends.back() + (ends.back() > 0 ? mean(question.update_seconds) : 0);
  if (!question.repeats) all.epoch_seconds += behind_its_mean(question);
  return all;
}

namespace {

/// A worker at the end of a sub-batch; the earliest comes first.
struct EndOfBatch {
  double time;
  std::size_t worker;
  bool operator>(const EndOfBatch& other) const {
    return std::tie(time, worker) > std::tie(other.time, other.worker);
  }
};

}  // namespace

AsyncStatistics simulate_asynchronous(const AsyncQuestion& question, bool begin_together) {
  check(question);
  Draws draws(question.seed, "asynchronous simulation");
  std::priority_queue<EndOfBatch, std::vector<EndOfBatch>, std::greater<>> ends;
  std::vector<const AsyncWorkers*> of;
  std::vector<Index> left, read;
  for (const AsyncWorkers& workers : question.workers)
    for (Index k = 0; k < workers.count; ++k) {
      if (workers.sub_batches == 0) continue;
      const double first =
          begin_together ? draws.of(workers.seconds)
                         : draws.uniform() * draws.around_a_moment(workers.seconds, largest(workers.seconds));
      ends.push({first, of.size()});
      of.push_back(&workers);
      left.push_back(workers.sub_batches);
      read.push_back(0);
    }
  AsyncStatistics all;
  Index version = 0, left_of_all = std::accumulate(left.begin(), left.end(), Index{0});
  double begins = nothing, published = nothing;  // start of the next update; end of this one
  double idle = 0;                               // start of the pause between updates
  std::vector<Index> waiting;                    // weight versions of gradients that wait for an update
  const auto begin_update = [&](double now) {
    add(all.mini_batch, std::ssize(waiting));
    for (const Index of_version : waiting) add(all.staleness, version - of_version);
    waiting.clear();
    published = now + draws.of(question.update_seconds);
  };
  while (!ends.empty() || begins < nothing || published < nothing) {
    const double next = ends.empty() ? nothing : ends.top().time;
    if (begins <= next && begins < nothing) {
      begin_update(std::exchange(begins, nothing));
      continue;
    }
    if (published <= next) {
      idle = all.epoch_seconds = std::exchange(published, nothing);
      ++version;
      if (!waiting.empty()) begin_update(idle);
      continue;
    }
    const auto [now, w] = ends.top();
    ends.pop();
    waiting.push_back(read[w]);
    if (published == nothing && begins == nothing) begins = joined(question, idle, now);
    read[w] = version;
    --left[w];
    if (question.repeats ? --left_of_all > 0 : left[w] > 0) ends.push({now + draws.of(of[w]->seconds), w});
  }
  all.updates = static_cast<double>(version);
  normalise(all);
  return all;
}

AsyncStatistics simulate_epochs(AsyncQuestion question, Index epochs) {
  AsyncStatistics all;
  const auto count = static_cast<double>(epochs);
  for (Index k = 0; k < epochs; ++k, ++question.seed) {
    const AsyncStatistics one = simulate_asynchronous(question);
    all.epoch_seconds += one.epoch_seconds / count;
    all.updates += one.updates / count;
    for (Index i = 0; i < std::ssize(one.mini_batch); ++i)
      add(all.mini_batch, i, one.updates * one.mini_batch[static_cast<std::size_t>(i)]);
    for (Index i = 0; i < std::ssize(one.staleness); ++i)
      add(all.staleness, i, one.staleness[static_cast<std::size_t>(i)]);
  }
  normalise(all);
  return all;
}

}  // namespace rossby
