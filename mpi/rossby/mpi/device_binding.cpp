#include "rossby/mpi/device_binding.hpp"

#include <algorithm>
#include <vector>

#include <mpi.h>

#include "rossby/base/error.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& mine) {
  int size = 1, length = static_cast<int>(mine.size());
  MPI_Comm_size(comm, &size);
  const auto count = static_cast<std::size_t>(size);
  std::vector<int> lengths(count), begins(count + 1);
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm);
  for (std::size_t q = 0; q < count; ++q) begins[q + 1] = begins[q] + lengths[q];
  std::string all(static_cast<std::size_t>(begins[count]), '\0');
  MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, comm);
  std::vector<std::string> texts;
  for (std::size_t q = 0; q < count; ++q)
    texts.push_back(all.substr(static_cast<std::size_t>(begins[q]), static_cast<std::size_t>(lengths[q])));
  return texts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// The GPU of each rank on a host, as index into its own list.
std::vector<std::size_t> take_in_turn(const std::vector<std::vector<std::string>>& seen,
                                      std::map<std::string, int>& ranks_on) {
  std::vector<std::size_t> taken;
  for (const auto& ids : seen) {
    const auto best = std::min_element(
        ids.begin(), ids.end(), [&](const auto& a, const auto& b) { return ranks_on[a] < ranks_on[b]; });
    ++ranks_on[*best];
    taken.push_back(static_cast<std::size_t>(best - ids.begin()));
  }
  return taken;
}

}  // namespace

DeviceBinding bind_devices(const Communicator& comm, std::span<const SeenDevice> seen) {
  require(!seen.empty(), "a rank sees a GPU");
  const int rank = rank_on_host(comm), ranks = ranks_on_host(comm);
  if (comm.is_pretended() || comm.alone_ranks() > 0) {
    // Pretended ranks cannot be asked; assume that they see the same GPUs.
    const int count = static_cast<int>(seen.size()), device = rank % count;
    const int shared = (ranks - device + count - 1) / count;
    return {device, shared, (ranks + count - 1) / count, {{seen[static_cast<std::size_t>(device)].name, 1}}};
  }
  std::string ids;
  for (const SeenDevice& device : seen) ids += device.id + '\n';
  const Wait wait(comm, "a look at the GPUs of all ranks (comm split, allgather)");
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  std::vector<std::vector<std::string>> of_ranks;
  for (const std::string& text : gather_texts(host, ids)) of_ranks.push_back(lines_of(text));
  MPI_Comm_free(&host);
  std::map<std::string, int> ranks_on;
  const std::vector<std::size_t> taken = take_in_turn(of_ranks, ranks_on);

  const auto me = static_cast<std::size_t>(rank);
  const std::string& mine = of_ranks[me][taken[me]];
  DeviceBinding binding{static_cast<int>(taken[me]), ranks_on.at(mine), 1, {}};
  MPI_Allreduce(&binding.ranks, &binding.most, 1, MPI_INT, MPI_MAX, comm.handle());
  bool first = true;  // the first of the ranks that share it counts it
  for (std::size_t q = 0; q < me; ++q) first = first && of_ranks[q][taken[q]] != mine;
  for (const std::string& name : gather_texts(comm.handle(), first ? seen[taken[me]].name : std::string()))
    if (!name.empty()) ++binding.kinds[name];
  return binding;
}

}  // namespace rossby
