#pragma once

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/row_link.hpp"

namespace rossby {

// A table (T, n, d) whose rows of T are split over time groups: what the group behind needs of the last row
// here. Both groups record their half in the same step; the group that lends records it before all else, so
// that its wait for the gradient is the last thing its backward does.

/// Sends row `row` to a group, and in backward adds the gradient that comes back from it.
template <class T>
void lend_row(Tape<T>& tape, Parameter<T>& table, Index row, RowLink& link, int group);

/// The row (rows, 1, d) that a group lends; its gradient goes back there.
template <class T>
[[nodiscard]] Var<T> borrow_row(Tape<T>& tape, Index rows, Index channels, RowLink& link, int group);

/// y (rows, B_a + B_b, d) = the columns of a, then those of b.
template <class T>
[[nodiscard]] Var<T> join_columns(Tape<T>& tape, const Var<T>& a, const Var<T>& b);

}  // namespace rossby
