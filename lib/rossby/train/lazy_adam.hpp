#pragma once

#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/tensor/twin.hpp"
#include "rossby/train/training_state.hpp"

namespace rossby {

/// Adam or AdamW for a table (T, n, d) of which a step touches few of the T rows, with the values of the
/// optimiser that updates all of them each step: a row that a step does not depend on has gradient zero
/// there, but its decay and moments go on. Those missed updates are caught up when the row is read again:
///
///   beta1 = 0 and no decay   in closed form: the value stands still, v is multiplied by beta2^missed
///   otherwise                in one streaming pass that replays them in registers: doubles equal to the bit,
///                            floats of a host in hops of several updates (adam_replay in optimiser.hpp)
///
/// so that a step costs the rows that it touches, not T.
template <class T>
class LazyAdam final : public TableSink<T> {
 public:
  /// `first` is empty where beta1 = 0. Takes the parameter's gradient buffer away.
  LazyAdam(Parameter<T>& parameter, Twin<T>& first, Twin<T>& second, bool decoupled);
  ~LazyAdam() override;
  LazyAdam(const LazyAdam&) = delete;
  LazyAdam& operator=(const LazyAdam&) = delete;

  Cost bring_up_to_date(const Exec& exec, std::span<const Index> rows) override;
  void reserve(std::span<const Index> rows, std::span<Index> slots) override;
  [[nodiscard]] T* gradients() override { return gradients_.data(); }
  [[nodiscard]] Index slots() const override { return capacity_; }
  void begin_sums(std::span<const Index> slots, std::span<Index> begins) override;
  void add_squares(const Exec& exec, double* sum) override;

  /// Update number step.count: of the reserved rows with their gradients, of the others with zero. Returns
  /// what it cost.
  Cost update(const Exec& exec, const AdamStep& step);

  /// Makes up for all missed updates: before anything but a step reads the table or its moments.
  Cost settle(const Exec& exec);

  /// Between two steps: what is owed to whom, of the rows that are held. `restore` takes it back (the moments
  /// and the table are the caller's), with all groups' rows where the table is split, and forgets a step that
  /// was begun. Throws UserError where the books cannot be of this table.
  [[nodiscard]] TableBooks books() const;
  void restore(const TableBooks& books);

 private:
  /// Of updates of some rows that take so many flops a value.
  [[nodiscard]] Cost replay_cost(Index rows, double flops, bool gradient) const;
  [[nodiscard]] Missed how_missed(Index rows) const;
  void replay(const Exec& exec, Index first, Index rows, std::span<const AdamConstants<T>> steps);
  /// All of `owed_` in one pass; `gradients` of the slots, in their order, with the last update of each.
  void replay_owed(const Exec& exec, bool gradients, std::span<const AdamConstants<T>> steps, Missed how);
  /// Gradients of reserved slots that nothing was added to.
  void clear_others(const Exec& exec);
  void forget_step();
  [[nodiscard]] std::span<T> part(T* table, Index first, Index rows) const;

  Parameter<T>* parameter_;
  Twin<T>* first_;
  Twin<T>* second_;
  bool decoupled_;
  bool closed_ = false;  // missed updates have a closed form
  double beta2_ = 0;
  Index width_;                            // n·d
  Index count_ = 0;                        // updates so far
  Index settled_ = 0;                      // of them before history_[0]
  std::vector<Index> done_;                // updates that each row has had
  std::vector<AdamConstants<T>> history_;  // of updates settled_ + 1, …, count_
  std::vector<Index> slot_of_;             // of each row; −1: none
  std::vector<Index> reserved_;            // row of each slot
  std::vector<Index> added_;               // to each slot: 1
  std::vector<RowUpdates> owed_;           // of the call at hand
  std::vector<AdamConstants<T>> now_;      // of each slot, or of all
  Index capacity_ = 0;
  Buffer<T> gradients_;  // (capacity, n, d)
};

}  // namespace rossby
