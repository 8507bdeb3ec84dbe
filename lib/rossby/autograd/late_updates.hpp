#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// A table (T, n, d) of which each step reads and changes few rows. Only those rows have gradients; other
/// rows are brought up to date when they are read again.
template <class T>
class TableRows {
 public:
  virtual ~TableRows() = default;

  /// Gives these rows the values that an optimiser would produce if it updated the whole table in each step.
  /// Returns the cost of doing so.
  virtual Cost bring_up_to_date(const Exec& exec, std::span<const Index> rows) = 0;

  /// Reserves slots for the gradients of these rows: slots[q] for rows[q]. Valid until this step's update.
  virtual void reserve(std::span<const Index> rows, std::span<Index> slots) = 0;

  /// Gradients (slots(), n, d). Valid until the next reservation.
  [[nodiscard]] virtual T* gradients() = 0;
  [[nodiscard]] virtual Index slots() const = 0;

  /// Call before adding column gradients to these slots. Sets begins[q] = 1 if the slot has been empty since
  /// the last update, so that column q overwrites it; otherwise 0.
  virtual void begin_sums(std::span<const Index> slots, std::span<Index> begins) = 0;

  /// *sum += Σ g² over the reserved slots. kernels/loss.hpp says when the sum is complete.
  virtual void add_squares(const Exec& exec, double* sum) = 0;
};

/// Updates of one parameter that its optimiser has counted but postponed, because the losses of those steps
/// did not depend on the parameter. Readers of the value must request the updates first.
template <class T>
class LateUpdates {
 public:
  virtual ~LateUpdates() = default;
  /// Applies the postponed updates. The value is then as if each had run in its own step.
  virtual void make_up() = 0;
  /// Not null for a table of which a step reads some rows; use it row by row instead.
  [[nodiscard]] virtual TableRows<T>* rows() { return nullptr; }
};

}  // namespace rossby
