#include "rossby/exchange/traced.hpp"

#include "rossby/base/error.hpp"

namespace rossby {

std::vector<HaloCounts> halo_counts(const RowPartition& partition, std::span<const GhostList> ghosts) {
  require(static_cast<int>(ghosts.size()) == partition.parts(), "one ghost list for each part");
  std::vector<HaloCounts> counts(ghosts.size());
  for (std::size_t p = 0; p < ghosts.size(); ++p) {
    counts[p].owned = partition.size(static_cast<int>(p));
    counts[p].ghosts = std::ssize(ghosts[p]);
    int before = -1;  // ghosts ascend: those of one owner are contiguous
    for (const Position ghost : ghosts[p]) {
      const int owner = partition.owner(ghost);
      HaloCounts& sender = counts[static_cast<std::size_t>(owner)];
      ++sender.rows_sent;
      if (owner == before) continue;
      ++sender.receivers;
      ++counts[p].owners;
      before = owner;
    }
  }
  return counts;
}

TracedAllRows::TracedAllRows(const RowPartition& partition, int part)
    : rows_(partition.rows()), owned_(partition.size(part)), parts_(partition.parts()) {
  for (int p = 0; p < partition.parts(); ++p) others_ += p != part && partition.size(p) > 0 ? 1 : 0;
}

}  // namespace rossby
