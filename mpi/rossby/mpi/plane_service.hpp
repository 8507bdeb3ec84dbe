#pragma once

#include <span>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/state_file.hpp"

namespace rossby {

/// Brings planes of arrays that are split over time groups to group 0, which writes them: it asks for planes
/// when it has come to them, the others answer until it has ended. One message with at most a staging slab
/// (64 MiB, or one plane) at a time.
template <class T>
class PlaneService final : public PlaneSource<T> {
 public:
  /// Over the ranks with one row block (ProcessGrid::time()). The arrays are the same in every group but for
  /// the planes that they hold. Collective.
  PlaneService(const Communicator& time, std::span<const StateArray<T>> arrays, Index rows);

  /// In group 0: gives every split array its `elsewhere`, which refers to this object.
  void serve_through(std::span<StateArray<T>> arrays);
  /// In group 0, once the arrays are written or have failed to be.
  void end();
  void fetch(Index array, Index plane, Index count, T* to) override;
  /// In other groups: answers until then.
  void answer(std::span<const StateArray<T>> arrays);

 private:
  struct Request {
    Index array = -1;  // −1: the end
    Index plane = 0;
    Index count = 0;
  };
  Communicator comm_;
  Index rows_;
  std::vector<Index> inner_;  // of each array
  std::vector<Index> first_;  // (groups, arrays): first plane of each group
};

}  // namespace rossby
