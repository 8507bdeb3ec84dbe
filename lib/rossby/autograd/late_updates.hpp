#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// The rows of a table (T, n, d) of which a step reads and changes few: gradients exist for those alone, and
/// the others are brought up to date when they are read again.
template <class T>
class TableRows {
 public:
  virtual ~TableRows() = default;

  /// Makes the values of these rows what an optimiser that updates the whole table each step would have made
  /// them. Returns what that cost.
  virtual Cost bring_up_to_date(const Exec& exec, std::span<const Index> rows) = 0;

  /// Slots for the gradients of these rows: slots[q] of rows[q]. Valid until the update of this step.
  virtual void reserve(std::span<const Index> rows, std::span<Index> slots) = 0;

  /// Gradients (slots(), n, d). Valid until the next reservation.
  [[nodiscard]] virtual T* gradients() = 0;
  [[nodiscard]] virtual Index slots() const = 0;

  /// Before the gradients of columns are added to these slots: begins[q] = 1 where nothing was since the last
  /// update, and column q is to be stored there, not added to what the slot holds; else 0.
  virtual void begin_sums(std::span<const Index> slots, std::span<Index> begins) = 0;

  /// *sum += Σ g² over the reserved slots; when, says kernels/loss.hpp.
  virtual void add_squares(const Exec& exec, double* sum) = 0;
};

/// Updates of one parameter that its optimiser has counted and not yet made, because the losses of their
/// steps did not depend on it. Whoever reads the value asks for them first.
template <class T>
class LateUpdates {
 public:
  virtual ~LateUpdates() = default;
  /// Makes the value what it would be had they been made in their steps.
  virtual void make_up() = 0;
  /// Not null for a table of which a step reads some rows: asked row by row instead.
  [[nodiscard]] virtual TableRows<T>* rows() { return nullptr; }
};

}  // namespace rossby
