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

/// The learned vectors that a model reads in addition to its inputs: one for each node, and one for each row
/// of the calendar's tables.
struct EmbeddingChoice {
  struct Width {
    Index value = 0;          // 0: none
    bool if_possible = true;  // omit it if the time axis has no such table; false: throw
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

/// The shape of a choice on a time axis.
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

/// Returns the tables of a choice that exist on a time axis, and fills `calendar` with the rows of its
/// tables, including `ahead` steps after the last one. Throws UserError if a key asks for a table that the
/// axis does not have.
[[nodiscard]] EmbeddingShape embeddings_on(const TimeAxis& axis, const EmbeddingChoice& choice, Index ahead,
                                           CalendarTables& calendar);

/// Learned vectors of nodes and of times (Shao, Zhang, Wang, Wei, Xu, "Spatial-temporal identity: a simple
/// yet effective baseline for multivariate time series forecasting", CIKM 2022). Parameters: node_embedding
/// (n, d), held by the owners of its rows; time_of_day_embedding (steps of a day, d), day_of_week_embedding
/// (7, d) and month_embedding (12, d), replicated. Channels are in this order.
template <class T>
class Embeddings {
 public:
  /// `rows`: global rows of the owned nodes.
  Embeddings(const EmbeddingShape& shape, std::span<const Index> rows);

  [[nodiscard]] Index width() const { return width_; }
  void append_to(std::vector<Parameter<T>*>& all);
  /// Registers its parameters with the block that reads them.
  void trained_in(const Block<T>& block) const;
  /// Sets vectors of nodes uniform within ±1 / √d, as functions of global rows, and vectors of times to 0. A
  /// time vector that no training window reads then has no effect.
  void start(std::uint64_t seed);

  /// Rows of the calendar's tables that step t of windows reads, from WindowSource::phases.
  using Phases = std::array<std::span<const Index>, std::size(all_calendar_tables)>;
  [[nodiscard]] Phases phases(Tape<T>& tape, const WindowSource<T>& source, Index t) const;

  /// Adds the vectors of rows and times to y (rows, B, width()). Same conditions on y as linear_accumulate.
  void add(Tape<T>& tape, const Var<T>& y, const Phases& phases);

  /// Adds the product of `weight` (out, width()) with the vectors to y (rows, B, out), as if they were
  /// further input channels. Same conditions on y as linear_accumulate.
  void add_product(Tape<T>& tape, const Var<T>& y, Parameter<T>& weight, const Phases& phases);

 private:
  struct Table {
    CalendarTable of;
    Parameter<T> vectors;
  };
  /// Calls f(vectors, first channel) for every table.
  template <class F>
  void for_each(Tape<T>& tape, const Phases& phases, const F& f);

  std::vector<Index> rows_;
  Parameter<T> node_;         // (1, owned, d); empty: no vectors of nodes
  std::deque<Table> tables_;  // only the tables in use
  Index width_ = 0;
};

}  // namespace rossby
