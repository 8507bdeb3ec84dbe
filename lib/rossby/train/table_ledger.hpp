#pragma once

#include <vector>

#include "rossby/train/update_ledger.hpp"

namespace rossby {

/// The ledger of a table (T, n, d). A step that touches few of the T rows costs only these rows.
template <class T>
class TableLedger final : public UpdateLedger<T>, private TableRows<T> {
 public:
  /// Removes the parameter's gradient buffer.
  TableLedger(const LedgerArrays<T>& of, bool decoupled);
  ~TableLedger() override;
  TableLedger(const TableLedger&) = delete;
  TableLedger& operator=(const TableLedger&) = delete;

  void make_up() override;
  [[nodiscard]] TableRows<T>* rows() override { return this; }
  void put_off(const Exec& exec, const AdamStep& step) override { (void)update(exec, step); }
  /// Updates reserved rows with their gradients and the other rows with zero.
  Cost update(const Exec& exec, const AdamStep& step) override;
  Cost settle(const Exec& exec) override;
  void write(ParameterBooks& books) const override;
  void restore(const Exec& exec, const ParameterBooks& books) override;

 private:
  Cost bring_up_to_date(const Exec& exec, std::span<const Index> rows) override;
  void reserve(std::span<const Index> rows, std::span<Index> slots) override;
  [[nodiscard]] T* gradients() override { return gradients_.data(); }
  [[nodiscard]] Index slots() const override { return capacity_; }
  void begin_sums(std::span<const Index> slots, std::span<Index> begins) override;
  void add_squares(const Exec& exec, double* sum) override;

  /// Returns the cost of updates of some rows that take `flops` per value.
  [[nodiscard]] Cost replay_cost(Index rows, double flops, bool gradient) const;
  [[nodiscard]] Missed how_missed(Index rows) const;
  void replay(const Exec& exec, Index first, Index rows, std::span<const AdamConstants<T>> steps);
  /// Replays all of `owed_` in one pass. `gradients`: the last update of each uses the gradient of its slot.
  void replay_owed(const Exec& exec, bool gradients, std::span<const AdamConstants<T>> steps, Missed how);
  /// Zeroes the gradients of reserved slots that nothing was added to.
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
  Index settled_ = 0;                      // updates before history_[0]
  std::vector<Index> done_;                // updates that each row has had
  std::vector<AdamConstants<T>> history_;  // of updates settled_ + 1, …, count_
  std::vector<Index> slot_of_;             // of each row; −1: none
  std::vector<Index> reserved_;            // row of each slot
  std::vector<Index> added_;               // 1 for each slot that a gradient was added to
  std::vector<RowUpdates> owed_;           // of the current call
  std::vector<AdamConstants<T>> now_;      // of each slot, or of all
  Index capacity_ = 0;
  Buffer<T> gradients_;  // (capacity, n, d)
};

}  // namespace rossby
