#include "rossby/run/row_move.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {

RowMove::RowMove(const Communicator& comm, const RowPartition& from, const RowPartition& to)
    : mailbox_(comm), rows_(to.size(comm.rank())) {
  require(from.rows() == to.rows(), "both partitions are of the same rows");
  for (Index row = 0; row < from.rows() && !moves_; ++row)
    moves_ = from.position(GlobalRow{row}).value != to.position(GlobalRow{row}).value ||
             from.owner(GlobalRow{row}) != to.owner(GlobalRow{row});
  if (!moves_) return;
  for (const GlobalRow row : from.rows_of(comm.rank())) owner_.push_back(to.owner(row));
  for (int part = 0; part < from.parts(); ++part)
    for (const GlobalRow row : from.rows_of(part))
      if (to.owner(row) == comm.rank()) arriving_.push_back(to.position(row).value - to.begin(comm.rank()));
}

template <class T>
NodeView<const float> RowMove::operator()(NodeView<const T> x) {
  const auto width = static_cast<std::size_t>(x.width());
  values_.resize(static_cast<std::size_t>(x.rows) * width);
  float* to = values_.data();
  for (Index i = 0; i < x.rows; ++i)
    for (Index b = 0; b < x.cols; ++b, to += x.channels)
      std::transform(x.at(i, b), x.at(i, b) + x.channels, to,
                     [](T value) { return static_cast<float>(value); });
  if (!moves_) return {values_.data(), x.rows, x.cols, x.channels};
  Letters messages(static_cast<std::size_t>(mailbox_.parts()));
  for (std::size_t i = 0; i < owner_.size(); ++i)
    write(messages[static_cast<std::size_t>(owner_[i])],
          std::span<const float>(values_).subspan(i * width, width));
  messages = mailbox_.swap(std::move(messages));
  moved_.resize(static_cast<std::size_t>(rows_) * width);
  std::size_t next = 0;
  for (const auto& message : messages)
    for (LetterReader reader(message); !reader.done(); ++next)
      reader.read(std::span<float>(moved_).subspan(static_cast<std::size_t>(arriving_[next]) * width, width));
  require(next == arriving_.size(), "each row arrives once");
  return {moved_.data(), rows_, x.cols, x.channels};
}

template NodeView<const float> RowMove::operator()(NodeView<const float>);
template NodeView<const float> RowMove::operator()(NodeView<const double>);

}  // namespace rossby
