#include "rossby/mpi/unit_types.hpp"

#include <limits>

#include "rossby/base/error.hpp"

namespace rossby {

UnitTypes::~UnitTypes() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  for (auto& [key, type] : types_) MPI_Type_free(&type);
}

MPI_Datatype UnitTypes::get(MPI_Datatype scalar, std::size_t size, Index width) {
  require(width > 0 && width <= std::numeric_limits<int>::max(), "a row has 1 to 2^31 - 1 values");
  const auto [place, fresh] = types_.try_emplace({size, width}, MPI_DATATYPE_NULL);
  if (fresh) {
    MPI_Type_contiguous(static_cast<int>(width), scalar, &place->second);
    MPI_Type_commit(&place->second);
  }
  return place->second;
}

}  // namespace rossby
