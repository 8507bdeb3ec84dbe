#pragma once

#include "rossby/kernels/device/launch.hpp"
#include "rossby/relation/relation_block.hpp"

namespace rossby::ROSSBY_DEVICE {

/// The arrays of a CsrBlock on the device; CsrBlock documents them.
struct DeviceCsr {
  Index rows;
  int relations;
  const LocalEntry* ptr;
  const LocalColumn* column;
  const LocalEntry* t_ptr;
  const LocalColumn* t_row;
  const LocalEntry* t_entry;
  const RelationNumber* t_relation;
  const RelationNumber* relation;

  DeviceCsr(const Exec& exec, const CsrBlock& block)
      : rows(block.rows),
        relations(block.relations),
        ptr(copy(exec, block.ptr)),
        column(copy(exec, block.column)),
        t_ptr(copy(exec, block.t_ptr)),
        t_row(copy(exec, block.t_row)),
        t_entry(copy(exec, block.t_entry)),
        t_relation(copy(exec, block.t_relation)),
        relation(copy(exec, block.relation)) {}

 private:
  template <class V>
  static const V* copy(const Exec& exec, const std::vector<V>& host) {
    return exec.device->on_device(std::span<const V>(host));
  }
};

/// Node data whose columns are owned rows, then ghosts.
template <class T>
struct Columns {
  NodeView<const T> owned, ghost;
  ROSSBY_ON_DEVICE const T* at(Index column, Index b) const {
    return column < owned.rows ? owned.at(column, b) : ghost.at(column - owned.rows, b);
  }
};

}  // namespace rossby::ROSSBY_DEVICE
