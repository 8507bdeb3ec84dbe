// h += (W z) Aᵀ with dense learned W (n, n), and its adjoint. Cases of one n share arrays.

#include <map>
#include <type_traits>

#include <fmt/core.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/kernels/relate.hpp"

namespace rossby::bench {
namespace {

/// W and its gradient, allocated at first use and kept as long as a case of this n exists; also in bf16 on
/// request.
struct Square {
  Array<float> weight, gradient;
  Array<Bf16> bf16_weight, bf16_second;
  Square(const Exec& exec, Index n)
      : weight(exec, random_values<float>(n * n, "weight", -0.1, 1.1)), gradient(exec, n * n) {}

  void make_bf16(const Exec& exec) {
    if (bf16_weight.size() == weight.size()) return;
    const std::span<const float> from = weight.values();
    Buffer<Bf16> rounded(weight.size());
    std::transform(from.begin(), from.end(), rounded.begin(), round_nearest);
    bf16_weight = {exec, std::move(rounded)};
    bf16_second = {exec, weight.size()};
  }
};

/// Returns one Square per n. The last one stays, so that consecutive cases share it.
class Squares {
 public:
  std::shared_ptr<Square> of(const Exec& exec, Index n) {
    if (n != n_) {
      last_.reset();  // first, because two may not fit into memory
      last_ = std::make_shared<Square>(exec, n);
      n_ = n;
    }
    return last_;
  }

 private:
  Index n_ = 0;
  std::shared_ptr<Square> last_;
};

/// Returns rows of W spread over all of it, for the check in double: a prime number of rows, or all.
std::vector<Index> spread(Index n) {
  std::vector<Index> list;
  const Index count = std::min<Index>(n, 61);
  for (Index i = 0; i < count; ++i) list.push_back(i * n / count);
  return list;
}

/// Operands of both directions.
class DenseCase : public KernelCase {
 public:
  DenseCase(const Exec& exec, Squares& squares, Index n, Index cols, Index d)
      : n_(n),
        cols_(cols),
        d_(d),
        square_(squares.of(exec, n)),
        z_(exec, random_values<float>(n * cols * d, "z")),
        a_(exec, random_values<float>(d * d, "a")) {
    workspace_ = {exec, relate_dense_workspace<float>(exec, relate(), cols, d)};
  }

 protected:
  [[nodiscard]] DenseRelate<float> relate() const {
    return {n_, n_, 1, square_->weight.data(), nullptr, true, {a_.data(), d_, d_}};
  }
  [[nodiscard]] NodeView<float> node(Array<float>& values) const { return {values.data(), n_, cols_, d_}; }
  [[nodiscard]] static Buffer<double> widened(Array<float>& array) {
    const std::span<const float> values = array.values();
    Buffer<double> wide(array.size());
    std::copy(values.begin(), values.end(), wide.begin());
    return wide;
  }
  /// Returns rows (nodes) `list` of node data, in double.
  [[nodiscard]] Buffer<double> rows_of(Array<float>& array, const std::vector<Index>& list) const {
    const std::span<const float> values = array.values();
    const Index width = cols_ * d_;
    Buffer<double> part(std::ssize(list) * width);
    for (std::size_t k = 0; k < list.size(); ++k)
      std::copy_n(values.data() + list[k] * width, width, part.data() + static_cast<Index>(k) * width);
    return part;
  }

  Index n_, cols_, d_;
  std::shared_ptr<Square> square_;
  Array<float> z_, a_, workspace_;
};

class DenseForward final : public DenseCase {
 public:
  DenseForward(const Exec& exec, Squares& squares, Index n, Index cols, Index d)
      : DenseCase(exec, squares, n, cols, d), h_(exec, n * cols * d) {}

  void run(const Exec& exec) override {
    relate_dense_forward<float>(exec, node(h_), relate(), node(z_), workspace_.span());
  }

  /// Rows are independent, so the reference kernel computes only some.
  double error(const Exec& exec) override {
    run(exec);
    const auto list = spread(n_);
    const auto count = std::ssize(list);
    Buffer<double> weight(count * n_), truth(count * cols_ * d_);
    for (Index k = 0; k < count; ++k)
      std::copy_n(square_->weight.host().data() + list[static_cast<std::size_t>(k)] * n_, n_,
                  weight.data() + k * n_);
    const Buffer<double> z = widened(z_), a = widened(a_);
    const DenseRelate<double> part{count, n_, 1, weight.data(), nullptr, true, {a.data(), d_, d_}};
    relate_dense_forward<double>({Backend::reference, 1}, {truth.data(), count, cols_, d_}, part,
                                 {z.data(), n_, cols_, d_}, {});
    const Buffer<double> values = rows_of(h_, list);
    return relative_error<double>(values.span(), truth.span());
  }

 private:
  Array<float> h_;
};

/// epsilon = 1: a gradient near zero moves M little, so that float and double are comparable.
template <class T>
DenseUpdate<T> make_update(double lr) {
  DenseUpdate<T> update;
  update.step.lr = lr;
  update.step.epsilon = 1;
  update.l1 = 1e-3;
  return update;
}

class DenseBackward : public DenseCase {
 public:
  DenseBackward(const Exec& exec, Squares& squares, Index n, Index cols, Index d)
      : DenseCase(exec, squares, n, cols, d),
        delta_(exec, random_values<float>(n * cols * d, "delta")),
        dz_(exec, n * cols * d),
        da_(exec, d * d),
        context_(exec, n * cols * d) {
    clear(square_->gradient);
  }

  void run(const Exec& exec) override { run(exec, square_->gradient.data()); }

  /// Columns are independent except for dA = Σ over rows of δᵀ(W z). The reference kernel computes some
  /// columns, and dA from W z of the forward kernel, which has its own check.
  double error(const Exec& exec) override {
    make_context(exec);
    run(exec);
    const auto list = spread(n_);
    const auto count = std::ssize(list);
    Buffer<double> weight(n_ * count), dz(count * cols_ * d_), dm(n_ * count), found(n_ * count);
    const std::span<const float> gradient = square_->gradient.values();
    for (Index i = 0; i < n_; ++i)
      for (Index k = 0; k < count; ++k) {
        const Index at = i * n_ + list[static_cast<std::size_t>(k)];
        weight[i * count + k] = square_->weight.host()[at];
        found[i * count + k] = gradient[static_cast<std::size_t>(at)];
      }
    const Buffer<double> z = rows_of(z_, list), delta = widened(delta_), a = widened(a_);
    const DenseRelate<double> part{n_, count, 1, weight.data(), nullptr, true, {a.data(), d_, d_}};
    relate_dense_backward<double>({Backend::reference, 1}, {dz.data(), count, cols_, d_}, {}, dm.data(), part,
                                  {delta.data(), n_, cols_, d_}, {z.data(), count, cols_, d_}, {});
    const Buffer<double> dz_found = rows_of(dz_, list);
    return worse(worse(relative_error<double>(dz_found.span(), dz.span()),
                       relative_error<double>(found.span(), dm.span())),
                 da_error(exec));
  }

 protected:
  /// Computes W z, from which backward computes dA.
  void make_context(const Exec& exec) {
    Array<float> h(exec, n_ * cols_ * d_);
    DenseRelate<float> kept = relate();
    kept.context = context_.data();
    relate_dense_forward<float>(exec, node(h), kept, node(z_), workspace_.span());
  }
  void run(const Exec& exec, DenseGradient<float> sink) {
    DenseRelate<float> kept = relate();
    kept.context = context_.data();
    relate_dense_backward<float>(exec, node(dz_), {da_.data(), d_, d_}, sink, kept, node(delta_), node(z_),
                                 workspace_.span());
  }
  template <class V>
  static void clear(Array<V>& array) {
    std::fill(array.host().begin(), array.host().end(), V{});
    array.send();
  }

  /// Returns the error of some columns of M and v after one update from v = 0, against the update in double.
  /// V is float or Bf16.
  template <class V, class Update>
  double update_error(const Exec& exec, Array<V>& weight, Array<V>& second, const Update& update_once) {
    make_context(exec);
    const auto list = spread(n_);
    const auto count = std::ssize(list);
    Buffer<double> theta(n_ * count), v(n_ * count), dz(count * cols_ * d_), theta_found(n_ * count),
        v_found(n_ * count);
    const auto gather = [&](Buffer<double>& to, Array<V>& array) {
      const std::span<const V> from = array.values();
      for (Index i = 0; i < n_; ++i)
        for (Index k = 0; k < count; ++k) {
          const V value = from[static_cast<std::size_t>(i * n_ + list[static_cast<std::size_t>(k)])];
          if constexpr (std::is_same_v<V, Bf16>)
            to[i * count + k] = widen(value);
          else
            to[i * count + k] = value;
        }
    };
    clear(second);
    gather(theta, weight);
    update_once();
    gather(theta_found, weight);
    gather(v_found, second);
    const Buffer<double> z = rows_of(z_, list), delta = widened(delta_), a = widened(a_);
    const DenseRelate<double> part{n_, count, 1, theta.data(), nullptr, true, {a.data(), d_, d_}};
    DenseUpdate<double> truth = make_update<double>(0.1);
    truth.theta = theta.data();
    truth.v = v.data();
    relate_dense_backward<double>({Backend::reference, 1}, {dz.data(), count, cols_, d_}, {}, &truth, part,
                                  {delta.data(), n_, cols_, d_}, {z.data(), count, cols_, d_}, {});
    const Buffer<double> dz_found = rows_of(dz_, list);
    return worse(relative_error<double>(dz_found.span(), dz.span()),
                 worse(relative_error<double>(theta_found.span(), theta.span()),
                       relative_error<double>(v_found.span(), v.span())));
  }

  Array<float> delta_, dz_, da_, context_;

 private:
  double da_error(const Exec& exec) {
    Array<float> product_of(exec, n_ * cols_ * d_), identity(exec, d_ * d_);
    for (Index f = 0; f < d_; ++f) identity.host()[f * d_ + f] = 1;
    identity.send();
    DenseRelate<float> product = relate();
    product.a = {identity.data(), d_, d_};
    relate_dense_forward<float>(exec, node(product_of), product, node(z_), workspace_.span());
    Buffer<double> truth(d_ * d_);
    const Buffer<double> delta = widened(delta_), context = widened(product_of);
    for (Index i = 0; i < n_ * cols_; ++i)
      for (Index o = 0; o < d_; ++o)
        for (Index f = 0; f < d_; ++f) truth[o * d_ + f] += delta[i * d_ + o] * context[i * d_ + f];
    return relative_error<float>(da_.values(), truth.span());
  }
};

/// Backward with Adam's update (beta1 = 0) inside; the gradient's array serves as second moment.
class DenseFused final : public DenseBackward {
 public:
  using DenseBackward::DenseBackward;

  void run(const Exec& exec) override {
    DenseUpdate<float> update = fused_update(1e-7);
    DenseBackward::run(exec, &update);
  }

  double error(const Exec& exec) override {
    return update_error(exec, square_->weight, square_->gradient, [&] {
      DenseUpdate<float> update = fused_update(0.1);
      DenseBackward::run(exec, &update);
    });
  }

 private:
  DenseUpdate<float> fused_update(double lr) {
    DenseUpdate<float> update = make_update<float>(lr);
    update.theta = square_->weight.data();
    update.v = square_->gradient.data();
    return update;
  }
};

/// Forward with W in bf16.
class DenseForwardBf16 final : public DenseCase {
 public:
  DenseForwardBf16(const Exec& exec, Squares& squares, Index n, Index cols, Index d)
      : DenseCase(exec, squares, n, cols, d), h_(exec, n * cols * d) {
    square_->make_bf16(exec);
  }

  void run(const Exec& exec) override {
    DenseRelate<float> relation = relate();
    relation.weight = nullptr;
    relation.bf16 = square_->bf16_weight.data();
    relate_dense_forward<float>(exec, node(h_), relation, node(z_), workspace_.span());
  }

  double error(const Exec& exec) override {
    run(exec);
    const auto list = spread(n_);
    const auto count = std::ssize(list);
    Buffer<double> weight(count * n_), truth(count * cols_ * d_);
    for (Index k = 0; k < count; ++k)
      std::transform(square_->bf16_weight.host().data() + list[static_cast<std::size_t>(k)] * n_,
                     square_->bf16_weight.host().data() + (list[static_cast<std::size_t>(k)] + 1) * n_,
                     weight.data() + k * n_, [](Bf16 value) { return widen(value); });
    const Buffer<double> z = widened(z_), a = widened(a_);
    const DenseRelate<double> part{count, n_, 1, weight.data(), nullptr, true, {a.data(), d_, d_}};
    relate_dense_forward<double>({Backend::reference, 1}, {truth.data(), count, cols_, d_}, part,
                                 {z.data(), n_, cols_, d_}, {});
    const Buffer<double> values = rows_of(h_, list);
    return relative_error<double>(values.span(), truth.span());
  }

 private:
  Array<float> h_;
};

/// Backward with Adam's update inside, W and v in bf16.
class DenseFusedBf16 final : public DenseBackward {
 public:
  DenseFusedBf16(const Exec& exec, Squares& squares, Index n, Index cols, Index d)
      : DenseBackward(exec, squares, n, cols, d) {
    square_->make_bf16(exec);
  }

  void run(const Exec& exec) override { run(exec, 1e-7); }

  double error(const Exec& exec) override {
    return update_error(exec, square_->bf16_weight, square_->bf16_second, [&] { run(exec, 0.1); });
  }

 private:
  void run(const Exec& exec, double lr) {
    DenseUpdate<float> update = make_update<float>(lr);
    update.bf16 = {square_->bf16_weight.data(), nullptr, square_->bf16_second.data(), {1, 0}};
    DenseRelate<float> kept = relate();
    kept.weight = nullptr;
    kept.bf16 = square_->bf16_weight.data();
    kept.context = context_.data();
    relate_dense_backward<float>(exec, node(dz_), {da_.data(), d_, d_}, &update, kept, node(delta_), node(z_),
                                 workspace_.span());
  }
};

}  // namespace

std::vector<NamedCase> dense_cases(const Sizes& sizes) {
  struct Width {
    Index cols, d;
  };
  std::vector<NamedCase> cases;
  const auto squares = std::make_shared<Squares>();
  for (const Index n : sizes.dense_nodes())
    for (const Width width : {Width{1, 1}, Width{8, 1}, Width{1, 8}, Width{8, 8}}) {
      const auto [cols, d] = width;
      const double entries = static_cast<double>(n) * static_cast<double>(n);
      const double node = static_cast<double>(n * cols * d);
      const double product = 2 * entries * static_cast<double>(cols * d),
                   layer = 2 * node * static_cast<double>(d);
      const std::string name = fmt::format("/n:{}/d:{}/cols:{}", n, d, cols);
      // Reads W and z once, reads and writes h.
      cases.push_back({"relate_dense_forward" + name,
                       {4 * entries + 12 * node, product + layer, 4 * entries + 8 * node},
                       [squares, n, cols = cols, d = d](const Exec& exec) -> std::unique_ptr<KernelCase> {
                         return std::make_unique<DenseForward>(exec, *squares, n, cols, d);
                       }});
      // Reads W, z and δ once, reads and writes the gradient of W and dz. Computes Wᵀδ, δzᵀ, dz and dA.
      cases.push_back({"relate_dense_backward" + name,
                       {12 * entries + 16 * node, 2 * product + 2 * layer, 8 * entries + 12 * node},
                       [squares, n, cols = cols, d = d](const Exec& exec) -> std::unique_ptr<KernelCase> {
                         return std::make_unique<DenseBackward>(exec, *squares, n, cols, d);
                       }});
      // Reads and writes M and v.
      cases.push_back({"relate_dense_fused" + name,
                       {16 * entries + 16 * node, 2 * product + 2 * layer, 8 * entries + 12 * node},
                       [squares, n, cols = cols, d = d](const Exec& exec) -> std::unique_ptr<KernelCase> {
                         return std::make_unique<DenseFused>(exec, *squares, n, cols, d);
                       }});
      constexpr double rounding = 0x1p-7;  // relative, of bf16
      cases.push_back({"relate_dense_forward_bf16" + name,
                       {2 * entries + 12 * node, product + layer, 2 * entries + 8 * node},
                       [squares, n, cols = cols, d = d](const Exec& exec) -> std::unique_ptr<KernelCase> {
                         return std::make_unique<DenseForwardBf16>(exec, *squares, n, cols, d);
                       }});
      cases.push_back({"relate_dense_fused_bf16" + name,
                       {8 * entries + 16 * node, 2 * product + 2 * layer, 4 * entries + 12 * node},
                       [squares, n, cols = cols, d = d](const Exec& exec) -> std::unique_ptr<KernelCase> {
                         return std::make_unique<DenseFusedBf16>(exec, *squares, n, cols, d);
                       },
                       rounding});
    }
  return cases;
}

}  // namespace rossby::bench
