#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/step.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/shuffled_rows.hpp"

namespace rossby::test {

/// The windows of one step of a file of reference numbers: the rows of this rank.
template <class T>
class GoldenWindows final : public WindowSource<T> {
 public:
  GoldenWindows(const Golden& golden, std::vector<GlobalRow> rows, Index step, bool feed)
      : rows_(std::move(rows)), mean_(golden.number("mean")), std_(golden.number("std")) {
    const auto x = golden.shape("x");
    windows_ = static_cast<Index>(x[1]);
    inputs_ = static_cast<Index>(x[2]);
    nodes_ = static_cast<Index>(x[3]);
    channels_ = static_cast<Index>(x[4]);
    outputs_ = static_cast<Index>(golden.shape("target")[2]);
    const auto all = golden.array("x"), target = golden.array("target"), fed = golden.array("feed_truth");
    const auto cut = [step](const std::vector<double>& whole, Index size) {
      return std::vector<double>(whole.begin() + step * size, whole.begin() + (step + 1) * size);
    };
    x_ = cut(all, windows_ * inputs_ * nodes_ * channels_);
    target_ = cut(target, windows_ * outputs_ * nodes_);
    for (Index h = 0; h < outputs_; ++h)
      feed_.push_back(feed && fed[static_cast<std::size_t>(step * outputs_ + h)] > 0);
  }

  [[nodiscard]] Index rows() const override { return static_cast<Index>(rows_.size()); }
  [[nodiscard]] Index windows() const override { return windows_; }
  [[nodiscard]] Index channels() const override { return channels_; }
  [[nodiscard]] Index features() const override { return 1; }
  [[nodiscard]] Index outputs() const { return outputs_; }
  [[nodiscard]] bool feeds_truth(Index h) const override { return feed_[static_cast<std::size_t>(h)]; }

  [[nodiscard]] Var<T> input(Tape<T>& tape, Index t) const override {
    const Var<T> x = tape.make(rows(), windows_, channels_, false);
    for (Index i = 0; i < rows(); ++i)
      for (Index b = 0; b < windows_; ++b)
        for (Index f = 0; f < channels_; ++f)
          x.value.at(i, b)[f] = static_cast<T>(
              x_[static_cast<std::size_t>(((b * inputs_ + t) * nodes_ + row(i)) * channels_ + f)]);
    return x;
  }
  [[nodiscard]] Var<T> truth(Tape<T>& tape, Index h) const override {
    const Var<T> x = tape.make(rows(), windows_, 1, false);
    for (Index i = 0; i < rows(); ++i)
      for (Index b = 0; b < windows_; ++b)
        *x.value.at(i, b) = static_cast<T>((target_at(b, h, row(i)) - mean_) / std_);
    return x;
  }
  /// Targets of lead `h` in original units; missing values (0) are NaN.
  [[nodiscard]] NodeView<const float> target(Tape<T>& tape, Index h) const {
    const NodeView<float> x(tape.arena().template take<float>(rows() * windows_).data(), rows(), windows_, 1);
    for (Index i = 0; i < rows(); ++i)
      for (Index b = 0; b < windows_; ++b) {
        const double value = target_at(b, h, row(i));
        *x.at(i, b) = value == 0 ? NAN : static_cast<float>(value);
      }
    return x;
  }
  /// Number of observed targets over all nodes.
  [[nodiscard]] double observed() const {
    double count = 0;
    for (const double value : target_) count += value != 0;
    return count;
  }

 private:
  [[nodiscard]] Index row(Index i) const { return rows_[static_cast<std::size_t>(i)].value; }
  [[nodiscard]] double target_at(Index b, Index h, Index node) const {
    return target_[static_cast<std::size_t>((b * outputs_ + h) * nodes_ + node)];
  }

  std::vector<GlobalRow> rows_;
  double mean_, std_;
  Index windows_ = 0, inputs_ = 0, nodes_ = 0, channels_ = 0, outputs_ = 0;
  std::vector<double> x_, target_;
  std::vector<bool> feed_;
};

/// The DCRNN of one file of reference numbers on this rank, at its initial parameters.
template <class T>
class GoldenDcrnn {
 public:
  GoldenDcrnn(const Golden& golden, const Communicator& comm, bool shuffled, Recompute recompute)
      : golden_(golden), reducer_(comm), partition_(make_partition(golden, comm, shuffled)) {
    const int part = comm.rank();
    rows_ = partition_.rows_of(part);
    MpiMailbox mailbox(comm);
    supports_ = random_walks(edges(), true, partition_, mailbox);
    const GlobalEdges* groups[] = {&supports_};
    const GhostList ghosts = collect_ghosts(partition_, part, groups);
    exchange_ = std::make_unique<NeighbourExchange>(comm, partition_, part, ghosts);
    block_ = localise(supports_, partition_, part, ghosts);
    DcrnnOptions options;
    options.inputs = golden.integer("input_times");
    options.channels = golden.integer("input_features");
    options.features = 1;
    options.layers = static_cast<int>(golden.integer("layers"));
    options.units = golden.integer("units");
    options.recompute = recompute;
    steps_ = static_cast<int>(golden.integer("diffusion_steps"));
    const auto variant =
        golden.text("variant") == "legacy" ? DiffusionVariant::legacy : DiffusionVariant::paper;
    model_ = std::make_unique<Dcrnn<T>>(options, Diffusion<T>(block_, *exchange_, steps_, variant));
    load("init");
    scale_.assign(rows_.size(), static_cast<T>(golden.number("std")));
    shift_.assign(rows_.size(), static_cast<T>(golden.number("mean")));
  }

  /// Returns the values of a parameter in `group` of the file, in the layout of this model.
  [[nodiscard]] std::vector<double> expected(const std::string& group, const Parameter<T>& parameter) const {
    if (parameter.name.starts_with("projection")) return golden_.array(group + "/" + parameter.name);
    const std::size_t cut = parameter.name.find('_');
    const std::string place = group + "/" + parameter.name.substr(0, cut);
    const std::string kind = parameter.name.substr(cut + 1);
    const Index units = model_->options().units;
    std::vector<double> values;
    if (kind == "bias") {
      values = golden_.array(place + "_gates_bias");
      const auto more = golden_.array(place + "_candidate_bias");
      values.insert(values.end(), more.begin(), more.end());
      return values;
    }
    const auto gates = golden_.array(place + "_gates_weight");
    const auto candidate = golden_.array(place + "_candidate_weight");
    const Index terms = model_->diffusion().plan.terms;
    const Index channels = parameter.shape[1] / terms;
    const Index all = static_cast<Index>(gates.size()) / (terms * 2 * units);
    const Index first = kind == "input_weight" ? 0 : all - units;  // features of x come first
    for (Index o = 0; o < parameter.shape[0]; ++o)
      for (Index term = 0; term < terms; ++term)
        for (Index f = 0; f < channels; ++f) {
          const Index from = (first + f) * terms + golden_term(term);
          const bool is_candidate = kind == "candidate_weight" || o >= 2 * units;
          values.push_back(is_candidate ? candidate[static_cast<std::size_t>(from * units + o % units)]
                                        : gates[static_cast<std::size_t>(from * 2 * units + o)]);
        }
    return values;
  }

  void load(const std::string& group) {
    for (Parameter<T>* parameter : model_->parameters()) {
      const auto values = expected(group, *parameter);
      require(static_cast<Index>(values.size()) == parameter->size(), "reference parameter of another size");
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
    }
  }

  [[nodiscard]] GoldenWindows<T> windows(Index step, bool feed = true) const {
    return GoldenWindows<T>(golden_, rows_, step, feed);
  }

  /// Records the loss of a batch. `outputs` receives the predictions.
  void record(Tape<T>& tape, const GoldenWindows<T>& batch, Losses& losses, std::vector<Var<T>>& outputs) {
    outputs.resize(static_cast<std::size_t>(batch.outputs()));
    model_->predict(tape, batch, outputs);
    const double scale = 1 / batch.observed();
    double* sum = losses.add("mae", scale);
    for (Index h = 0; h < batch.outputs(); ++h)
      masked_absolute_error(
          tape, affine_rows(tape, outputs[static_cast<std::size_t>(h)], scale_.data(), shift_.data()),
          batch.target(tape, h), scale, sum);
  }

  [[nodiscard]] Dcrnn<T>& model() { return *model_; }
  [[nodiscard]] MpiReducer& reducer() { return reducer_; }
  [[nodiscard]] const std::vector<GlobalRow>& rows() const { return rows_; }
  [[nodiscard]] const GlobalEdges& supports() const { return supports_; }

  /// Terms here are ordered by order, then support; in the files by support, then order.
  [[nodiscard]] Index golden_term(Index term) const {
    if (term == 0) return 0;
    const Index supports = supports_.relations;
    return 1 + (term - 1) % supports * steps_ + (term - 1) / supports;
  }

 private:
  static RowPartition make_partition(const Golden& golden, const Communicator& comm, bool shuffled) {
    const Index n = golden.integer("nodes");
    if (!shuffled) return RowPartition::blocks(n, comm.size());
    const Random random(3, "owners");
    std::vector<int> owners;
    for (Index i = 0; i < n; ++i)
      owners.push_back(static_cast<int>(random.bits(static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(comm.size())));
    return test::shuffled_rows(RowPartition::from_owners(owners, comm.size()));
  }

  /// W = Aᵀ: row i holds the edges into i.
  [[nodiscard]] GlobalEdges edges() const {
    const auto a = golden_.array("adjacency");
    const Index n = partition_.rows();
    GlobalEdges edges;
    edges.rows = static_cast<Index>(rows_.size());
    edges.relations = 1;
    edges.ptr = {0};
    for (const GlobalRow row : rows_) {
      for (Index j = 0; j < n; ++j)
        if (const double value = a[static_cast<std::size_t>(j * n + row.value)]; value != 0) {
          edges.column.emplace_back(j);
          edges.value.push_back(value);
        }
      edges.ptr.push_back(edges.entries());
    }
    return edges;
  }

  const Golden& golden_;
  MpiReducer reducer_;
  RowPartition partition_;
  std::vector<GlobalRow> rows_;
  GlobalEdges supports_;
  std::unique_ptr<Exchange> exchange_;
  CsrBlock block_;
  int steps_ = 0;
  std::unique_ptr<Dcrnn<T>> model_;
  std::vector<T> scale_, shift_;
};

}  // namespace rossby::test
