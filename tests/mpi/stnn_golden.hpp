#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/data/batches.hpp"
#include "rossby/model/stnn/stnn.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/train/step.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/shuffled_rows.hpp"

namespace rossby::test {

/// Settings that must not change the reference numbers.
struct Setting {
  bool dense = false;     // dense storage of sparse relations
  bool shuffled = false;  // rows distributed at random instead of contiguous blocks
};

/// The STNN of one file of reference numbers on this rank, at its initial parameters.
template <class T>
class GoldenStnn {
 public:
  GoldenStnn(const Golden& golden, const Communicator& comm, const Setting& setting)
      : golden_(golden), comm_(comm), reducer_(comm), partition_(make_partition(golden, comm, setting)) {
    const int part = comm.rank();
    rows_ = partition_.rows_of(part);
    auto relations = std::make_unique<Relations<T>>(partition_, part);
    add_relations(*relations, setting);
    if (comm.size() == 1)
      exchange_ = std::make_unique<NeighbourExchange>(comm, partition_, part, GhostList{});
    else if (relations->needs_all())
      exchange_ = std::make_unique<AllgatherExchange>(comm, partition_, part);
    else
      exchange_ = std::make_unique<NeighbourExchange>(comm, partition_, part, relations->ghosts());
    relations->finish(*exchange_, reducer_);

    StnnOptions options;
    options.steps = golden.integer("times");
    options.features = golden.integer("features");
    options.latent = golden.integer("latent");
    options.layers = static_cast<int>(golden.integer("layers"));
    options.hidden = golden.integer("hidden");
    options.activation =
        golden.text("activation") == "tanh" ? LatentActivation::tanh : LatentActivation::identity;
    options.lambda = golden.number("lambda");
    options.l2_z = golden.number("l2_z");
    options.l1_rel = golden.text("mode") == "given" ? 0 : golden.number("l1_rel");
    model_ = std::make_unique<Stnn<T>>(options, std::move(relations), rows_);
    series_ = Series(options.steps, static_cast<Index>(rows_.size()), options.features);
    const auto x = golden.array("x");
    const auto local = slice(x, options.steps, options.features);
    for (std::size_t i = 0; i < local.size(); ++i)
      series_.values[static_cast<Index>(i)] = static_cast<float>(local[i]);
    load("init");
    for (Parameter<T>* parameter : model_->parameters()) {
      parameter->decay = golden.number("weight_decay");
      if (parameter->name == "factors") parameter->decay = golden.number("weight_decay_factors");
      if (is_relation(*parameter)) parameter->decay = golden.number("weight_decay_relation_weight");
    }
  }

  /// This rank's part of an (outer, n, inner) array.
  [[nodiscard]] std::vector<double> slice(const std::vector<double>& whole, Index outer, Index inner) const {
    const Index n = partition_.rows();
    std::vector<double> part;
    for (Index t = 0; t < outer; ++t)
      for (const GlobalRow row : rows_)
        for (Index f = 0; f < inner; ++f)
          part.push_back(whole[static_cast<std::size_t>((t * n + row.value) * inner + f)]);
    return part;
  }

  [[nodiscard]] static bool is_relation(const Parameter<T>& parameter) {
    return parameter.name == "relation_weight" || parameter.name == "discover_weight";
  }
  [[nodiscard]] static std::string golden_name(const Parameter<T>& parameter) {
    return is_relation(parameter) ? "relation_weight" : parameter.name;
  }

  /// Returns this rank's values of a parameter in `group` of the file; empty if the group has none.
  [[nodiscard]] std::vector<double> expected(const std::string& group, const Parameter<T>& parameter) const {
    const std::string name = group + "/" + golden_name(parameter);
    if (!golden_.has(name)) return {};
    const auto whole = golden_.array(name);
    if (parameter.placement == Placement::replicated) return whole;
    if (parameter.name == "factors") return slice(whole, parameter.shape[0], parameter.shape[2]);
    if (parameter.name == "discover_weight") return slice(whole, 1, parameter.shape[2]);
    return entries(whole, parameter);
  }

  void load(const std::string& group) {
    for (Parameter<T>* parameter : model_->parameters()) {
      const auto values = expected(group, *parameter);
      require(static_cast<Index>(values.size()) == parameter->size(), "reference parameter of another size");
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
    }
  }

  /// This rank's share of the batch of step `step`.
  [[nodiscard]] Batch batch(Index step) const {
    const auto sizes = golden_.array("step_size"), kinds = golden_.array("step_kind");
    const auto times = golden_.array("pair_time"), nodes = golden_.array("pair_node");
    const auto stride = static_cast<Index>(golden_.shape("pair_time")[1]);
    std::vector<std::pair<Index, Index>> pairs;
    for (Index q = 0; q < static_cast<Index>(sizes[static_cast<std::size_t>(step)]); ++q)
      pairs.emplace_back(times[static_cast<std::size_t>(step * stride + q)],
                         nodes[static_cast<std::size_t>(step * stride + q)]);
    return from_pairs(pairs, kinds[static_cast<std::size_t>(step)] == 0 ? Pass::decoder : Pass::dynamics);
  }

  /// All pairs in one batch; one slab if `slab`.
  [[nodiscard]] Batch full(Pass pass, bool slab) const {
    const Index first = pass == Pass::decoder ? 0 : 1;
    const Index steps = model_->options().steps;
    if (!slab) {
      std::vector<std::pair<Index, Index>> pairs;
      for (Index t = first; t < steps; ++t)
        for (Index i = 0; i < partition_.rows(); ++i) pairs.emplace_back(t, i);
      return from_pairs(pairs, pass);
    }
    Batch batch;
    batch.pass = pass;
    for (Index t = first; t < steps; ++t) batch.times.push_back(t);
    batch.targets = static_cast<double>((steps - first) * partition_.rows());
    batch.observed = batch.targets * static_cast<double>(model_->options().features);
    return batch;
  }

  /// Computes loss and gradients of a batch. Gradients of replicated parameters are summed over ranks and
  /// stay in the parameters.
  Losses gradients(Tape<T>& tape, const Batch& batch) {
    for (Parameter<T>* parameter : model_->parameters())
      std::fill(parameter->gradient.begin(), parameter->gradient.end(), T(0));
    Losses losses;
    tape.reset();
    model_->losses(tape, batch, series_, 0, losses);
    tape.backward();
    for (LossTerm& term : losses.terms()) reducer_.sum(std::span<double>(&term.sum, 1));
    for (Parameter<T>* parameter : model_->parameters())
      if (parameter->placement == Placement::replicated) reducer_.sum(parameter->gradient.span());
    return losses;
  }

  [[nodiscard]] Stnn<T>& model() { return *model_; }
  [[nodiscard]] const Series& series() const { return series_; }
  [[nodiscard]] MpiReducer& reducer() { return reducer_; }
  [[nodiscard]] const RowPartition& partition() const { return partition_; }

 private:
  static RowPartition make_partition(const Golden& golden, const Communicator& comm, const Setting& setting) {
    const Index n = golden.integer("nodes");
    if (!setting.shuffled) return RowPartition::blocks(n, comm.size());
    const Random random(3, "owners");
    std::vector<int> owners;
    for (Index i = 0; i < n; ++i)
      owners.push_back(static_cast<int>(random.bits(static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(comm.size())));
    return test::shuffled_rows(RowPartition::from_owners(owners, comm.size()));
  }

  void add_relations(Relations<T>& relations, const Setting& setting) {
    const std::string mode = golden_.text("mode");
    if (mode == "discover") return relations.add_discover(0);
    const auto w = golden_.array("W");
    const Index n = partition_.rows();
    edges_.rows = static_cast<Index>(rows_.size());
    edges_.relations = static_cast<int>(golden_.shape("W")[0]);
    edges_.ptr = {0};
    for (const GlobalRow row : rows_)
      for (int k = 0; k < edges_.relations; ++k) {
        for (Index j = 0; j < n; ++j)
          if (const double value = w[static_cast<std::size_t>((k * n + row.value) * n + j)]; value != 0) {
            edges_.column.emplace_back(j);
            edges_.value.push_back(value);
          }
        edges_.ptr.push_back(edges_.entries());
      }
    if (setting.dense)
      relations.add_dense(edges_, mode == "refine", 0);
    else if (mode == "refine")
      relations.add_refine(edges_, 0);
    else
      relations.add_given(edges_);
  }

  /// Returns this rank's part of relation_weight (entry): the entries of its rows, or the dense block.
  [[nodiscard]] std::vector<double> entries(const std::vector<double>& whole,
                                            const Parameter<T>& parameter) const {
    const auto node = golden_.array("entry_node"), relation = golden_.array("entry_relation"),
               neighbour = golden_.array("entry_neighbour");
    std::vector<double> part;
    if (parameter.placement == Placement::entries) {
      for (const GlobalRow row : rows_)
        for (std::size_t e = 0; e < whole.size(); ++e)
          if (static_cast<Index>(node[e]) == row.value) part.push_back(whole[e]);
      return part;
    }
    const auto owned = static_cast<Index>(rows_.size());
    part.assign(static_cast<std::size_t>(parameter.size()), 0.0);
    for (Index i = 0; i < owned; ++i)
      for (std::size_t e = 0; e < whole.size(); ++e)
        if (static_cast<Index>(node[e]) == rows_[static_cast<std::size_t>(i)].value)
          part[static_cast<std::size_t>((static_cast<Index>(relation[e]) * owned + i) * partition_.rows() +
                                        static_cast<Index>(neighbour[e]))] = whole[e];
    return part;
  }

  [[nodiscard]] Batch from_pairs(const std::vector<std::pair<Index, Index>>& pairs, Pass pass) const {
    Batch batch;
    batch.pass = pass;
    batch.pairs = true;
    batch.targets = static_cast<double>(pairs.size());
    batch.observed = batch.targets * static_cast<double>(model_->options().features);
    const int part = comm_.rank();
    for (const auto& [t, i] : pairs) {
      const Index position = partition_.position(GlobalRow{i}).value;
      if (position < partition_.begin(part) || position >= partition_.end(part)) continue;
      batch.times.push_back(t);
      batch.rows.push_back(position - partition_.begin(part));
    }
    return batch;
  }

  const Golden& golden_;
  Communicator comm_;
  MpiReducer reducer_;
  RowPartition partition_;
  std::vector<GlobalRow> rows_;
  GlobalEdges edges_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Stnn<T>> model_;
  Series series_;
};

}  // namespace rossby::test
