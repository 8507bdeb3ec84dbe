#include "rossby/mpi/plane_service.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

/// An MPI type for a plane, so that counts fit into ints.
struct Plane {
  Plane(Index values, MPI_Datatype of) {
    MPI_Type_contiguous(static_cast<int>(values), of, &type);
    MPI_Type_commit(&type);
  }
  ~Plane() { MPI_Type_free(&type); }
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

template <class T>
MPI_Datatype scalar() {
  return sizeof(T) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
}

}  // namespace

template <class T>
PlaneService<T>::PlaneService(const Communicator& time, std::span<const StateArray<T>> arrays, Index rows)
    : comm_(time), rows_(rows), first_(static_cast<std::size_t>(time.size()) * arrays.size()) {
  std::vector<Index> mine;
  for (const StateArray<T>& array : arrays) {
    mine.push_back(array.held >= 0 ? array.first : 0);
    inner_.push_back(array.inner);
  }
  const Wait wait(comm_, "who holds which time steps (allgather)");
  MPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_INT64_T, first_.data(),
                static_cast<int>(mine.size()), MPI_INT64_T, comm_.handle());
}

template <class T>
void PlaneService<T>::serve_through(std::span<StateArray<T>> arrays) {
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    arrays[a].elsewhere = this;
    arrays[a].number = static_cast<Index>(a);
  }
}

template <class T>
void PlaneService<T>::fetch(Index array, Index plane, Index count, T* to) {
  const Index inner = inner_[static_cast<std::size_t>(array)];
  const auto arrays = static_cast<Index>(first_.size()) / comm_.size();
  const auto first = [&](int group) { return first_[static_cast<std::size_t>(group * arrays + array)]; };
  while (count > 0) {
    int holder = comm_.size() - 1;
    while (holder > 0 && first(holder) > plane) --holder;
    require(holder > 0, "planes of other groups are asked for");
    const Index end = holder + 1 < comm_.size() ? std::min(plane + count, first(holder + 1)) : plane + count;
    const Request request{array, plane, end - plane};
    MPI_Send(&request, 3, MPI_INT64_T, holder, 0, comm_.handle());
    const Plane type(rows_ * inner, scalar<T>());
    const Wait wait(comm_, "time steps of another group for a state file (point to point)");
    MPI_Recv(to, static_cast<int>(request.count), type.type, holder, 0, comm_.handle(), MPI_STATUS_IGNORE);
    to += request.count * rows_ * inner;
    plane += request.count;
    count -= request.count;
  }
}

template <class T>
void PlaneService<T>::end() {
  const Request none;
  for (int group = 1; group < comm_.size(); ++group)
    MPI_Send(&none, 3, MPI_INT64_T, group, 0, comm_.handle());
}

template <class T>
void PlaneService<T>::answer(std::span<const StateArray<T>> arrays) {
  while (true) {
    Request request;
    {
      const Wait wait(comm_, "the writing of a state file by the first time group (point to point)");
      MPI_Recv(&request, 3, MPI_INT64_T, 0, 0, comm_.handle(), MPI_STATUS_IGNORE);
    }
    if (request.array < 0) return;
    const StateArray<T>& array = arrays[static_cast<std::size_t>(request.array)];
    const Index plane = rows_ * array.inner;
    const Plane type(plane, scalar<T>());
    MPI_Send(array.data + (request.plane - array.first) * plane, static_cast<int>(request.count), type.type,
             0, 0, comm_.handle());
  }
}

template class PlaneService<float>;
template class PlaneService<double>;

}  // namespace rossby
