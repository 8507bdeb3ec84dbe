#include "rossby/autograd/op_check.hpp"

#include <algorithm>
#include <utility>

#include "rossby/autograd/parameter.hpp"
#include "rossby/base/error.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby {
namespace {

struct Place {
  Index row, column, channel;
};

/// The first non-finite place among contiguous values: `cols` columns of rows, or rows of one column.
template <class T>
std::optional<Place> look_along(const Exec& exec, const NodeView<T>& view) {
  const auto size = static_cast<std::size_t>(view.size());
  const Index at = first_non_finite<T>(exec, std::span<const T>(view.data, size));
  if (at < 0) return std::nullopt;
  return Place{at / view.width(), at % view.width() / view.channels, at % view.channels};
}

/// The first non-finite place in any view, one contiguous run at a time.
template <class T>
std::optional<Place> first_in(const Exec& exec, const NodeView<T>& view) {
  if (view.size() == 0) return std::nullopt;
  if (view.packed()) return look_along(exec, view);
  Exec alone = exec;  // a run is short
  alone.threads = 1;
  if (view.row_stride == view.channels) {  // a table: contiguous rows per column
    for (Index b = 0; b < view.cols; ++b)
      if (auto place = look_along(alone, NodeView<T>(view.at(0, b), view.rows, 1, view.channels))) {
        place->column = b;
        return place;
      }
    return std::nullopt;
  }
  const bool whole_rows = view.col_stride == view.channels;
  for (Index i = 0; i < view.rows; ++i)
    for (Index b = 0; b < (whole_rows ? 1 : view.cols); ++b) {
      const NodeView<T> run(view.at(i, b), 1, whole_rows ? view.cols : 1, view.channels);
      if (const auto place = look_along(alone, run)) return Place{i, b + place->column, place->channel};
    }
  return std::nullopt;
}

}  // namespace

template <class T>
void OpCheck<T>::begin_step() {
  moment_ = 0;
  found_.reset();
  said_ = false;
  names_.clear();
  open_.clear();
  next_ = {};
  kept_.clear();
  running_.clear();
}

template <class T>
void OpCheck<T>::enter(std::string_view block) {
  std::string name = open_.empty() ? "" : names_[static_cast<std::size_t>(open_.back())] + "/";
  name += block;
  const auto known = std::find(names_.begin(), names_.end(), name);
  open_.push_back(static_cast<int>(known - names_.begin()));
  if (known == names_.end()) names_.push_back(std::move(name));
}

template <class T>
void OpCheck<T>::leave() {
  if (!open_.empty()) open_.pop_back();  // a step may begin within a block
}

template <class T>
void OpCheck<T>::makes(const NodeView<T>& value, const NodeView<T>& gradient) {
  next_ = {};
  said_ = true;
  next_.value = value;
  next_.gradient = gradient;
}

template <class T>
void OpCheck<T>::adds_to(const NodeView<T>& gradient) {
  if (gradient.data) next_.to.push_back(gradient);
}

template <class T>
void OpCheck<T>::adds_to(const Parameter<T>& parameter) {
  if (parameter.trained) next_.parameters.push_back(&parameter);
}

template <class T>
void OpCheck<T>::computed(std::string_view op, bool kept) {
  ++moment_;
  if (!std::exchange(said_, false)) bug(std::string(op) + " does not say what it makes (Tape::touches)");
  Entry entry = std::exchange(next_, {});
  entry.block = !open_.empty() ? open_.back() : !running_.empty() ? running_.back().block : -1;
  if (entry.value.data) look(entry.value, op, entry.block, false, false);
  if (kept) kept_.push_back(std::move(entry));
}

template <class T>
void OpCheck<T>::look_at_gradient(std::string_view op, const NodeView<T>& gradient) {
  if (gradient.data) look(gradient, op, open_.empty() ? -1 : open_.back(), true, false);
}

template <class T>
void OpCheck<T>::begin_backward(std::string_view op) {
  ++moment_;
  running_.push_back(std::move(kept_.back()));
  kept_.pop_back();
  const Entry& entry = running_.back();
  if (entry.gradient.data) look(entry.gradient, op, entry.block, true, true);
}

template <class T>
void OpCheck<T>::end_backward(std::string_view op) {
  const Entry entry = std::move(running_.back());
  running_.pop_back();
  for (const NodeView<T>& gradient : entry.to) look(gradient, op, entry.block, true, false);
  for (const Parameter<T>* parameter : entry.parameters) look(*parameter, op, entry.block);
}

template <class T>
void OpCheck<T>::look(const NodeView<T>& view, std::string_view op, int block, bool gradient, bool arrives) {
  if (found_) return;
  const auto place = first_in(exec_, view);
  if (!place) return;
  NotFiniteOp& found = found_.emplace();
  found.moment = moment_;
  found.op = op;
  if (block >= 0) found.block = names_[static_cast<std::size_t>(block)];
  found.gradient = gradient;
  found.arrives = arrives;
  found.rows = view.rows;
  found.row = place->row;
  found.column = place->column;
  found.channel = place->channel;
}

/// Skips tables of which a step reads a few rows: other ops have not written their rows yet, and the
/// gradients that reach this op were already inspected.
template <class T>
void OpCheck<T>::look(const Parameter<T>& parameter, std::string_view op, int block) {
  const bool rows = parameter.placement == Placement::rows && parameter.shape.size() == 3;
  T* data = const_cast<T*>(parameter.gradient.data());
  const Index size = parameter.gradient.size();
  if (found_ || parameter.sink || parameter.table_rows() || size == 0) return;
  // (outer, rows, inner): each outer index is a column.
  const NodeView<T> view = rows
                               ? NodeView<T>(data, parameter.shape[0], parameter.shape[1], parameter.shape[2])
                               : NodeView<T>(data, 1, 1, size);
  look(view, op, block, true, false);
  if (!found_) return;
  found_->parameter = parameter.name;
  if (rows) std::swap(found_->row, found_->column);
  found_->rows = rows ? parameter.shape[1] : 0;
}

template class OpCheck<float>;
template class OpCheck<double>;

}  // namespace rossby
