# rossby_lib_test(<name> SOURCES ... LINK targets... [NIGHTLY_SANITIZED] [LABELS ...])
#     one process, main of tests/support/main.cpp
# rossby_mpi_test(<name> SOURCES ... LINK targets... RANKS 1 2 3 [NIGHTLY_RANKS 4] [NIGHTLY_SANITIZED] [LABELS ...])
#     one CTest entry per rank count, main of tests/mpi/main.cpp; only the nightly steps run NIGHTLY_RANKS
#     NIGHTLY_SANITIZED: only the nightly steps run it under sanitizers, because other tests touch the same memory, or
#     it has none of its own to manage. The test has the label nightly_sanitized, and target brief_library_tests leaves
#     it out.
# rossby_command_test(<name> COMMAND ... [LABELS ...])
#     any command; exit code 77 means skipped
# rossby_nightly_test(<name> COMMAND ... TIMEOUT seconds [LABELS ...])
#     a long one: only the nightly steps run it (ctest -C Nightly)
# rossby_fuzz_target(<name> SOURCES ... LINK targets... [LABELS ...])
#     fuzz_<name> from a source with LLVMFuzzerTestOneInput; its CTest entry fuzz_corpus_<name> runs every file of
#     tests/fuzz/corpus/<name> once; only builds with sanitizers have those of tests/fuzz
#
# A test program returns 77 if all of its tests were skipped (tests/support/exit_code.hpp); a regular expression on
# its output would not do, because CTest gives a matching one precedence over failures.

# Ranks share cores here: waiting ranks yield, are not bound, and may outnumber the cores.
set(ROSSBY_TEST_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1"
    "OMPI_MCA_hwloc_base_binding_policy=none;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_pml=ob1"
    "OMPI_MCA_btl=self,vader,tcp;OMPI_MCA_btl_vader_single_copy_mechanism=none"
    "OPENBLAS_NUM_THREADS=1;SCOTCH_PTHREAD_NUMBER=1"
    # A sixth of a start on two ranks went into a list of PCI devices.
    "HWLOC_COMPONENTS=-pci,-opencl,-gl,-cuda,-nvml,-rsmi,-levelzero,-linuxio")
set(ROSSBY_MPI_TEST_ENVIRONMENT ${ROSSBY_TEST_ENVIRONMENT} "OMP_NUM_THREADS=1")
if(ROSSBY_SANITIZE MATCHES "address")
  # Open MPI never frees memory of MPI_Init, so only tests without MPI check for leaks.
  list(APPEND ROSSBY_MPI_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  list(APPEND ROSSBY_TEST_ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp")
endif()
if(ROSSBY_SANITIZE MATCHES "thread")
  set(TSAN "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:ignore_noninstrumented_modules=1")
  list(APPEND ROSSBY_TEST_ENVIRONMENT ${TSAN})
  list(APPEND ROSSBY_MPI_TEST_ENVIRONMENT ${TSAN})
endif()

# Tests call code with checks. With checks of their own they would compile in one and a half times the time.
set(ROSSBY_TEST_OPTIONS rossby_options)
if(ROSSBY_SANITIZE AND NOT ROSSBY_SANITIZE_ALL)
  list(APPEND ROSSBY_TEST_OPTIONS rossby_not_sanitized)
endif()

add_library(rossby_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/main.cpp)
target_include_directories(rossby_test_main PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(rossby_test_main PUBLIC GTest::gtest PRIVATE rossby_options)

# Builds the tests of lib/ and mpi/, without the program and its tests.
add_custom_target(library_tests)
add_custom_target(brief_library_tests)
add_dependencies(library_tests brief_library_tests)

# Adds a test program to the targets above, and its further label to LABELS.
macro(rossby_library_test NAME NIGHTLY_SANITIZED LABELS)
  if(${NIGHTLY_SANITIZED})
    add_dependencies(library_tests test_${NAME})
    list(APPEND ${LABELS} nightly_sanitized)
  else()
    add_dependencies(brief_library_tests test_${NAME})
  endif()
endmacro()

# Sets the properties of every CTest entry: labels, time limit, meaning of 77.
function(rossby_set_test_properties NAME)
  cmake_parse_arguments(TEST "" "PROCESSORS" "LABELS;ENVIRONMENT" ${ARGN})
  set_tests_properties(${NAME} PROPERTIES LABELS "${TEST_LABELS}" ENVIRONMENT "${TEST_ENVIRONMENT}" TIMEOUT 300
                                          PROCESSORS ${TEST_PROCESSORS} SKIP_RETURN_CODE 77)
  if(ROSSBY_SANITIZE)
    set_tests_properties(${NAME} PROPERTIES TIMEOUT 600)
  endif()
endfunction()

function(rossby_lib_test NAME)
  cmake_parse_arguments(TEST "KERNELS;NIGHTLY_SANITIZED" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES})
  rossby_unity(test_${NAME})
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_LINK} ${ROSSBY_TEST_OPTIONS} rossby_test_main)
  target_compile_options(test_${NAME} PRIVATE ${ROSSBY_COLD_OPTIONS})
  rossby_library_test(${NAME} TEST_NIGHTLY_SANITIZED TEST_LABELS)
  add_test(NAME ${NAME} COMMAND test_${NAME})
  rossby_set_test_properties(${NAME} PROCESSORS 1 LABELS lib ${TEST_LABELS} ENVIRONMENT ${ROSSBY_TEST_ENVIRONMENT})
  # A GPU promises no order of threads. Launches try several orders in turn; nightly, each launch tries every order.
  if(TEST_KERNELS)
    foreach(THREADS down scattered)
      add_test(NAME ${NAME}.${THREADS} CONFIGURATIONS Nightly COMMAND test_${NAME} --gtest_filter=Simulated/*)
      rossby_set_test_properties(${NAME}.${THREADS} PROCESSORS 1 LABELS lib
                                 ENVIRONMENT ${ROSSBY_TEST_ENVIRONMENT} ROSSBY_TEST_THREADS=${THREADS})
    endforeach()
  endif()
endfunction()

function(rossby_mpi_test NAME)
  cmake_parse_arguments(TEST "NIGHTLY_SANITIZED" "" "SOURCES;LINK;LABELS;RANKS;NIGHTLY_RANKS" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES} ${PROJECT_SOURCE_DIR}/tests/mpi/main.cpp)
  rossby_unity(test_${NAME})
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_LINK} ${ROSSBY_TEST_OPTIONS} GTest::gtest)
  target_compile_options(test_${NAME} PRIVATE ${ROSSBY_COLD_OPTIONS})
  rossby_library_test(${NAME} TEST_NIGHTLY_SANITIZED TEST_LABELS)
  foreach(RANKS IN LISTS TEST_RANKS TEST_NIGHTLY_RANKS)
    set(CONFIGURATIONS)
    if(RANKS IN_LIST TEST_NIGHTLY_RANKS)
      set(CONFIGURATIONS CONFIGURATIONS Nightly)
    endif()
    add_test(NAME ${NAME}.np${RANKS} ${CONFIGURATIONS}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${RANKS} $<TARGET_FILE:test_${NAME}>)
    # test.sh runs a test more at once than there are cores. Beside another test, each exchange of many ranks would wait
    # for a processor.
    set(PROCESSORS 1)
    if(RANKS GREATER 2)
      math(EXPR PROCESSORS "${RANKS} + 1")
    endif()
    rossby_set_test_properties(${NAME}.np${RANKS} PROCESSORS ${PROCESSORS} LABELS mpi np${RANKS} ${TEST_LABELS}
                               ENVIRONMENT ${ROSSBY_MPI_TEST_ENVIRONMENT})
  endforeach()
endfunction()

function(rossby_command_test NAME)
  cmake_parse_arguments(TEST "" "" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${NAME} COMMAND ${TEST_COMMAND})
  rossby_set_test_properties(${NAME} PROCESSORS 1 LABELS ${TEST_LABELS} ENVIRONMENT ${ROSSBY_MPI_TEST_ENVIRONMENT})
endfunction()

function(rossby_nightly_test NAME)
  cmake_parse_arguments(TEST "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${NAME} CONFIGURATIONS Nightly COMMAND ${TEST_COMMAND})
  rossby_set_test_properties(${NAME} PROCESSORS 3 LABELS nightly ${TEST_LABELS} ENVIRONMENT ${ROSSBY_MPI_TEST_ENVIRONMENT})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${TEST_TIMEOUT})
endfunction()

# Builds every fuzz target and no other test.
add_custom_target(fuzzers)

function(rossby_fuzz_target NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(fuzz_${NAME} ${TEST_SOURCES})
  target_include_directories(fuzz_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(fuzz_${NAME} PRIVATE ${TEST_LINK} rossby_options)
  if(ROSSBY_BUILD_FUZZERS)
    target_link_options(fuzz_${NAME} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cpp)
  endif()
  add_dependencies(fuzzers fuzz_${NAME})
  if("lib" IN_LIST TEST_LABELS OR "mpi" IN_LIST TEST_LABELS)
    add_dependencies(brief_library_tests fuzz_${NAME})
  endif()
  add_test(NAME fuzz_corpus_${NAME} COMMAND fuzz_${NAME} -runs=0 ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${NAME})
  set(ENVIRONMENT ${ROSSBY_TEST_ENVIRONMENT})
  if(mpi IN_LIST TEST_LABELS)
    set(ENVIRONMENT ${ROSSBY_MPI_TEST_ENVIRONMENT})
  endif()
  rossby_set_test_properties(fuzz_corpus_${NAME} PROCESSORS 1 LABELS fuzz ${TEST_LABELS} ENVIRONMENT ${ENVIRONMENT})
endfunction()
