#include "rossby/model/stnn/forecaster.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"

namespace rossby {
namespace {

/// Returns Dᵀ (D Dᵀ + λ I)⁻¹ (d, listed) for the listed rows of D (m, d). Uses Cholesky; if λ = 0 and D Dᵀ is
/// singular, a relative ridge of 1e-9 replaces λ.
std::vector<double> gain(const std::vector<double>& decoder, Index d, const std::vector<Index>& listed,
                         double lambda) {
  const auto m = static_cast<Index>(listed.size());
  const auto row = [&](Index a) { return decoder.data() + listed[static_cast<std::size_t>(a)] * d; };
  std::vector<double> l(static_cast<std::size_t>(m * m), 0.0);
  double trace = 0;
  for (Index a = 0; a < m; ++a)
    for (Index b = 0; b < m; ++b) {
      double sum = 0;
      for (Index f = 0; f < d; ++f) sum += row(a)[f] * row(b)[f];
      l[static_cast<std::size_t>(a * m + b)] = sum;
      if (a == b) trace += sum;
    }
  const double ridge = lambda > 0 ? lambda : 1e-9 * trace / static_cast<double>(m);
  for (Index a = 0; a < m; ++a) l[static_cast<std::size_t>(a * m + a)] += ridge;
  for (Index j = 0; j < m; ++j)  // in place, lower triangle
    for (Index i = j; i < m; ++i) {
      double sum = l[static_cast<std::size_t>(i * m + j)];
      for (Index k = 0; k < j; ++k)
        sum -= l[static_cast<std::size_t>(i * m + k)] * l[static_cast<std::size_t>(j * m + k)];
      l[static_cast<std::size_t>(i * m + j)] =
          i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / l[static_cast<std::size_t>(j * m + j)];
    }
  std::vector<double> result(static_cast<std::size_t>(d * m));
  for (Index f = 0; f < d; ++f) {
    double* x = result.data() + f * m;
    for (Index a = 0; a < m; ++a) {
      x[a] = row(a)[f];
      for (Index k = 0; k < a; ++k) x[a] -= l[static_cast<std::size_t>(a * m + k)] * x[k];
      x[a] /= l[static_cast<std::size_t>(a * m + a)];
    }
    for (Index a = m - 1; a >= 0; --a) {
      for (Index k = a + 1; k < m; ++k) x[a] -= l[static_cast<std::size_t>(k * m + a)] * x[k];
      x[a] /= l[static_cast<std::size_t>(a * m + a)];
    }
  }
  return result;
}

/// Returns the number of origins whose latents fill a cache line of a row of columns. They are written
/// together.
template <class T>
Index lined_up(Index d, Index columns) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  return std::clamp<Index>(line / d, 1, std::max<Index>(columns, 1));
}

/// Cost of copying the latents of one step to a column, or columns to columns.
template <class T>
Cost moving_cost(Index values) {
  return {0, 2 * static_cast<double>(values) * static_cast<double>(sizeof(T))};
}

/// Returns the step from which the latents of `step` are filtered: a learned one, or `at`, the present one;
/// −1 if there is none.
template <class T>
Index start_of(Index step, Index at, const Stnn<T>& model, const std::vector<bool>& learned) {
  const auto is_learned = [&](Index t) {
    return model.options().held.contains(t) && learned[static_cast<std::size_t>(t)];
  };
  while (step >= 0 && !is_learned(step) && step != at) --step;
  return step;
}

}  // namespace

template <class T>
Forecaster<T>::Forecaster(Tape<T>& tape, Stnn<T>& model, const Series& series, std::vector<bool> learned,
                          double filter_lambda, Index together)
    : tape_(&tape),
      model_(&model),
      series_(&series),
      learned_(std::move(learned)),
      lambda_(filter_lambda),
      together_(together),
      z_(Buffer<T>(series.rows * model.options().latent)) {}

template <class T>
void Forecaster<T>::begin() {
  at_ = -2;
  const Index m = model_->options().features, d = model_->options().latent;
  const Parameter<T>* decoder = model_->decoder();
  if (device() && decoder) {
    model_->decoder()->fetch();
    device()->wait();
  }
  decoder_.resize(static_cast<std::size_t>(m * d));
  for (Index q = 0; q < m * d; ++q)
    decoder_[static_cast<std::size_t>(q)] =
        decoder ? static_cast<double>(decoder->value[q]) : (q / d == q % d ? 1.0 : 0.0);
  std::vector<Index> every(static_cast<std::size_t>(m));
  std::iota(every.begin(), every.end(), Index{0});
  gain_ = gain(decoder_, d, every, lambda_);
}

template <class T>
void Forecaster<T>::correct(Index step, T* latents) const {
  const Index rows = series_->rows, m = model_->options().features, d = model_->options().latent;
  constexpr Index parallel_values = Index{1} << 15;
  [[maybe_unused]] const int threads = rows * m * d > parallel_values ? tape_->exec().threads : 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<Index> seen;                                    // observed features
    std::vector<double> residual(static_cast<std::size_t>(m));  // observation − prediction of these features
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      T* const z = latents + row * d;
      seen.clear();
      Index count = 0;
      for (Index f = 0; f < m; ++f) {
        const float x = series_->at(step, row, f);
        if (std::isnan(x)) continue;
        double predicted = 0;
        for (Index q = 0; q < d; ++q)
          predicted += decoder_[static_cast<std::size_t>(f * d + q)] * static_cast<double>(z[q]);
        seen.push_back(f);
        residual[static_cast<std::size_t>(count++)] = static_cast<double>(x) - predicted;
      }
      if (count == 0) continue;
      const std::vector<double> partial =
          count == m ? std::vector<double>() : gain(decoder_, d, seen, lambda_);
      const double* k = count == m ? gain_.data() : partial.data();
      for (Index q = 0; q < d; ++q, k += count) {
        double change = 0;
        for (Index a = 0; a < count; ++a) change += k[a] * residual[static_cast<std::size_t>(a)];
        z[q] += static_cast<T>(change);
      }
    }
  }
}

/// Copies values from a device, or from the host (null), to the host.
template <class T>
void Forecaster<T>::bring_home(std::span<T> home, const T* values, Device* from) const {
  if (!from) {
    std::copy_n(values, home.size(), home.data());
    return;
  }
  from->download(home, values);
  from->wait();
}

template <class T>
void Forecaster<T>::filter_step(Index step) {
  const Index d = model_->options().latent;
  Buffer<T>& home = z_.host();
  if (at_ < 0) {
    std::fill(home.begin(), home.end(), T(0));
  } else {
    tape_->reset();
    if (device()) z_.send(*device());
    const Var<T> z = Tape<T>::constant({z_.data(device()), series_->rows, 1, d});
    bring_home(home.span(), model_->advance(*tape_, z).value.data, device());
  }
  correct(step, home.data());
  if (BlockTrace* trace = tape_->trace()) trace->note("filter", filter_cost(*model_, series_->rows));
  at_ = step;
}

template <class T>
void Forecaster<T>::latents_at(Index step) {
  const Index start = start_of(step, at_, *model_, learned_);
  if (start >= 0 && start != at_) {
    Device* with = model_->factors().device;  // may hold the latents; forecasts do not need them there
    bring_home(z_.host().span(), model_->latents(start, with), with);
    at_ = start;
  }
  if (start < 0) at_ = -1;
  while (at_ < step) filter_step(at_ + 1);
}

template <class T>
void Forecaster<T>::gather(std::span<const Index> origins) {
  const Index rows = series_->rows, d = model_->options().latent, count = std::ssize(origins);
  const Index together = lined_up<T>(d, count);
  if (together > 1 && lined_up_.size() < together * rows * d) lined_up_ = Buffer<T>(together * rows * d);
  for (Index b = 0; b < count; ++b) {
    latents_at(origins[static_cast<std::size_t>(b)]);
    const Index place = b % together;
    const Buffer<T>& z = z_.host();
    if (together > 1) std::copy_n(z.data(), z.size(), lined_up_.data() + place * z.size());
    if (place == together - 1 || b == count - 1) {
      std::array<Index, 16> places;
      std::iota(places.begin(), places.begin() + place + 1, Index{0});
      const NodeView<T> out(columns_.host().data() + (b - place) * d, rows, place + 1, d, count * d, d);
      embed_columns_forward<T>(on_host(tape_->exec()), out, together > 1 ? lined_up_.data() : z.data(),
                               together, std::span(places).first(static_cast<std::size_t>(place + 1)));
    }
    if (BlockTrace* trace = tape_->trace()) trace->note("gather", moving_cost<T>(rows * d));
  }
}

template <class T>
void Forecaster<T>::roll(Index first, Index count, Index horizons, const Visit& visit) {
  const Index d = model_->options().latent;
  if (device()) columns_.send(*device());
  const NodeView<T> z(columns_.data(device()), series_->rows, count, d);
  for (Index h = 1; h <= horizons; ++h) {
    tape_->reset();
    const Var<T> next = model_->advance(*tape_, Tape<T>::constant(z));
    NodeView<T> x = model_->decode(*tape_, next).value;
    if (h < horizons) {
      pack<T>(tape_->exec(), z, next.value);
      if (BlockTrace* trace = tape_->trace()) trace->note("next_columns", moving_cost<T>(z.size()));
    }
    if (device()) {
      if (home_.size() < x.size()) home_ = Buffer<T>::pinned(x.size(), *device());
      bring_home(home_.span().first(static_cast<std::size_t>(x.size())), x.data, device());
      x.data = home_.data();
    }
    visit(first, h, x);
  }
}

template <class T>
Index Forecaster<T>::filtered_steps(std::span<const Index> origins, const Stnn<T>& model,
                                    const std::vector<bool>& learned) {
  Index steps = 0, at = -2;
  for (const Index origin : origins) {
    steps += origin - start_of(origin, at, model, learned);
    at = origin;
  }
  return steps;
}

/// Cost of one step: compares each feature with its prediction and corrects the latents in double.
template <class T>
Cost Forecaster<T>::filter_cost(const Stnn<T>& model, Index rows) {
  const Index m = model.options().features, d = model.options().latent;
  return {static_cast<double>(4 * rows * m * d),
          static_cast<double>(rows) * static_cast<double>(static_cast<std::size_t>(m) * sizeof(float) +
                                                          static_cast<std::size_t>(2 * d) * sizeof(T))};
}

template <class T>
void Forecaster<T>::trace(Tape<T>& tape, Stnn<T>& model, Index rows, const Traced& forecasts,
                          const Made& made) {
  const Unrecorded<T> unrecorded(tape);
  const Index d = model.options().latent, most = std::min(forecasts.origins, forecasts.together);
  Device& device = *tape.exec().device;
  const Index beside = device.driver().stands_for_host() ? lined_up<T>(d, most) : 1;
  const Buffer<T> latents(forecasts.filtered > 0 ? rows * d : 0, device);
  const Buffer<T> lined_up(beside > 1 ? rows * d * beside : 0, device);
  Buffer<T> columns(rows * most * d, device);
  const auto note = [&](std::string_view what, const Cost& cost, Index times) {
    if (BlockTrace* trace = tape.trace(); trace && times > 0) {
      trace->note(what, cost);
      made(times, {});
    }
  };
  note("gather", moving_cost<T>(rows * d), forecasts.origins);
  if (forecasts.filtered > 0) {
    tape.reset();
    (void)model.advance(tape, Tape<T>::constant({columns.data(), rows, 1, d}));
    if (BlockTrace* trace = tape.trace()) trace->note("filter", filter_cost(model, rows));
    made(forecasts.filtered, {});
  }
  const auto roll = [&](Index count, Index times) {
    if (count == 0 || times == 0) return;
    note("next_columns", moving_cost<T>(rows * count * d), times * (forecasts.horizons - 1));
    tape.reset();
    const Var<T> z = Tape<T>::constant({columns.data(), rows, count, d});
    made(times * forecasts.horizons, model.decode(tape, model.advance(tape, z)).value);
  };
  roll(most, forecasts.origins / std::max<Index>(most, 1));
  if (most > 0) roll(forecasts.origins % most, 1);
}

template <class T>
void Forecaster<T>::run(std::span<const Index> origins, Index horizons, const Visit& visit) {
  const Unrecorded<T> unrecorded(*tape_);
  const Index d = model_->options().latent;
  const auto total = static_cast<Index>(origins.size());
  require(std::is_sorted(origins.begin(), origins.end()), "forecast origins must ascend");
  begin();
  const Device::For purpose(device(), "the latents of forecasts");
  const Index most = std::min(together_, total);
  if (columns_.size() != series_->rows * most * d) columns_ = Twin<T>(Buffer<T>(series_->rows * most * d));
  for (Index first = 0; first < total; first += together_) {
    const Index count = std::min(together_, total - first);
    gather(origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    roll(first, count, horizons, visit);
  }
}

template class Forecaster<float>;
template class Forecaster<double>;

}  // namespace rossby
