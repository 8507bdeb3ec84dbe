#pragma once

#include <array>
#include <deque>
#include <string_view>
#include <vector>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/parameter.hpp"
#include "rossby/data/calendar_phases.hpp"
#include "rossby/model/window_model.hpp"

namespace rossby {

/// Which learned vectors a model reads beside its inputs: one of each node, and of each row of tables that
/// the calendar leads into.
struct EmbeddingChoice {
  struct Width {
    Index value = 0;          // 0: none
    bool if_possible = true;  // leave it out if the time axis has no such table; false: refuse
  };
  Index node = 0;
  std::array<Width, std::size(all_calendar_tables)> calendar;  // in the order of all_calendar_tables

  [[nodiscard]] bool any() const { return node > 0 || any_calendar(); }
  [[nodiscard]] bool any_calendar() const {
    for (const Width& width : calendar)
      if (width.value > 0) return true;
    return false;
  }
};

/// The same on a time axis.
struct EmbeddingShape {
  struct Table {
    Index rows = 0, width = 0;
  };
  Index node = 0;
  std::array<Table, std::size(all_calendar_tables)> calendar;

  [[nodiscard]] Index width() const {
    Index sum = node;
    for (const Table& table : calendar) sum += table.width;
    return sum;
  }
};

/// What there is of a choice on a time axis, and the rows of its tables, also for `ahead` steps behind the
/// last one. Throws UserError if a table that was asked for by a key does not go with the axis.
[[nodiscard]] EmbeddingShape embeddings_on(const TimeAxis& axis, const EmbeddingChoice& choice, Index ahead,
                                           CalendarTables& calendar);

/// Learned vectors of nodes and of times (Shao, Zhang, Wang, Wei, Xu, "Spatial-temporal identity: a simple
/// yet effective baseline for multivariate time series forecasting", CIKM 2022). Parameters: node_embedding
/// (n, d), whose rows' owners hold them; time_of_day_embedding (steps of a day, d), day_of_week_embedding (7,
/// d) and month_embedding (12, d), replicated. Channels are in this order.
template <class T>
class Embeddings {
 public:
  /// `rows`: global rows of the owned ones.
  Embeddings(const EmbeddingShape& shape, std::span<const Index> rows);

  [[nodiscard]] Index width() const { return width_; }
  void append_to(std::vector<Parameter<T>*>& all);
  /// Names its parameters to the block that reads them.
  void trained_in(const Block<T>& block) const;
  /// Vectors of nodes are uniform within ±1 / √d, as functions of global rows. Those of times are 0: one that
  /// no training window reads brings nothing that was not learned.
  void start(std::uint64_t seed);

  /// Rows of the calendar's tables that step t of windows reads, as WindowSource::phases has them.
  using Phases = std::array<std::span<const Index>, std::size(all_calendar_tables)>;
  [[nodiscard]] Phases phases(Tape<T>& tape, const WindowSource<T>& source, Index t) const;

  /// y (rows, B, width()) += the vectors of the rows and of times. Same conditions on y as linear_accumulate.
  void add(Tape<T>& tape, const Var<T>& y, const Phases& phases);

  /// y (rows, B, out) += the product of `weight` (out, width()) with them, as if they were further channels
  /// of what y is made from. Same conditions on y.
  void add_product(Tape<T>& tape, const Var<T>& y, Parameter<T>& weight, const Phases& phases);

 private:
  struct Table {
    CalendarTable of;
    Parameter<T> vectors;
  };
  /// f(vectors, their first channel) of every table.
  template <class F>
  void for_each(Tape<T>& tape, const Phases& phases, const F& f);

  std::vector<Index> rows_;
  Parameter<T> node_;         // (1, owned, d); empty: there is none
  std::deque<Table> tables_;  // those that there are
  Index width_ = 0;
};

}  // namespace rossby
