#include <cmath>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "tests/lib/autograd/harness.hpp"

namespace rossby::test {
namespace {

const std::vector<Shape> shapes{{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {7, 1, 1}, {5, 3, 2}, {13, 2, 7}};
const Shape large{523, 7, 13};  // enough for several threads and blocks of rows

template <class T>
double run(const Graph<T>& graph, Bank<T>& bank, Exec exec) {
  Tape<T> tape(exec);
  bank.clear_gradients();
  const double loss = graph(tape);
  tape.backward();
  return loss;
}

TEST(Ops, GradientsAgreeWithFiniteDifferences) {
  for (const auto& test : all_cases<double>())
    for (const Shape& shape : shapes)
      for (const Backend backend : {Backend::reference, Backend::cpu}) {
        SCOPED_TRACE(fmt::format("{} ({}, {}, {})", test.name, shape.rows, shape.cols, shape.channels));
        Bank<double> bank;
        const auto graph = test.build(bank, shape);
        const Exec exec{backend, 1};
        run(graph, bank, exec);
        const auto parameters = bank.all();
        const GradientError error = check_gradients(parameters, [&] {
          Tape<double> tape(exec);
          tape.set_recording(false);
          return graph(tape);
        });
        EXPECT_LT(error.relative, 1e-8) << error.parameter << "[" << error.index << "]: " << error.analytic
                                        << " is not " << error.numeric;
      }
}

template <class T>
void compare_with_reference(double tolerance) {
  auto all = shapes;
  all.push_back(large);
  for (const auto& test : all_cases<T>())
    for (const Shape& shape : all) {
      SCOPED_TRACE(fmt::format("{} ({}, {}, {})", test.name, shape.rows, shape.cols, shape.channels));
      Bank<T> bank;
      const auto graph = test.build(bank, shape);
      const double expected_loss = run(graph, bank, {Backend::reference, 1});
      const auto expected = bank.gradients();
      const double loss = run(graph, bank, {Backend::cpu, 1});
      const auto got = bank.gradients();
      EXPECT_NEAR(loss, expected_loss, tolerance * std::abs(expected_loss));
      double largest = 0;
      double error = 0;
      for (std::size_t k = 0; k < got.size(); ++k) {
        largest = std::max(largest, std::abs(double{expected[k]}));
        error = std::max(error, std::abs(double{got[k]} - double{expected[k]}));
      }
      EXPECT_LE(error, tolerance * largest);

      EXPECT_EQ(run(graph, bank, {Backend::cpu, 3}), loss);
      EXPECT_EQ(bank.gradients(), got) << "three threads give other bits than one";
    }
}

TEST(Ops, CpuEqualsReferenceAtAnyNumberOfThreadsFloat) {
  compare_with_reference<float>(3e-5);
}
TEST(Ops, CpuEqualsReferenceAtAnyNumberOfThreadsDouble) {
  compare_with_reference<double>(1e-13);
}

TEST(Ops, GradientsAddUp) {
  for (const auto& test : all_cases<double>()) {
    SCOPED_TRACE(test.name);
    Bank<double> bank;
    const auto graph = test.build(bank, {5, 3, 2});
    run(graph, bank, {});
    auto twice = bank.gradients();
    for (double& g : twice) g *= 2;
    Tape<double> tape(Exec{});
    graph(tape);
    tape.backward();
    const auto got = bank.gradients();
    for (std::size_t k = 0; k < got.size(); ++k)
      EXPECT_NEAR(got[k], twice[k], 1e-12 * std::abs(twice[k]) + 1e-15);
  }
}

TEST(Ops, NothingIsRecordedOrTouchedWithoutRecording) {
  for (const auto& test : all_cases<double>()) {
    SCOPED_TRACE(test.name);
    Bank<double> bank;
    const auto graph = test.build(bank, {5, 3, 2});
    const double recorded = run(graph, bank, {});
    bank.clear_gradients();
    for (auto* p : bank.all()) p->live = p->in_step = false;
    Tape<double> tape(Exec{});
    tape.set_recording(false);
    EXPECT_EQ(graph(tape), recorded);
    tape.backward();
    for (const double g : bank.gradients()) EXPECT_EQ(g, 0);
    for (const auto* p : bank.all()) EXPECT_FALSE(p->live) << p->name;
  }
}

TEST(Ops, FixedParametersAreSkippedAndOthersGetTheSameGradient) {
  for (const auto& test : all_cases<double>()) {
    Bank<double> bank;
    const auto graph = test.build(bank, {5, 3, 2});
    run(graph, bank, {});
    const std::size_t count = bank.all().size();
    std::vector<std::vector<double>> expected;
    for (const auto* p : bank.all()) expected.emplace_back(p->gradient.begin(), p->gradient.end());
    for (std::size_t fixed = 0; fixed < count; ++fixed) {
      SCOPED_TRACE(test.name + " with fixed " + bank.all()[fixed]->name);
      for (std::size_t p = 0; p < count; ++p) bank.all()[p]->trained = p != fixed;
      run(graph, bank, {});
      for (std::size_t p = 0; p < count; ++p) {
        const auto* parameter = bank.all()[p];
        const std::vector<double> got(parameter->gradient.begin(), parameter->gradient.end());
        EXPECT_EQ(got, p == fixed ? std::vector<double>(got.size()) : expected[p]) << parameter->name;
      }
    }
  }
}

TEST(Ops, ARankWithoutRowsStillGoesThroughBackward) {
  // Backward of an exchange is collective: a rank with an empty block of the table must take part.
  Parameter<double> table("factors", Placement::rows, {5, 0, 3});
  Tape<double> tape(Exec{});
  const std::vector<Index> times{1, 4};
  EXPECT_TRUE(embed_columns(tape, table, times).tracked());
  EXPECT_TRUE(embed_pairs(tape, table, {}, {}).tracked());
  EXPECT_TRUE(table.live);
  tape.backward();
  table.trained = false;
  EXPECT_FALSE(embed_columns(tape, table, times).tracked());
}

TEST(Ops, AStepOfAKnownShapeAllocatesNothing) {
  for (const auto& test : all_cases<float>()) {
    SCOPED_TRACE(test.name);
    Bank<float> bank;
    const auto graph = test.build(bank, {13, 2, 7});
    Tape<float> tape(Exec{});
    const auto step = [&] {
      graph(tape);
      tape.backward();
      tape.reset();
    };
    step();
    step();
    const Index before = detail::allocation_count();
    step();
    EXPECT_EQ(detail::allocation_count(), before);
  }
}

TEST(GradientCheck, FindsAWrongGradientAndItsPlace) {
  std::vector<double> x{0.3, -0.2, 0.9};
  const auto loss = [&] { return x[0] * x[0] + std::sin(x[1]) + x[0] * x[2]; };
  std::vector<double> gradient{2 * x[0] + x[2], std::cos(x[1]), x[0]};
  EXPECT_LT(check_gradient(x, gradient, loss).relative, 1e-10);
  gradient[1] *= 1.001;
  const GradientError error = check_gradient(x, gradient, loss);
  EXPECT_EQ(error.index, 1);
  EXPECT_NEAR(error.relative, 0.001 * std::cos(x[1]) / 1.5, 1e-6);
  gradient[1] = std::nan("");
  EXPECT_TRUE(std::isinf(check_gradient(x, gradient, loss).relative));
  EXPECT_EQ(x, (std::vector<double>{0.3, -0.2, 0.9})) << "entries must be put back exactly";
}

}  // namespace
}  // namespace rossby::test
