#include "rossby/model/embeddings.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "rossby/autograd/ops.hpp"
#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"

namespace rossby {

EmbeddingShape embeddings_on(const TimeAxis& axis, const EmbeddingChoice& choice, Index ahead,
                             CalendarTables& calendar) {
  EmbeddingShape shape;
  shape.node = choice.node;
  for (std::size_t k = 0; k < calendar.size(); ++k) {
    const auto& [width, if_possible] = choice.calendar[k];
    calendar[k] = {};
    if (width == 0) continue;
    const CalendarTable table = all_calendar_tables[k];
    const std::string_view obstacle = CalendarPhases::obstacle(axis, table);
    if (!obstacle.empty() && if_possible) continue;
    if (!obstacle.empty())
      user_error("model.{}_embedding = {}: {}. Set this key to 0, or leave the key out", name_of(table),
                 width, obstacle);
    calendar[k] = CalendarPhases::of(axis, table, ahead);
    shape.calendar[k] = {calendar[k].count, width};
  }
  return shape;
}

template <class T>
Embeddings<T>::Embeddings(const EmbeddingShape& shape, std::span<const Index> rows)
    : rows_(rows.begin(), rows.end()),
      node_("node_embedding", Placement::rows, {1, std::ssize(rows), shape.node}),
      width_(shape.width()) {
  for (std::size_t k = 0; k < shape.calendar.size(); ++k) {
    const auto& [count, width] = shape.calendar[k];
    if (width == 0) continue;
    const CalendarTable table = all_calendar_tables[k];
    tables_.push_back(
        {table, {std::string(name_of(table)) + "_embedding", Placement::replicated, {count, width}}});
  }
}

template <class T>
void Embeddings<T>::append_to(std::vector<Parameter<T>*>& all) {
  if (node_.shape[2] > 0) all.push_back(&node_);
  for (Table& table : tables_) all.push_back(&table.vectors);
}

template <class T>
void Embeddings<T>::trained_in(const Block<T>& block) const {
  if (node_.shape[2] > 0) block.trains(&node_);
  for (const Table& table : tables_) block.trains(&table.vectors);
}

template <class T>
void Embeddings<T>::start(std::uint64_t seed) {
  const Index d = node_.shape[2];
  const Random random(seed, "init." + node_.name);
  const double bound = d > 0 ? 1 / std::sqrt(static_cast<double>(d)) : 0;
  for (Index i = 0; i < node_.size(); ++i) {
    const Index place = rows_[static_cast<std::size_t>(i / d)] * d + i % d;
    node_.value[i] = static_cast<T>(random.uniform(static_cast<std::uint64_t>(place), -bound, bound));
  }
  for (Table& table : tables_) std::fill(table.vectors.value.begin(), table.vectors.value.end(), T{0});
}

template <class T>
typename Embeddings<T>::Phases Embeddings<T>::phases(Tape<T>& tape, const WindowSource<T>& source,
                                                     Index t) const {
  Phases phases;
  for (const Table& table : tables_)
    phases[static_cast<std::size_t>(table.of)] = source.phases(tape, table.of, t);
  return phases;
}

template <class T>
template <class F>
void Embeddings<T>::for_each(Tape<T>& tape, const Phases& phases, const F& f) {
  Index next = 0;
  const auto visit = [&](const Var<T>& vectors) {
    f(vectors, next);
    next += vectors.channels();
  };
  const Index only = 0;
  if (node_.shape[2] > 0) visit(embed_columns(tape, node_, std::span(&only, 1)));
  for (Table& table : tables_)
    visit(embed_columns(tape, table.vectors, phases[static_cast<std::size_t>(table.of)]));
}

template <class T>
void Embeddings<T>::add(Tape<T>& tape, const Var<T>& y, const Phases& phases) {
  require(y.channels() == width_, "a channel for every one of an embedding");
  for_each(tape, phases, [&](const Var<T>& vectors, Index first) {
    add_broadcast(tape, slice_channels(y, first, vectors.channels()), vectors);
  });
}

template <class T>
void Embeddings<T>::add_product(Tape<T>& tape, const Var<T>& y, Parameter<T>& weight, const Phases& phases) {
  require(weight.shape == std::vector<Index>({y.channels(), width_}), "a product's weight is (out, width)");
  for_each(tape, phases, [&](const Var<T>& vectors, Index first) {
    // Once for each vector, not for each row and window.
    const Var<T> product = zeros(tape, vectors.rows(), vectors.cols(), y.channels(),
                                 vectors.tracked() || (tape.recording() && weight.trained));
    linear_accumulate(tape, product, vectors, weight, first);
    add_broadcast(tape, y, product);
  });
}

template class Embeddings<float>;
template class Embeddings<double>;

}  // namespace rossby
