#include "rossby/kernels/dense_choice.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr double trial_flops = 4e8;                  // one forward and backward: 2 to 5 ms
constexpr double least_flops = 2e8;                  // all rows: below this, own without a trial
constexpr Index least_rows = 128, most_rows = 1024;  // of a trial
constexpr int repeats = 3;

template <class T>
class Trial {
 public:
  Trial(Index rows, Index columns, Index width, bool bf16)
      : rows_(rows),
        columns_(columns),
        width_(width),
        weight_(bf16 ? 0 : rows * columns),
        second_(bf16 ? 0 : rows * columns),
        bf16_weight_(bf16 ? rows * columns : 0),
        bf16_second_(bf16 ? rows * columns : 0),
        one_(1),
        z_(columns * width),
        dz_(columns * width),
        h_(rows * width),
        delta_(rows * width),
        context_(rows * width),
        workspace_(relate_dense_workspace(Exec{}, relate(), width, 1)) {
    std::fill(weight_.begin(), weight_.end(), T(0.5));
    std::fill(second_.begin(), second_.end(), T(1e-4));
    std::fill(bf16_weight_.begin(), bf16_weight_.end(), round_nearest(0.5F));
    std::fill(bf16_second_.begin(), bf16_second_.end(), round_nearest(1e-4F));
    one_[0] = T(1);
    for (Index i = 0; i < z_.size(); ++i) z_[i] = static_cast<T>(std::sin(static_cast<double>(i)));
    for (Index i = 0; i < delta_.size(); ++i) delta_[i] = static_cast<T>(std::cos(static_cast<double>(i)));
  }

  double seconds(const Exec& exec, DenseProduct product) {
    return least_seconds(repeats, [&] { run(exec, product); });
  }

 private:
  [[nodiscard]] DenseRelate<T> relate() {
    DenseRelate<T> relate{rows_,          columns_, 1, weight_.data(), nullptr, true, {one_.data(), 1, 1},
                          context_.data()};
    relate.bf16 = bf16_weight_.data();
    return relate;
  }

  void run(const Exec& exec, DenseProduct product) {
    DenseRelate<T> relation = relate();
    relation.product = product;
    const NodeView<const T> z(z_.data(), columns_, width_, 1), delta(delta_.data(), rows_, width_, 1);
    relate_dense_forward<T>(exec, {h_.data(), rows_, width_, 1}, relation, z, workspace_.span());
    DenseUpdate<T> update;
    update.theta = weight_.data();
    update.v = second_.data();
    update.bf16 = {bf16_weight_.data(), nullptr, bf16_second_.data(), {}};
    update.step.lr = 1e-6;
    relate_dense_backward<T>(exec, {dz_.data(), columns_, width_, 1}, {}, &update, relation, delta, z,
                             workspace_.span());
  }

  Index rows_, columns_, width_;
  Buffer<T> weight_, second_;
  Buffer<Bf16> bf16_weight_, bf16_second_;
  Buffer<T> one_, z_, dz_, h_, delta_, context_, workspace_;
};

}  // namespace

template <class T>
DenseChoice choose_dense_product(const Exec& exec, Index rows, Index columns, Index width, bool bf16,
                                 bool learned) {
  DenseChoice choice;
  const double flops_a_row = 6.0 * static_cast<double>(columns * width);
  if (static_cast<double>(rows) * flops_a_row < least_flops) return choice;
  const auto enough = static_cast<Index>(std::ceil(trial_flops / flops_a_row));
  // Limits the memory of both trial arrays: the trial must not set a rank's peak.
  const Index fitting = std::clamp(rows / (learned ? 2 : 32), least_rows, most_rows);
  Trial<T> trial(std::min({rows, fitting, std::max(enough, least_rows)}), columns, width, bf16);
  choice.seconds = {trial.seconds(exec, DenseProduct::own), trial.seconds(exec, DenseProduct::blas)};
  choose(choice);
  return choice;
}

ROSSBY_FOR_SCALARS(choose_dense_product)

}  // namespace rossby
