#include "rossby/relation/row_cost.hpp"

#include "rossby/base/error.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {

std::vector<double> row_costs(const GlobalEdges& edges, double row_cost, double entry_cost) {
  std::vector<double> costs(static_cast<std::size_t>(edges.rows));
  const auto r = static_cast<std::size_t>(edges.relations);
  for (std::size_t i = 0; i < costs.size(); ++i)
    costs[i] = row_cost + entry_cost * static_cast<double>(edges.ptr[(i + 1) * r] - edges.ptr[i * r]);
  return costs;
}

std::vector<double> gather_by_global_row(std::span<const double> owned, const RowPartition& partition,
                                         Mailbox& mailbox) {
  require(static_cast<Index>(owned.size()) == partition.size(mailbox.part()), "one value an owned row");
  require(mailbox.parts() == partition.parts(), "a mailbox for every part of the partition");
  std::vector<std::byte> letter;
  write(letter, owned);
  const Letters received = mailbox.swap(Letters(static_cast<std::size_t>(mailbox.parts()), letter));
  std::vector<double> by_row(static_cast<std::size_t>(partition.rows()));
  for (int p = 0; p < partition.parts(); ++p) {
    LetterReader reader(received[static_cast<std::size_t>(p)]);
    for (const GlobalRow row : partition.rows_of(p))
      by_row[static_cast<std::size_t>(row.value)] = reader.read<double>();
    require(reader.done(), "one value an owned row");
  }
  return by_row;
}

}  // namespace rossby
