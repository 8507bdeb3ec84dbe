#include "rossby/run/not_finite.hpp"

#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {
namespace {

constexpr std::size_t rows_named = 4;

/// Count and global rows of values that are not finite; no rows if the values belong to none.
struct Finding {
  Index count = 0;
  std::set<Index> rows;
};

bool finite(Bf16 value) {
  return std::isfinite(widen(value));
}
template <class T>
bool finite(T value) {
  return std::isfinite(value);
}

/// Calls `passed` now and then; values up to there are not read again.
template <class V, class Passed>
Finding look(std::span<const V> values, const std::vector<Index>& row_of, Index inner, const Passed& passed) {
  constexpr std::size_t piece = std::size_t{1} << 23;
  Finding found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % piece == piece - 1) passed();
    if (finite(values[i])) continue;
    ++found.count;
    if (!row_of.empty() && found.rows.size() <= rows_named)
      found.rows.insert(row_of[i / static_cast<std::size_t>(inner) % row_of.size()]);
  }
  return found;
}

/// Returns the global row of each owned row or entry of a parameter; empty if it is replicated.
template <class T>
std::vector<Index> rows_of(const ModelRun<T>& run, const Parameter<T>& parameter) {
  std::vector<Index> rows;
  if (parameter.placement == Placement::rows)
    for (const GlobalRow row : run.domain().rows) rows.push_back(row.value);
  if (parameter.placement == Placement::entries) {
    const GlobalEdges& edges = run.edges(parameter);
    for (Index i = 0; i < edges.rows; ++i)
      for (int k = 0; k < edges.relations; ++k)
        rows.insert(rows.end(), static_cast<std::size_t>(edges.end(i, k) - edges.begin(i, k)),
                    run.domain().rows[static_cast<std::size_t>(i)].value);
  }
  return rows;
}

std::string text_of(const Finding& found, std::string_view what, const std::string& name, int rank) {
  std::string text = fmt::format("{} of {} on rank {}: {} value{} not finite", what, name, rank, found.count,
                                 found.count == 1 ? " is" : "s are");
  if (found.rows.empty()) return text;
  std::vector<Index> first(found.rows.begin(), found.rows.end());
  const bool more = first.size() > rows_named;
  if (more) first.resize(rows_named);
  return text + fmt::format(", global rows {}{}", fmt::join(first, ", "), more ? ", …" : "");
}

}  // namespace

template <class T>
std::string describe_not_finite(const Communicator& comm, const ModelRun<T>& run, bool gradients) {
  constexpr double nowhere = std::numeric_limits<double>::max();
  double place = nowhere;  // order of the finding, then rank
  double order = 0;
  std::string text;
  const auto check = [&](auto values, std::string_view what, const Parameter<T>& parameter,
                         const auto& passed) {
    order += comm.size();
    if (!text.empty()) return;
    const Index inner = parameter.placement == Placement::rows ? parameter.shape[2] : 1;
    const Finding found = look(values, rows_of(run, parameter), inner, passed);
    if (found.count == 0) return;
    text = text_of(found, what, parameter.name, comm.rank());
    place = order + comm.rank();
  };
  for (Parameter<T>* parameter : run.parameters()) {
    parameter->settle_stream();
    parameter->fetch();
    if (parameter->device) parameter->device->wait();
    const Parameter<T>& p = *parameter;
    const auto forget = [&] {  // keep few pages of a file in memory
      parameter->value.forget_pages();
      parameter->bf16.forget_pages();
    };
    if (p.in_bf16)
      check(p.bf16.span(), "value", p, forget);
    else
      check(p.value.span(), "value", p, forget);
    forget();
  }
  for (const Parameter<T>* parameter : run.parameters()) {
    if (!gradients) break;
    std::span<const T> values = parameter->gradient.span();
    if (TableRows<T>* rows = parameter->table_rows())
      values = {rows->gradients(),
                static_cast<std::size_t>(rows->slots() * parameter->shape[1] * parameter->shape[2])};
    std::vector<T> home;
    if (parameter->device && !values.empty()) {
      home.resize(values.size());
      parameter->device->download(std::span<T>(home), values.data());
      parameter->device->wait();
      values = home;
    }
    check(values, "gradient", *parameter, [] {});
  }
  MpiReducer reducer(comm);
  double first = -place;
  reducer.max(std::span<double>(&first, 1));
  if (first == -nowhere) return "";
  return broadcast(comm, text, static_cast<int>(static_cast<Index>(-first) % comm.size()));
}

namespace {

std::string text_of(const NotFiniteOp& found, const std::vector<GlobalRow>& rows, int rank) {
  std::string what = found.arrives ? fmt::format("the gradient that arrives at {}", found.op)
                     : !found.parameter.empty()
                         ? fmt::format("the gradient of {} that {} adds to", found.parameter, found.op)
                     : found.gradient ? fmt::format("a gradient that {} adds to", found.op)
                                      : fmt::format("the value of {}", found.op);
  if (!found.block.empty()) what += fmt::format(" in block {}", found.block);
  what += fmt::format(" on rank {} is not finite at ", rank);
  if (found.rows == 0) return what + fmt::format("entry {}", found.channel);
  if (found.rows == std::ssize(rows))
    what += fmt::format("global row {}", rows[static_cast<std::size_t>(found.row)].value);
  else
    what += fmt::format("row {} of {}", found.row, found.rows);
  return what + fmt::format(", column {}, channel {}", found.column, found.channel);
}

}  // namespace

template <class T>
std::string describe_op(const Communicator& comm, const ModelRun<T>& run, const OpCheck<T>* check) {
  if (!check) return "";
  constexpr double nowhere = std::numeric_limits<double>::max();
  const auto& found = check->found();
  double first = found ? -static_cast<double>(found->moment * comm.size() + comm.rank()) : -nowhere;
  MpiReducer reducer(comm);
  reducer.max(std::span<double>(&first, 1));
  if (first == -nowhere) return "";
  const std::string text = found ? text_of(*found, run.domain().rows, comm.rank()) : "";
  return broadcast(comm, text, static_cast<int>(static_cast<Index>(-first) % comm.size()));
}

template std::string describe_op<float>(const Communicator&, const ModelRun<float>&, const OpCheck<float>*);
template std::string describe_op<double>(const Communicator&, const ModelRun<double>&,
                                         const OpCheck<double>*);
template std::string describe_not_finite<float>(const Communicator&, const ModelRun<float>&, bool);
template std::string describe_not_finite<double>(const Communicator&, const ModelRun<double>&, bool);

}  // namespace rossby
