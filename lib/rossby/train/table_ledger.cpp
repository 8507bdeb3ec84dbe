#include "rossby/train/table_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby {

template <class T>
TableLedger<T>::TableLedger(const LedgerArrays<T>& of, bool decoupled)
    : parameter_(of.parameter), first_(of.first), second_(of.second), decoupled_(decoupled) {
  Parameter<T>& parameter = *of.parameter;
  require(parameter.shape.size() == 3, "a table that is updated by rows is (T, n, d)");
  const auto rows = static_cast<std::size_t>(parameter.shape[0]);
  width_ = parameter.shape[1] * parameter.shape[2];
  done_.assign(rows, 0);
  slot_of_.assign(rows, -1);
  parameter.gradient = {};
  parameter.late = this;
}

template <class T>
TableLedger<T>::~TableLedger() {
  parameter_->late = nullptr;
}

template <class T>
void TableLedger<T>::make_up() {
  bug("a table is brought up to date by rows");
}

template <class T>
std::span<T> TableLedger<T>::part(T* table, Index t, Index rows) const {
  if (!table) return {};
  return {table + t * width_, static_cast<std::size_t>(rows * width_)};
}

template <class T>
void TableLedger<T>::replay(const Exec& exec, Index t, Index rows, std::span<const AdamConstants<T>> steps) {
  adam_replay<T>(exec, part(parameter_->data(exec.device), t, rows), part(first_->data(exec.device), t, rows),
                 part(second_->data(exec.device), t, rows), {}, steps, how_missed(rows));
}

template <class T>
void TableLedger<T>::replay_owed(const Exec& exec, bool gradients, std::span<const AdamConstants<T>> steps,
                                 Missed how) {
  const auto table = [&](T* data) { return MatrixView<T>(data, std::ssize(done_), width_); };
  const MatrixView<const T> slopes(gradients ? gradients_.data() : nullptr, gradients ? capacity_ : 0,
                                   width_);
  adam_replay_rows<T>(exec, table(parameter_->data(exec.device)), table(first_->data(exec.device)),
                      table(second_->data(exec.device)), slopes, owed_, steps, how);
  owed_.clear();
}

template <class T>
Missed TableLedger<T>::how_missed(Index rows) const {
  constexpr Index least_hopped = 512;  // below it, the search for hops takes as long as they save
  return rows * width_ < least_hopped ? Missed::one_by_one : Missed::in_hops;
}

template <class T>
Cost TableLedger<T>::replay_cost(Index rows, double flops, bool gradient) const {
  // Values, v and m (if it exists) are read and written; a gradient is read.
  const Index words = rows * width_ * (4 + (first_->size() > 0 ? 2 : 0) + (gradient ? 1 : 0));
  return {flops * static_cast<double>(rows * width_), static_cast<double>(words) * sizeof(T)};
}

template <class T>
Cost TableLedger<T>::bring_up_to_date(const Exec& exec, std::span<const Index> rows) {
  Cost cost;
  if (closed_) return cost;
  Index earliest = count_;
  for (std::size_t first = 0; first < rows.size();) {
    const Index t = rows[first], done = done_[static_cast<std::size_t>(t)];
    // Join neighbours that have missed the same updates.
    std::size_t last = first;
    Index end = t;
    do {
      done_[static_cast<std::size_t>(end++)] = count_;
    } while (++last < rows.size() && rows[last] == end && done_[static_cast<std::size_t>(end)] == done);
    if (done < count_) {
      const std::span<const AdamConstants<T>> missed =
          std::span(history_).subspan(static_cast<std::size_t>(done - settled_));
      if (exec.device) {  // all rows in one launch: launches take longer than a few values
        for (Index row = t; row < end; ++row) owed_.push_back({row, done, count_});
      } else {
        replay(exec, t, end - t, missed);
      }
      earliest = std::min(earliest, done);
      cost += replay_cost(end - t, replay_flops(exec, missed, how_missed(end - t)), false);
    }
    first = last;
  }
  if (owed_.empty()) return cost;
  for (RowUpdates& of : owed_) of = {of.row, of.begin - earliest, of.end - earliest};
  replay_owed(exec, false, std::span(history_).subspan(static_cast<std::size_t>(earliest - settled_)),
              Missed::in_hops);
  return cost;
}

template <class T>
void TableLedger<T>::reserve(std::span<const Index> rows, std::span<Index> slots) {
  for (std::size_t q = 0; q < rows.size(); ++q) {
    Index& slot = slot_of_[static_cast<std::size_t>(rows[q])];
    if (slot < 0) {
      slot = std::ssize(reserved_);
      reserved_.push_back(rows[q]);
      added_.push_back(0);
    }
    slots[q] = slot;
  }
  if (std::ssize(reserved_) <= capacity_) return;
  // A slab reserves its targets and its sources, two sets of the same size.
  const Index had = capacity_;
  capacity_ = std::max<Index>(std::ssize(reserved_), 2 * std::ssize(rows));
  capacity_ = std::min(capacity_, parameter_->shape[0]);
  const bool kept = std::any_of(added_.begin(), added_.end(), [](Index added) { return added != 0; });
  require(!kept || !parameter_->device, "rows of a device's table are reserved before gradients are added");
  Buffer<T> before = std::exchange(gradients_, Buffer<T>());
  if (!kept) before = {};
  const Device::For purpose(parameter_->device, "gradients of rows of " + parameter_->name,
                            "fewer steps per slab (train.slab_steps)");
  gradients_ = Buffer<T>(capacity_ * width_, parameter_->device);
  if (kept) std::copy_n(before.data(), had * width_, gradients_.data());
}

template <class T>
void TableLedger<T>::begin_sums(std::span<const Index> slots, std::span<Index> begins) {
  for (std::size_t q = 0; q < slots.size(); ++q) {
    Index& added = added_[static_cast<std::size_t>(slots[q])];
    begins[q] = 1 - added;
    added = 1;
  }
}

template <class T>
void TableLedger<T>::clear_others(const Exec& exec) {
  for (std::size_t slot = 0; slot < added_.size(); ++slot) {
    if (added_[slot] == 0) clear(exec, gradients_.data() + static_cast<Index>(slot) * width_, width_);
    added_[slot] = 1;
  }
}

template <class T>
void TableLedger<T>::forget_step() {
  for (const Index t : reserved_) slot_of_[static_cast<std::size_t>(t)] = -1;
  reserved_.clear();
  added_.clear();
}

template <class T>
void TableLedger<T>::add_squares(const Exec& exec, double* sum) {
  clear_others(exec);
  sum_of_squares<T>(exec, gradients_.span().first(reserved_.size() * static_cast<std::size_t>(width_)), sum);
}

template <class T>
Cost TableLedger<T>::update(const Exec& exec, const AdamStep& step) {
  Cost cost;
  require(step.count == count_ + 1, "updates of a table are counted one by one");
  const bool closed = step.beta1 == 0 && step.decay == 0;
  require(count_ == 0 || closed == closed_, "decay and beta1 of a table do not change while it is trained");
  closed_ = closed;
  beta2_ = step.beta2;
  count_ = step.count;
  if (!closed_) history_.push_back(adam_constants<T>(step, decoupled_));
  clear_others(exec);
  now_.clear();
  for (const Index t : reserved_) {
    Index& done = done_[static_cast<std::size_t>(t)];
    AdamStep mine = step;
    if (closed_) mine.missed = count_ - done - 1;
    if (closed_ || now_.empty()) now_.push_back(adam_constants<T>(mine, decoupled_));
    owed_.push_back({t, std::ssize(now_) - 1, std::ssize(now_)});
    cost += replay_cost(1, adam_flops, true);
    done = count_;
  }
  replay_owed(exec, true, now_, how_missed(1));
  forget_step();
  return cost;
}

template <class T>
Cost TableLedger<T>::settle(const Exec& exec) {
  Cost cost;
  now_.clear();
  if (closed_) {
    for (std::size_t t = 0; t < done_.size(); ++t) {
      if (done_[t] == count_) continue;
      cost += {static_cast<double>(width_), 2.0 * static_cast<double>(width_) * sizeof(T)};
      const T factor = static_cast<T>(std::pow(beta2_, static_cast<double>(count_ - done_[t])));
      done_[t] = count_;
      if (exec.device) {  // all rows in one launch, without gradient; it changes only v
        owed_.push_back({static_cast<Index>(t), std::ssize(now_), std::ssize(now_) + 1});
        AdamConstants<T> constants{};
        constants.beta2 = factor;
        constants.root_correction = constants.epsilon = constants.keep = 1;
        now_.push_back(constants);
        continue;
      }
      const NodeView<T> v(part(second_->data(exec.device), static_cast<Index>(t), 1).data(), 1, 1, width_);
      scale<T>(exec, v, factor, v);
    }
    replay_owed(exec, false, now_, Missed::one_by_one);
  } else {
    std::vector<Index> all(done_.size());
    std::iota(all.begin(), all.end(), Index{0});
    cost = bring_up_to_date(exec, all);
  }
  history_.clear();
  settled_ = count_;
  return cost;
}

template <class T>
void TableLedger<T>::write(ParameterBooks& of) const {
  TableBooks& books = of.table;
  books.closed = closed_;
  books.beta2 = beta2_;
  books.count = count_;
  books.settled = settled_;
  for (const Index done : done_) add_run(books.done, done);
  for (const AdamConstants<T>& constants : history_) books.history.push_back(pack(constants));
}

template <class T>
void TableLedger<T>::restore(const Exec&, const ParameterBooks& of) {
  const TableBooks& books = of.table;
  const auto fits = [&](bool holds) {
    if (!holds)
      user_error("the list of late updates of '{}' does not belong to this table", parameter_->name);
  };
  fits(books.settled <= books.count);
  fits(books.closed ? books.history.empty() : std::ssize(books.history) == books.count - books.settled);
  const bool split = parameter_->split();  // the books cover the rows of all groups
  const Index all = split ? parameter_->outer_all : std::ssize(done_);
  std::vector<Index> done;
  done.reserve(static_cast<std::size_t>(all));
  for (const auto& [updates, rows] : books.done) {
    fits(updates >= (books.closed ? 0 : books.settled) && updates <= books.count && rows > 0);
    fits(rows <= all - std::ssize(done));
    done.insert(done.end(), static_cast<std::size_t>(rows), updates);
  }
  fits(std::ssize(done) == all);
  if (split) {
    const auto first = done.begin() + parameter_->outer_first;
    done = std::vector<Index>(first, first + std::ssize(done_));
  }
  closed_ = books.closed;
  beta2_ = books.beta2;
  count_ = books.count;
  settled_ = books.settled;
  done_ = std::move(done);
  history_.clear();
  for (const UpdateConstants& constants : books.history) history_.push_back(unpack<T>(constants));
  forget_step();
}

template class TableLedger<float>;
template class TableLedger<double>;

}  // namespace rossby
