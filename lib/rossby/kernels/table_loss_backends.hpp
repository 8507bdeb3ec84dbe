#pragma once

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/table_loss.hpp"

// Inside lib/rossby/kernels only: table_loss.cpp checks shapes and picks.

// LEAD: `template <class T>` declares, `template` instantiates.
#define ROSSBY_TABLE_LOSSES(LEAD, T)                                                                   \
  LEAD void table_difference(const Exec&, const TableGradient<T>&, const GradientOut<T>&,              \
                             const TableColumns<T>&, NodeView<const T>, bool, double, double*);        \
  LEAD void table_decoded_error(const Exec&, const TableGradient<T>&, T*, const TableColumns<T>&,      \
                                MatrixView<const T>, const TableColumns<float>&, Index, Index, double, \
                                double*, std::span<T>);

namespace rossby::reference {
ROSSBY_TABLE_LOSSES(template <class T>, T)
}
namespace rossby::cpu {
ROSSBY_TABLE_LOSSES(template <class T>, T)
}
