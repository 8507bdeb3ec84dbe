#include <cstdio>

#include "rossby/mpi/environment.hpp"

// Starts and ends MPI and PETSc through the installed library.
int main() {
  const rossby::Environment environment;
  const rossby::Communicator world = environment.world();
  world.barrier();
  std::printf("rank %d of %d\n", world.rank(), world.size());
  return world.size() >= 1 ? 0 : 1;
}
