# rossby_lib_test(<name> SOURCES ... LINK targets...)              one process, GoogleTest's main
# rossby_mpi_test(<name> SOURCES ... LINK targets... RANKS 1 2 3)  one CTest entry per rank count, tests/mpi/main.cpp
function(rossby_lib_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES})
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_LINK} rossby_options GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND test_${NAME})
  set_tests_properties(${NAME} PROPERTIES LABELS "lib;${TEST_LABELS}" TIMEOUT 300
                       ENVIRONMENT "${ROSSBY_TEST_ENVIRONMENT}" SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] 1 test, listed")
endfunction()

set(ROSSBY_TEST_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1"
    "OMPI_MCA_hwloc_base_binding_policy=none;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_pml=ob1"
    "OMPI_MCA_btl=self,vader,tcp;OPENBLAS_NUM_THREADS=1;SCOTCH_PTHREAD_NUMBER=1")

function(rossby_mpi_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;LABELS;RANKS" ${ARGN})
  add_executable(test_${NAME} ${TEST_SOURCES} ${PROJECT_SOURCE_DIR}/tests/mpi/main.cpp)
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_LINK} rossby_options GTest::gtest)
  foreach(RANKS IN LISTS TEST_RANKS)
    add_test(NAME ${NAME}.np${RANKS}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${RANKS} $<TARGET_FILE:test_${NAME}>)
    set_tests_properties(${NAME}.np${RANKS} PROPERTIES LABELS "mpi;${TEST_LABELS}" TIMEOUT 300
                         PROCESSORS ${RANKS} ENVIRONMENT "${ROSSBY_TEST_ENVIRONMENT};OMP_NUM_THREADS=1"
                         SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] 1 test, listed")
  endforeach()
endfunction()
