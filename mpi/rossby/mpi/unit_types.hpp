#pragma once

#include <map>
#include <utility>

#include <mpi.h>

#include "rossby/base/index.hpp"

namespace rossby {

/// The MPI type of a scalar.
template <class T>
[[nodiscard]] MPI_Datatype mpi_scalar();
template <>
[[nodiscard]] inline MPI_Datatype mpi_scalar<float>() {
  return MPI_FLOAT;
}
template <>
[[nodiscard]] inline MPI_Datatype mpi_scalar<double>() {
  return MPI_DOUBLE;
}

/// Committed MPI types for one row of `width` scalars each, created at first use and kept. Message counts are
/// then in rows, which fit into 31 bits; bytes might not.
class UnitTypes {
 public:
  UnitTypes() = default;
  UnitTypes(const UnitTypes&) = delete;
  UnitTypes& operator=(const UnitTypes&) = delete;
  ~UnitTypes();

  template <class T>
  [[nodiscard]] MPI_Datatype row(Index width) {
    return get(mpi_scalar<T>(), sizeof(T), width);
  }

 private:
  MPI_Datatype get(MPI_Datatype scalar, std::size_t size, Index width);
  std::map<std::pair<std::size_t, Index>, MPI_Datatype> types_;  // by (scalar bytes, width)
};

}  // namespace rossby
