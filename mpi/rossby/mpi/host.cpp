#include "rossby/mpi/host.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <fmt/core.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rossby/mpi/watchdog.hpp"

namespace rossby {

namespace {

struct Place {
  int rank = 0;
  int ranks = 1;
};

Place place_on_host(const Communicator& comm) {
  if (const int each = comm.pretended_on_host(); each > 0) {
    const int first = comm.rank() / each * each;
    return {comm.rank() - first, std::min(each, comm.size() - first)};
  }
  if (comm.alone_ranks() > 0) return {comm.alone_rank(), comm.alone_ranks()};
  const Wait wait(comm, "a count of ranks on a host (comm split)");
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  Place place;
  MPI_Comm_rank(host, &place.rank);
  MPI_Comm_size(host, &place.ranks);
  MPI_Comm_free(&host);
  return place;
}

}  // namespace

int ranks_on_host(const Communicator& comm) {
  return place_on_host(comm).ranks;
}

int rank_on_host(const Communicator& comm) {
  return place_on_host(comm).rank;
}

int hosts_of(const Communicator& comm) {
  if (const int each = comm.pretended_on_host(); each > 0) return (comm.size() + each - 1) / each;
  if (comm.alone_ranks() > 0) return 1;
  int first = rank_on_host(comm) == 0 ? 1 : 0;
  const Wait wait(comm, "a count of hosts (allreduce)");
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_SUM, comm.handle());
  return first;
}

std::string different_numbers(const Communicator& comm, int mine) {
  if (comm.is_pretended() || comm.size() == 1) return "";
  struct Entry {
    int number = 0;
    std::array<char, 64> host{};
    bool operator==(const Entry&) const = default;
  };
  Entry own{mine, {}};
  (void)gethostname(own.host.data(), own.host.size() - 1);
  std::vector<Entry> all(static_cast<std::size_t>(comm.size()));
  {
    const Wait wait(comm, "a comparison of numbers of ranks (allgather)");
    MPI_Allgather(&own, sizeof(Entry), MPI_BYTE, all.data(), sizeof(Entry), MPI_BYTE, comm.handle());
  }
  const auto other = [&](const Entry& entry) { return entry.number != all.front().number; };
  if (std::none_of(all.begin(), all.end(), other)) return "";
  constexpr int named = 4;
  std::string text;
  int groups = 0;
  for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
    while (last < all.size() && all[last] == all[first]) ++last;
    if (++groups > named) continue;
    const std::string ranks =
        last - first == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, last - 1);
    text += fmt::format("{}{} on {} (host {})", text.empty() ? "" : ", ", all[first].number, ranks,
                        all[first].host.data());
  }
  return groups > named ? text + ", …" : text;
}

void release_unused_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void forget_peak_resident() {
  release_unused_memory();
  // Linux: proc(5), clear_refs. Elsewhere the peak remains.
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    (void)std::fputs("5", file);
    (void)std::fclose(file);
  }
}

double resident_bytes() {
  // Linux: proc(5), statm.
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    long all = 0, resident = 0;
    const int read = std::fscanf(file, "%ld %ld", &all, &resident);
    (void)std::fclose(file);
    if (read == 2) return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return peak_resident_bytes();
}

double peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace rossby
