#pragma once

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/row_link.hpp"

namespace rossby {

// Tables (T, n, d) whose rows of T are split over time groups: the next group needs the last row of this one.
// Both groups record their half in the same step. The lending group records it first, so that its wait for
// the gradient comes last in backward.

/// Sends row `row` to a group. Backward adds the gradient that the group returns.
template <class T>
void lend_row(Tape<T>& tape, Parameter<T>& table, Index row, RowLink& link, int group);

/// Returns the row (rows, 1, d) that a group lends. Backward returns its gradient to that group.
template <class T>
[[nodiscard]] Var<T> borrow_row(Tape<T>& tape, Index rows, Index channels, RowLink& link, int group);

/// Returns y (rows, B_a + B_b, d): the columns of a, then those of b.
template <class T>
[[nodiscard]] Var<T> join_columns(Tape<T>& tape, const Var<T>& a, const Var<T>& b);

}  // namespace rossby
