#pragma once

#include <span>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/state_file.hpp"

namespace rossby {

/// Collects planes of arrays that are split over time groups on group 0, which writes them. Group 0 requests
/// planes when it needs them; the other groups answer until it ends. One message at a time, with at most one
/// staging slab (64 MiB, or one plane).
template <class T>
class PlaneService final : public PlaneSource<T> {
 public:
  /// Connects the ranks with one row block (ProcessGrid::time()). The arrays are the same in every group
  /// except for the planes that they hold. Collective.
  PlaneService(const Communicator& time, std::span<const StateArray<T>> arrays, Index rows);

  /// In group 0: sets `elsewhere` of every split array to this object.
  void serve_through(std::span<StateArray<T>> arrays);
  /// In group 0: call after the arrays are written, or after writing failed.
  void end();
  void fetch(Index array, Index plane, Index count, T* to) override;
  /// In other groups: answers requests until the end.
  void answer(std::span<const StateArray<T>> arrays);

 private:
  struct Request {
    Index array = -1;  // −1: end of requests
    Index plane = 0;
    Index count = 0;
  };
  Communicator comm_;
  Index rows_;
  std::vector<Index> inner_;  // by array
  std::vector<Index> first_;  // (groups, arrays): first plane of each group
};

}  // namespace rossby
