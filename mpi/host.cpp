#include "rossby/mpi/host.hpp"

#include <mpi.h>
#include <sys/resource.h>

#include "rossby/mpi/watchdog.hpp"

namespace rossby {

int ranks_on_host(const Communicator& comm) {
  const Wait wait(comm, "a count of ranks on a host (comm split)");
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int ranks = 1;
  MPI_Comm_size(host, &ranks);
  MPI_Comm_free(&host);
  return ranks;
}

double peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace rossby
