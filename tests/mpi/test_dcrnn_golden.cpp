#include <cmath>

#include <gtest/gtest.h>

#include "rossby/train/window_task.hpp"
#include "tests/mpi/dcrnn_golden.hpp"

// Every DCRNN file of reference numbers, in double and float, at the rank counts that CTest starts. Row
// blocks are contiguous or shuffled, with and without recomputed segments. The README of the reference
// numbers gives the tolerances and the order of checks.

namespace rossby::test {
namespace {

struct Tolerance {
  double prediction, loss, first_gradient, gradient, parameter;
};
template <class T>
constexpr Tolerance tolerance() {
  if constexpr (std::is_same_v<T, double>) return {1e-12, 1e-12, 1e-12, 1e-12, 1e-12};
  return {2e-6, 3e-6, 1e-5, 4e-5, 5e-6};
}

struct Setting {
  bool shuffled = false;
  Recompute recompute = Recompute::none;
};

double worst_of(double worst, Reducer& reducer) {
  reducer.max(std::span<double>(&worst, 1));
  return worst;
}

/// Largest |node data − whole[b, i, f]| over all ranks; whole is (windows, nodes, channels).
template <class T>
double difference(GoldenDcrnn<T>& dcrnn, NodeView<const T> values, const double* whole, Index window_stride) {
  double worst = 0;
  for (Index i = 0; i < values.rows; ++i)
    for (Index b = 0; b < values.cols; ++b)
      for (Index f = 0; f < values.channels; ++f) {
        const Index node = dcrnn.rows()[static_cast<std::size_t>(i)].value;
        const double expected = whole[b * window_stride + node * values.channels + f];
        const double error = std::abs(static_cast<double>(values.at(i, b)[f]) - expected);
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
  return worst_of(worst, dcrnn.reducer());
}

template <class T>
void check_supports(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  const auto support = golden.array("support");
  const Index n = golden.integer("nodes");
  const GlobalEdges& edges = dcrnn.supports();
  double worst = 0;
  std::vector<double> row(static_cast<std::size_t>(n));
  for (Index i = 0; i < edges.rows; ++i)
    for (int s = 0; s < edges.relations; ++s) {
      std::fill(row.begin(), row.end(), 0.0);
      for (Index e = edges.begin(i, s); e < edges.end(i, s); ++e)
        row[static_cast<std::size_t>(edges.column[static_cast<std::size_t>(e)].value)] =
            edges.value[static_cast<std::size_t>(e)];
      const Index node = dcrnn.rows()[static_cast<std::size_t>(i)].value;
      for (Index j = 0; j < n; ++j)
        worst = std::max(worst, std::abs(row[static_cast<std::size_t>(j)] -
                                         support[static_cast<std::size_t>((s * n + node) * n + j)]));
    }
  EXPECT_EQ(edges.relations, 2);
  EXPECT_LE(worst_of(worst, dcrnn.reducer()), 1e-15);
}

template <class T>
void check_diffusion(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  const auto signal = golden.array("diffusion_check/signal"), terms = golden.array("diffusion_check/terms");
  const Index n = golden.integer("nodes");
  const auto channels = static_cast<Index>(golden.shape("diffusion_check/signal")[1]);
  Tape<T> tape{Exec{}};
  const auto rows = static_cast<Index>(dcrnn.rows().size());
  const Var<T> x = tape.make(rows, 1, channels, false);
  for (Index i = 0; i < rows; ++i)
    for (Index f = 0; f < channels; ++f)
      x.value.row(i)[f] = static_cast<T>(
          signal[static_cast<std::size_t>(dcrnn.rows()[static_cast<std::size_t>(i)].value * channels + f)]);
  const NodeView<T> z = diffusion_terms<T>(tape, dcrnn.model().diffusion(), x.value);
  for (Index k = 0; k < dcrnn.model().diffusion().plan.terms; ++k) {
    NodeView<const T> term = z;
    term.data += k * channels;
    term.channels = channels;
    EXPECT_LE(difference(dcrnn, term, terms.data() + dcrnn.golden_term(k) * n * channels, 0),
              tolerance<T>().prediction)
        << "term " << k;
  }
}

template <class T>
Parameter<T>& parameter_of(GoldenDcrnn<T>& dcrnn, const std::string& name) {
  for (Parameter<T>* parameter : dcrnn.model().parameters())
    if (parameter->name == name) return *parameter;
  throw std::runtime_error("no parameter " + name);
}

template <class T>
void check_cell(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  const auto h = golden.array("cell_check/h"), next = golden.array("cell_check/h_next");
  const Index n = golden.integer("nodes"), units = golden.integer("units");
  const auto batch = dcrnn.windows(0);
  Tape<T> tape{Exec{}};
  tape.set_recording(false);
  const Var<T> state = tape.make(batch.rows(), batch.windows(), units, false);
  for (Index i = 0; i < batch.rows(); ++i)
    for (Index b = 0; b < batch.windows(); ++b)
      for (Index f = 0; f < units; ++f)
        state.value.at(i, b)[f] = static_cast<T>(h[static_cast<std::size_t>(
            (b * n + dcrnn.rows()[static_cast<std::size_t>(i)].value) * units + f)]);
  const Var<T> out = dcrnn.model().cell(tape, false, 0, {batch.input(tape, 0)}, state);
  EXPECT_LE(difference<T>(dcrnn, out.value, next.data(), n * units), tolerance<T>().prediction);

  // Checks each part of the cell: a wrong state alone does not show which part is wrong.
  const auto gates = golden.array("cell_check/gates_before_sigmoid");
  const auto candidate = golden.array("cell_check/candidate");
  const Diffusion<T>& diffusion = dcrnn.model().diffusion();
  const auto of = [&](const char* name) -> Parameter<T>& { return parameter_of(dcrnn, name); };
  const Var<T> a = diffusion_linear(tape, diffusion, batch.input(tape, 0), of("encoder0_input_weight"),
                                    &of("encoder0_bias"));
  diffusion_linear_accumulate(tape, slice_channels(a, 0, 2 * units), diffusion, state,
                              of("encoder0_gates_weight"));
  EXPECT_LE(difference<T>(dcrnn, slice_channels(a, 0, 2 * units).value, gates.data(), n * 2 * units),
            tolerance<T>().prediction)
      << "gates before the sigmoid";
  const Var<T> reset = gru_reset(tape, slice_channels(a, 0, units), state);
  const Var<T> a_c = slice_channels(a, 2 * units, units);
  diffusion_linear_accumulate(tape, a_c, diffusion, reset, of("encoder0_candidate_weight"));
  const Var<T> put_together = gru_output(tape, slice_channels(a, units, units), a_c, state);
  EXPECT_LE(difference<T>(dcrnn, a_c.value, candidate.data(), n * units), tolerance<T>().prediction)
      << "candidate";
  for (Index k = 0; k < out.value.size(); ++k)
    EXPECT_EQ(put_together.value.data[k], out.value.data[k]) << "these are the parts of the cell";
}

template <class T>
void check_evaluation(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  const auto states = golden.array("evaluation/encoder_state");
  const auto predictions = golden.array("evaluation/prediction");
  const Index n = golden.integer("nodes"), units = golden.integer("units");
  const auto batch = dcrnn.windows(0, false);
  Tape<T> tape{Exec{}};
  tape.set_recording(false);
  const auto encoded = dcrnn.model().encode(tape, batch);
  for (Index l = 0; l < golden.integer("layers"); ++l)
    EXPECT_LE(difference<T>(dcrnn, encoded.layer[static_cast<std::size_t>(l)].value,
                            states.data() + l * batch.windows() * n * units, n * units),
              tolerance<T>().prediction);
  tape.reset();
  Losses losses;
  std::vector<Var<T>> outputs;
  dcrnn.record(tape, batch, losses, outputs);
  for (Index h = 0; h < batch.outputs(); ++h)
    EXPECT_LE(difference<T>(dcrnn, outputs[static_cast<std::size_t>(h)].value, predictions.data() + h * n,
                            batch.outputs() * n),
              tolerance<T>().prediction);
  double loss = losses.total();
  dcrnn.reducer().sum(std::span<double>(&loss, 1));
  const double expected = golden.array("evaluation/loss")[0];
  EXPECT_LE(std::abs(loss - expected), tolerance<T>().loss * expected);
}

/// The loss alone. Targets that are 0 or NaN are missing; `loss_nan_counted` is another mean.
template <class T>
void check_masked_error(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  const auto prediction = golden.array("masked_mae_check/prediction");
  const auto target = golden.array("masked_mae_check/target");
  const auto gradient = golden.array("masked_mae_check/gradient");
  const Index n = golden.integer("nodes");
  const auto samples = static_cast<Index>(golden.shape("masked_mae_check/target")[0]);
  const auto missing = [](double value) { return std::isnan(value) || value == 0; };
  double observed = 0, zeros = 0, nans = 0;
  for (const double value : target) {
    observed += missing(value) ? 0 : 1;
    zeros += value == 0 ? 1 : 0;
    nans += std::isnan(value) ? 1 : 0;
  }
  EXPECT_GT(zeros, 0);
  EXPECT_GT(nans, 0);

  Tape<T> tape{Exec{}};
  const auto rows = static_cast<Index>(dcrnn.rows().size());
  const Var<T> x = tape.make(rows, samples, 1, true);
  const NodeView<float> truth(tape.arena().template take<float>(rows * samples).data(), rows, samples, 1);
  for (Index i = 0; i < rows; ++i)
    for (Index b = 0; b < samples; ++b) {
      const auto from = static_cast<std::size_t>(b * n + dcrnn.rows()[static_cast<std::size_t>(i)].value);
      *x.value.at(i, b) = static_cast<T>(prediction[from]);
      *truth.at(i, b) = missing(target[from]) ? NAN : static_cast<float>(target[from]);
      if (missing(target[from])) continue;
      EXPECT_EQ(static_cast<double>(*truth.at(i, b)), target[from]) << "float32 holds it";
    }
  const std::vector<T> scale(static_cast<std::size_t>(rows), static_cast<T>(golden.number("std")));
  const std::vector<T> shift(static_cast<std::size_t>(rows), static_cast<T>(golden.number("mean")));
  Losses losses;
  masked_absolute_error(tape, affine_rows(tape, x, scale.data(), shift.data()), truth, 1 / observed,
                        losses.add("mae", 1 / observed));
  tape.backward();
  double loss = losses.total();
  dcrnn.reducer().sum(std::span<double>(&loss, 1));
  const double expected = golden.array("masked_mae_check/loss")[0];
  EXPECT_LE(std::abs(loss - expected), tolerance<T>().loss * expected);
  double largest = 0;
  for (const double value : gradient) largest = std::max(largest, std::abs(value));
  EXPECT_LE(difference<T>(dcrnn, x.gradient, gradient.data(), n), tolerance<T>().first_gradient * largest);
}

/// Largest difference divided by the largest value, over all ranks.
template <class T, class Values>
double relative(const Values& values, const std::vector<double>& expected) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(values[static_cast<Index>(i)]) - expected[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / std::max(largest, 1e-300);
}

template <class T>
void check_parameters(GoldenDcrnn<T>& dcrnn, const std::string& group) {
  for (const Parameter<T>* parameter : dcrnn.model().parameters()) {
    const auto expected = dcrnn.expected(group, *parameter);
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst,
                       std::abs(static_cast<double>(parameter->value[static_cast<Index>(i)]) - expected[i]));
    EXPECT_LE(worst, tolerance<T>().parameter) << group << "/" << parameter->name;
  }
}

/// Adam's moments: sums of gradients and of their squares.
template <class T>
void check_moments(GoldenDcrnn<T>& dcrnn, const Optimiser<T>& optimiser, const std::string& group) {
  EXPECT_EQ(optimiser.states().size(), dcrnn.model().parameters().size());
  for (const auto& state : optimiser.states()) {
    EXPECT_LE(relative<T>(state.first.host(), dcrnn.expected(group + "/adam_m", *state.parameter)),
              tolerance<T>().gradient)
        << group << "/adam_m/" << state.parameter->name;
    EXPECT_LE(relative<T>(state.second.host(), dcrnn.expected(group + "/adam_v", *state.parameter)),
              tolerance<T>().gradient)
        << group << "/adam_v/" << state.parameter->name;
  }
}

/// The norm of the gradients that an update put into the first moments, m = beta1·before + (1 − beta1)·g.
template <class T>
double norm_taken_in(const Optimiser<T>& optimiser, const std::vector<double>& before, double beta1) {
  double squares = 0;
  std::size_t k = 0;
  for (const auto& state : optimiser.states())
    for (const T m : state.first.host().span()) {
      const double g = (static_cast<double>(m) - beta1 * before[k++]) / (1 - beta1);
      squares += g * g;
    }
  return std::sqrt(squares);
}

template <class T>
std::vector<double> first_moments(const Optimiser<T>& optimiser) {
  std::vector<double> all;
  for (const auto& state : optimiser.states())
    for (const T m : state.first.host().span()) all.push_back(static_cast<double>(m));
  return all;
}

/// The gradient of the loss of a step at the present parameters, summed over ranks.
template <class T>
void check_gradient(GoldenDcrnn<T>& dcrnn, Index step, const std::string& group, double allowed) {
  for (Parameter<T>* parameter : dcrnn.model().parameters())
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), T{0});
  Tape<T> tape{Exec{}};
  Losses losses;
  std::vector<Var<T>> outputs;
  dcrnn.record(tape, dcrnn.windows(step), losses, outputs);
  tape.backward();
  for (Parameter<T>* parameter : dcrnn.model().parameters()) {
    dcrnn.reducer().sum(parameter->gradient.span());
    EXPECT_LE(relative<T>(parameter->gradient, dcrnn.expected(group, *parameter)), allowed)
        << group << "/" << parameter->name;
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), T{0});
  }
}

template <class T>
void check_training(const Golden& golden, GoldenDcrnn<T>& dcrnn) {
  OptimiserOptions options;
  options.beta1 = golden.number("beta1");
  options.beta2 = golden.number("beta2");
  options.epsilon = golden.number("epsilon");
  Optimiser<T> optimiser(options, dcrnn.model().parameters());
  Step<T> step(dcrnn.model().parameters(), optimiser, dcrnn.reducer(), golden.number("max_gradient_norm"));
  const auto loss = golden.array("loss"), norm = golden.array("gradient_norm");
  const auto clip = golden.array("clip_coefficient"), predictions = golden.array("prediction");
  const Index n = golden.integer("nodes");
  Index clipped = 0;
  Tape<T> tape{Exec{}};
  Losses losses;
  std::vector<Var<T>> outputs;
  for (Index s = 0; s < static_cast<Index>(loss.size()); ++s) {
    for (const auto& [at, group, allowed] :
         {std::tuple{Index{0}, "gradient_step1", tolerance<T>().first_gradient},
          std::tuple{Index{2}, "gradient_step3", tolerance<T>().gradient},
          std::tuple{Index{9}, "gradient_step10", tolerance<T>().gradient}})
      if (at == s) check_gradient(dcrnn, s, group, allowed);
    const auto batch = dcrnn.windows(s);
    const auto moments = first_moments(optimiser);
    const auto result = step.run(tape, golden.number("learning_rate"), 0, losses,
                                 [&] { dcrnn.record(tape, batch, losses, outputs); });
    const auto k = static_cast<std::size_t>(s);
    EXPECT_LE(std::abs(result.loss - loss[k]), tolerance<T>().loss * loss[k]) << "step " << s;
    EXPECT_LE(std::abs(result.gradient_norm - norm[k]), tolerance<T>().first_gradient * norm[k])
        << "step " << s;
    if constexpr (std::is_same_v<T, double>) {  // float is too coarse for the difference of moments
      const double taken_in = norm_taken_in(optimiser, moments, options.beta1);
      EXPECT_LE(std::abs(taken_in / result.gradient_norm - clip[k]), tolerance<T>().first_gradient)
          << "clipping of step " << s;
    }
    clipped += clip[k] < 1;
    for (Index h = 0; h < batch.outputs(); ++h)
      EXPECT_LE(difference<T>(dcrnn, outputs[static_cast<std::size_t>(h)].value,
                              predictions.data() + (s * batch.windows() * batch.outputs() + h) * n,
                              batch.outputs() * n),
                tolerance<T>().prediction);
    for (const Index done : {1, 5, 10})
      if (s + 1 == done) {
        check_parameters(dcrnn, "step" + std::to_string(done));
        check_moments(dcrnn, optimiser, "step" + std::to_string(done));
      }
  }
  EXPECT_EQ(clipped, 2);
}

class DcrnnGolden : public testing::TestWithParam<std::tuple<bool, Recompute, bool>> {
 protected:
  template <class T>
  void run() {
    const auto files = Golden::files("dcrnn_");
    if (files.empty()) GTEST_SKIP() << "no reference numbers: set ROSSBY_GOLDEN to their folder";
    const auto [shuffled, recompute, is_double] = GetParam();
    for (const auto& file : files) {
      SCOPED_TRACE(file);
      const Golden golden(file);
      GoldenDcrnn<T> dcrnn(golden, Communicator::world(), shuffled, recompute);
      check_supports(golden, dcrnn);
      check_diffusion(golden, dcrnn);
      check_cell(golden, dcrnn);
      check_evaluation(golden, dcrnn);
      check_masked_error(golden, dcrnn);
      check_training(golden, dcrnn);
      Index count = 0;
      for (const Parameter<T>* parameter : dcrnn.model().parameters()) count += parameter->size();
      EXPECT_EQ(count, golden.integer("parameter_count"));
    }
  }
};

TEST_P(DcrnnGolden, AgreesWithTheReferenceNumbers) {
  if (std::get<2>(GetParam()))
    run<double>();
  else
    run<float>();
}

INSTANTIATE_TEST_SUITE_P(Settings, DcrnnGolden,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Recompute::none, Recompute::cell, Recompute::step),
                                          testing::Bool()));

TEST(ScheduledSampling, FeedsTruthWithTheReferenceProbability) {
  const auto files = Golden::files("dcrnn_");
  if (files.empty()) GTEST_SKIP() << "no reference numbers: set ROSSBY_GOLDEN to their folder";
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    const Golden golden(file);
    const auto seen = golden.array("sampling_check/batches_seen");
    const auto threshold = golden.array("sampling_check/threshold");
    ASSERT_EQ(seen.size(), threshold.size());
    ASSERT_GT(seen.size(), 0U);
    for (std::size_t k = 0; k < seen.size(); ++k)
      EXPECT_LE(std::abs(truth_probability(2000, static_cast<Index>(seen[k])) - threshold[k]),
                1e-12 * threshold[k])
          << "after " << seen[k] << " updates";
  }
}

TEST(Dcrnn, HasThePublishedNumberOfParametersAtMetrLaSize) {
  Diffusion<float> diffusion;
  diffusion.plan = DiffusionPlan(2, 2, DiffusionVariant::paper);
  const Dcrnn<float> model({}, std::move(diffusion));
  Index count = 0;
  for (const Parameter<float>* parameter : model.parameters()) count += parameter->size();
  EXPECT_EQ(count, 372353);
}

}  // namespace
}  // namespace rossby::test
