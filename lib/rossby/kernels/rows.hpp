#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

// Packs rows of node data into messages and adds them back, for exchanges between devices. Lists are host
// arrays.

namespace rossby {

/// out (rows.size(), B, c) = the named rows of x, packed.
template <class T>
void gather_rows(const Exec& exec, T* out, NodeView<const T> x, std::span<const LocalColumn> rows) {
  dispatch<gather_rows<T>>(exec, out, x, rows);
}

/// Maps rows to the places of a message: rows[k] takes places position[ptr[k]] … position[ptr[k + 1] − 1], in
/// this order.
struct RowSums {
  std::span<const LocalColumn> rows;  // distinct
  std::span<const LocalEntry> ptr;    // rows.size() + 1
  std::span<const LocalEntry> position;
};

/// Rows of y (n, B, c) += those of in (places, B, c), packed.
template <class T>
void scatter_add_rows(const Exec& exec, NodeView<T> y, const T* in, const RowSums& sums) {
  require(sums.ptr.size() == sums.rows.size() + 1, "a list of places for every row");
  dispatch<scatter_add_rows<T>>(exec, y, in, sums);
}

}  // namespace rossby
