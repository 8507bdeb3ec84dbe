#include "rossby/autograd/table_loss.hpp"

#include <algorithm>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/late_updates.hpp"
#include "rossby/autograd/record.hpp"

namespace rossby {
namespace {

using detail::read;

/// The rows of a table that a loss reads, and the target of their gradients.
template <class T>
struct Rows {
  TableColumns<T> values;
  TableGradient<T> gradient;
  bool tracked = false;
};

template <class T>
Rows<T> read_rows(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times) {
  require(table.shape.size() == 3, "a table is (steps, n, d)");
  Rows<T> rows;
  rows.values = {table.data(tape.exec().device), table.shape[0], times};
  rows.tracked = tape.recording() && table.trained;
  TableRows<T>* sink = table.table_rows();
  if (!sink) {
    if (rows.tracked) rows.gradient = {table.gradient_target(), table.shape[0], times, {}};
    return rows;
  }
  const Cost late = sink->bring_up_to_date(tape.exec(), times);
  if (BlockTrace* trace = tape.trace()) trace->note("catch_up", late);
  if (!rows.tracked) return rows;
  const auto slots = tape.arena().template take<Index>(std::ssize(times));
  const auto begins = tape.arena().template take<Index>(std::ssize(times));
  sink->reserve(times, slots);
  sink->begin_sums(slots, begins);
  table.live = table.in_step = true;
  rows.gradient = {sink->gradients(), sink->slots(), slots, begins};
  return rows;
}

/// Counts an op that has nothing left for backward.
template <class T>
void count(Tape<T>& tape, std::string_view name, const ValueShape& shape, const OpCost& cost) {
  tape.set_shape(shape);
  tape.touches(Var<T>{});
  detail::finish(tape, name, cost, false, [] {});
}

}  // namespace

template <class T>
bool table_losses_fit(const Tape<T>& tape, Index values, Index weights) {
  const Device* device = tape.exec().device;
  return (!device || device->driver().stands_for_host()) && values <= most_table_loss_width &&
         weights <= most_decoder_weights;
}

template <class T>
void table_difference(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times, const Var<T>& x,
                      bool through_tanh, double scale, double* sum) {
  const Rows<T> rows = read_rows(tape, table, times);
  GradientOut<T> dx;
  if (x.tracked()) dx = {x.gradient, !tape.claim_gradient(x)};
  if (!tape.exec().device)
    table_difference<T>(tape.exec(), rows.gradient, dx, rows.values, read(x.value), through_tanh, scale, sum);
  if (OpCheck<T>* check = tape.check()) check->look_at_gradient("table_difference", x.gradient);
  count(tape, "table_difference", {x.rows(), x.cols(), x.channels()},
        costs::table_difference(detail::count(x), sizeof(T), through_tanh, rows.tracked || x.tracked()));
}

template <class T>
void table_decoded_error(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times,
                         std::type_identity_t<Parameter<T>>* weight, const TableColumns<float>& truth,
                         double scale, double* sum) {
  const Rows<T> rows = read_rows(tape, table, times);
  const Index n = table.shape[1], d = table.shape[2], m = weight ? weight->shape[0] : d;
  T* dweight = weight && tape.recording() ? weight->gradient_target() : nullptr;
  MatrixView<const T> w;
  if (weight) w = MatrixView<const T>(weight->data(tape.exec().device), m, d);
  const auto mark = tape.mark();
  const auto scratch = tape.memory().template take<T>(
      dweight ? table_decoded_error_scratch_size(n, std::ssize(times), m, d) : 0);
  if (!tape.exec().device)
    table_decoded_error<T>(tape.exec(), rows.gradient, dweight, rows.values, w, truth, n, d, scale, sum,
                           scratch);
  tape.rewind(mark);
  count(tape, "table_decoded_error", {n, std::ssize(times), d},
        costs::table_decoded_error(static_cast<double>(n * std::ssize(times)), static_cast<double>(d),
                                   static_cast<double>(m), sizeof(T), weight != nullptr,
                                   rows.tracked || dweight));
}

#define ROSSBY_INSTANTIATE(T)                                                                                \
  template bool table_losses_fit(const Tape<T>&, Index, Index);                                              \
  template void table_difference(Tape<T>&, Parameter<T>&, std::span<const Index>, const Var<T>&, bool,       \
                                 double, double*);                                                           \
  template void table_decoded_error(Tape<T>&, Parameter<T>&, std::span<const Index>,                         \
                                    std::type_identity_t<Parameter<T>>*, const TableColumns<float>&, double, \
                                    double*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
