#include "rossby/train/update_ledger.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/train/table_ledger.hpp"

namespace rossby {
namespace {

/// An update that only multiplies v.
template <class T>
AdamConstants<T> only_decay_of_v(T factor) {
  return {.beta1 = 0,
          .rest1 = 1,
          .beta2 = factor,
          .rest2 = 0,
          .root_correction = 1,
          .step_size = 0,
          .epsilon = 1,
          .scale = 0,
          .decay = 0,
          .keep = 1};
}

template <class T>
MatrixView<T> by_rows(Parameter<T>& parameter, T* values) {
  const Index columns = parameter.shape.back();
  return {values, columns > 0 ? parameter.size() / columns : 0, columns};
}

/// The ledger of a parameter that steps read as a whole. Late updates are whole updates. If beta1 = 0 and
/// nothing decays, they are also factors on v of rows that a step's gradient did not reach; no forward or
/// backward reads v.
template <class T>
class WholeLedger final : public UpdateLedger<T> {
 public:
  WholeLedger(const LedgerArrays<T>& of, bool decoupled)
      : parameter_(of.parameter),
        first_(of.first),
        second_(of.second),
        bf16_(of.bf16),
        count_(of.count),
        decoupled_(decoupled) {
    parameter_->late = this;
  }
  ~WholeLedger() override { parameter_->late = nullptr; }
  WholeLedger(const WholeLedger&) = delete;
  WholeLedger& operator=(const WholeLedger&) = delete;

  void make_up() override;
  void put_off(const Exec& exec, const AdamStep& step) override;
  Cost update(const Exec& exec, const AdamStep& step) override;
  [[nodiscard]] Index missed() const override { return missed_; }
  void made() override { missed_ = 0; }
  Cost settle(const Exec& exec) override;
  void settle_rows(const Exec& exec) override;
  void write(ParameterBooks& books) const override;
  void restore(const Exec& exec, const ParameterBooks& books) override;

 private:
  void replay(std::span<const AdamConstants<T>> steps);
  void replay_chunks(std::span<const AdamConstants<T>> steps);
  void decay_second(T factor);
  Cost update_rows(const Exec& exec, const AdamStep& step);

  Parameter<T>* parameter_;
  Twin<T>* first_;
  Twin<T>* second_;
  Bf16Books* bf16_;
  const Index* count_;
  bool decoupled_;
  Exec exec_;  // of the last postponed update
  double beta2_ = 1;
  Index missed_ = 0;                     // updates that AdamStep::missed covers
  std::vector<AdamConstants<T>> steps_;  // of the other updates
  std::vector<T> factors_;               // on v, of updates of some rows
  std::vector<Index> done_;              // number of factors applied, by row
  std::vector<Index> listed_;            // done_ of the current rows
};

template <class T>
void WholeLedger<T>::put_off(const Exec& exec, const AdamStep& step) {
  exec_ = exec;
  beta2_ = step.beta2;
  if (step.beta1 == 0 && step.decay == 0)
    ++missed_;
  else
    steps_.push_back(adam_constants<T>(step, decoupled_));
}

template <class T>
void WholeLedger<T>::replay(std::span<const AdamConstants<T>> steps) {
  Exec exec = exec_;
  if (parameter_->updated_on_host()) {
    parameter_->settle_stream();
    exec = on_host(exec_);
  } else if (parameter_->stream) {
    return replay_chunks(steps);
  }
  Device* device = exec.device;
  if constexpr (std::is_same_v<T, float>)
    if (bf16_) {
      const std::vector<Index>& shape = parameter_->shape;
      return adam_replay_bf16(exec, bf16_->arrays(*parameter_, *count_, device), shape[0], shape[1], shape[2],
                              steps);
    }
  const std::span<T> values(parameter_->data(device), static_cast<std::size_t>(parameter_->size()));
  adam_replay<T>(exec, values, first_->span(device), second_->span(device), {}, steps);
}

template <class T>
void WholeLedger<T>::replay_chunks(std::span<const AdamConstants<T>> steps) {
  ChunkStream& stream = *parameter_->stream;
  const Index columns = parameter_->shape[2];
  const bool moment = bf16_ ? bf16_->first.size() > 0 : first_->size() > 0;
  const int arrays = moment ? 3 : 2;
  stream.start(arrays, true, true);
  for (Index k = 0; k < stream.chunks(); ++k) {
    const Index chunk = stream.take(), rows = stream.rows(chunk);
    const auto array = [&]<class S>(S, int a) {
      return std::span<S>(reinterpret_cast<S*>(stream.array(a)), static_cast<std::size_t>(rows * columns));
    };
    if constexpr (std::is_same_v<T, float>)
      if (bf16_) {
        Bf16Arrays part = bf16_->arrays(*parameter_, *count_, nullptr);
        part.theta = array(Bf16{}, 0).data();
        part.m = moment ? array(Bf16{}, 1).data() : nullptr;
        part.v = array(Bf16{}, arrays - 1).data();
        part.rounding.first_row += stream.first(chunk);
        adam_replay_bf16(exec_, part, 1, rows, columns, steps);
      }
    if (!bf16_)
      adam_replay<T>(exec_, array(T{}, 0), moment ? array(T{}, 1) : std::span<T>{}, array(T{}, arrays - 1),
                     {}, steps);
    stream.give_back();
  }
}

template <class T>
void WholeLedger<T>::make_up() {
  if (steps_.empty()) return;
  replay(steps_);
  steps_.clear();
}

template <class T>
Cost WholeLedger<T>::settle(const Exec& exec) {
  settle_rows(exec);
  make_up();
  if (missed_ > 0)
    decay_second(static_cast<T>(std::pow(beta2_, static_cast<double>(std::exchange(missed_, 0)))));
  return {};
}

/// Multiplies v of the whole parameter by `factor`.
template <class T>
void WholeLedger<T>::decay_second(T factor) {
  if (bf16_) {
    const AdamConstants<T> decay = only_decay_of_v(factor);
    return replay({&decay, 1});
  }
  parameter_->settle_stream();
  const Exec exec = parameter_->stream ? on_host(exec_) : exec_;
  for (Index at = 0; at < second_->size(); at += values_at_a_time) {
    const NodeView<T> v(second_->data(exec.device) + at, 1, 1,
                        std::min(values_at_a_time, second_->size() - at));
    scale<T>(exec, v, factor, v);
    second_->host().forget_pages();
  }
}

template <class T>
void WholeLedger<T>::write(ParameterBooks& books) const {
  books.overdue = {beta2_, missed_, {}};
  for (const AdamConstants<T>& constants : steps_) books.overdue.steps.push_back(pack(constants));
}

template <class T>
void WholeLedger<T>::restore(const Exec& exec, const ParameterBooks& books) {
  exec_ = exec;
  beta2_ = books.overdue.beta2;
  missed_ = books.overdue.missed;
  steps_.clear();
  for (const UpdateConstants& constants : books.overdue.steps) steps_.push_back(unpack<T>(constants));
  factors_.clear();
  done_.clear();
}

template <class T>
Cost WholeLedger<T>::update(const Exec& exec, const AdamStep& step) {
  Parameter<T>& parameter = *parameter_;
  if (step.beta1 == 0 && step.decay == 0 && parameter.shape.size() == 3 && !parameter.reached.all())
    return update_rows(exec, step);
  settle_rows(exec);
  const std::span<T> values(parameter.data(exec.device), static_cast<std::size_t>(parameter.size()));
  adam_take<T>(exec, values, first_->span(exec.device), second_->span(exec.device), parameter.gradient.span(),
               step, decoupled_);
  made();
  return update_cost(parameter, *first_, *second_);
}

template <class T>
Cost WholeLedger<T>::update_rows(const Exec& exec, const AdamStep& step) {
  constexpr std::size_t most = 4096;  // factors
  Parameter<T>& parameter = *parameter_;
  if (factors_.size() >= most) settle_rows(exec);
  const MatrixView<T> theta = by_rows(parameter, parameter.data(exec.device));
  factors_.reserve(most);
  done_.resize(static_cast<std::size_t>(theta.rows), 0);
  const std::span<const Index> rows = parameter.reached.list();
  listed_.clear();
  for (const Index row : rows) listed_.push_back(done_[static_cast<std::size_t>(row)]);
  const AdamConstants<T> now = adam_constants<T>(step, decoupled_);
  adam_update_rows<T>(exec, theta, by_rows(parameter, second_->data(exec.device)),
                      by_rows(parameter, parameter.gradient.data()), rows, listed_, factors_, now);
  factors_.push_back(now.beta2);
  for (const Index row : rows) done_[static_cast<std::size_t>(row)] = std::ssize(factors_);
  made();
  const double values = static_cast<double>(std::ssize(rows) * theta.cols);
  return {adam_flops * values, 6 * values * sizeof(T)};
}

template <class T>
void WholeLedger<T>::settle_rows(const Exec& exec) {
  if (factors_.empty()) return;
  constexpr Index most = Index{1} << 15;  // rows at once: lists travel to a device
  Parameter<T>& parameter = *parameter_;
  const MatrixView<T> theta = by_rows(parameter, parameter.data(exec.device)),
                      v = by_rows(parameter, second_->data(exec.device));
  std::vector<Index> rows;
  for (Index first = 0; first < theta.rows; first += most) {
    rows.clear();
    listed_.clear();
    for (Index row = first; row < std::min(first + most, theta.rows); ++row) {
      const Index done = done_[static_cast<std::size_t>(row)];
      if (done == std::ssize(factors_)) continue;
      rows.push_back(row);
      listed_.push_back(done);
    }
    adam_update_rows<T>(exec, theta, v, {}, rows, listed_, factors_, only_decay_of_v(T(1)));
  }
  factors_.clear();
  std::fill(done_.begin(), done_.end(), Index{0});
}

}  // namespace

template <class T>
std::unique_ptr<UpdateLedger<T>> make_ledger(const LedgerArrays<T>& of, bool decoupled) {
  if (of.parameter->by_rows) return std::make_unique<TableLedger<T>>(of, decoupled);
  return std::make_unique<WholeLedger<T>>(of, decoupled);
}

template std::unique_ptr<UpdateLedger<float>> make_ledger(const LedgerArrays<float>&, bool);
template std::unique_ptr<UpdateLedger<double>> make_ledger(const LedgerArrays<double>&, bool);

}  // namespace rossby
