#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <mpi.h>

#include "rossby/mpi/environment.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/exit_code.hpp"

namespace {

const rossby::Communicator* all_ranks = nullptr;

/// Prints the failures of this rank, each with its rank. GoogleTest itself prints only on rank 0.
class FailuresOfRank : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOfRank(int rank) : rank_(rank) {}
  void OnTestStart(const testing::TestInfo& test) override {
    // Kept here because GoogleTest holds the lock of current_test_info() while it reports a result.
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d\n%s\n", rank_, test_.c_str(),
                 result.file_name() ? result.file_name() : "-", result.line_number(), result.message());
    std::fflush(stderr);
  }

 private:
  int rank_;
  std::string test_ = "-";
};

}  // namespace

const rossby::Communicator& rossby::test::environment_world() {
  return *all_ranks;
}

int main(int argc, char** argv) {
#ifdef ROSSBY_TEST_THREADS  // several of them call MPI
  const rossby::Environment environment(rossby::ThreadLevel::multiple, false);
#else
  const rossby::Environment environment;
#endif
  const rossby::Communicator world = environment.world();
  all_ranks = &world;
  testing::InitGoogleTest(&argc, argv);
  // An unexpected exception ends the job at once; otherwise the other ranks would wait for ever.
  if (world.size() > 1) GTEST_FLAG_SET(catch_exceptions, false);
  if (world.rank() != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOfRank(world.rank()));
  }
  const int mine = RUN_ALL_TESTS();
  int worst = mine;
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, world.handle());
  if (worst != 0) return worst;
  // Skipped only if every rank skipped everything.
  const int code = rossby::test::exit_code(mine);
  int agreed = code;
  MPI_Allreduce(&code, &agreed, 1, MPI_INT, MPI_MIN, world.handle());
  return agreed;
}
