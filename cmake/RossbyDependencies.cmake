# The distribution provides every library; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)

# The helper targets rossby_netcdf, rossby_codecs, rossby_blas, rossby_openmp and rossby_cuda are imported
# targets. The installed package can then define the same names on the consumer's machine
# (rossbyConfig.cmake.in) and holds no paths of this machine.

# netcdf.pc adds the include path of the serial HDF5, which must never precede the parallel one. Only the
# library is taken: netcdf.h itself lies in the default include path.
find_library(ROSSBY_NETCDF_LIBRARY netcdf REQUIRED)
find_path(ROSSBY_NETCDF_INCLUDE_DIR netcdf.h REQUIRED)
add_library(rossby_netcdf INTERFACE IMPORTED GLOBAL)
target_link_libraries(rossby_netcdf INTERFACE ${ROSSBY_NETCDF_LIBRARY})

# rossby_codecs: compression libraries for the chunks of Zarr stores.
add_library(rossby_codecs INTERFACE IMPORTED GLOBAL)
foreach(CODEC blosc:blosc.h zstd:zstd.h lz4:lz4.h z:zlib.h)
  string(REGEX REPLACE ":.*" "" LIBRARY ${CODEC})
  string(REGEX REPLACE ".*:" "" HEADER ${CODEC})
  find_library(ROSSBY_${LIBRARY}_LIBRARY ${LIBRARY} REQUIRED)
  find_path(ROSSBY_${LIBRARY}_INCLUDE_DIR ${HEADER} REQUIRED)
  target_link_libraries(rossby_codecs INTERFACE ${ROSSBY_${LIBRARY}_LIBRARY})
endforeach()

find_package(BLAS REQUIRED)
find_package(LAPACK REQUIRED)
find_path(ROSSBY_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu REQUIRED)
add_library(rossby_blas INTERFACE IMPORTED GLOBAL)
target_link_libraries(rossby_blas INTERFACE ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES})
target_include_directories(rossby_blas INTERFACE ${ROSSBY_CBLAS_INCLUDE_DIR})

add_library(rossby_openmp INTERFACE IMPORTED GLOBAL)
if(ROSSBY_WITH_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(rossby_openmp INTERFACE OpenMP::OpenMP_CXX)
else()
  target_compile_options(rossby_openmp INTERFACE -Wno-unknown-pragmas)
endif()

# rossby_cuda: the CUDA runtime, linked statically, so that the program also starts on machines without CUDA.
# cuBLAS and NCCL are loaded at run time if a GPU is used.
set(ROSSBY_CUDA_FOUND OFF)
add_library(rossby_cuda INTERFACE IMPORTED GLOBAL)
if(NOT ROSSBY_WITH_CUDA STREQUAL "OFF" AND NOT (ROSSBY_WITH_CUDA STREQUAL "AUTO" AND (ROSSBY_SANITIZE OR ROSSBY_BUILD_FUZZERS)))
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Asks nvcc before CMake tries the architectures: nvcc supports sm_100 since CUDA 12.8.
      execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE ROSSBY_NVCC_KNOWS)
      if(ROSSBY_NVCC_KNOWS MATCHES "compute_100")
        set(ROSSBY_ARCHITECTURES 80-real 90-real 100)
      else()
        set(ROSSBY_ARCHITECTURES 80-real 90)
      endif()
      set(CMAKE_CUDA_ARCHITECTURES ${ROSSBY_ARCHITECTURES} CACHE STRING "GPU architectures")
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc supports C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    find_package(CUDAToolkit REQUIRED)
    target_link_libraries(rossby_cuda INTERFACE CUDA::cudart_static)
    target_compile_definitions(rossby_cuda INTERFACE ROSSBY_CUDA)
    set(ROSSBY_CUDA_FOUND ON)
  elseif(ROSSBY_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ROSSBY_WITH_CUDA=ON needs nvcc (CUDA 12 or newer) on the path or in CUDACXX")
  endif()
endif()
if(ROSSBY_CUDA_FOUND)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "without CUDA")
endif()

if(ROSSBY_WITH_MPI)
  find_package(PkgConfig REQUIRED)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS C CXX)
  find_package(CLI11 REQUIRED)
  pkg_check_modules(PETSC REQUIRED IMPORTED_TARGET PETSc)
  # A run loads PETSc when it needs it (mpi/rossby/mpi/petsc_library.hpp). A static one is linked: it has no such name.
  set(ROSSBY_PETSC_NAME)
  set(ROSSBY_PETSC_FILE ${PETSC_LINK_LIBRARIES})
  list(FILTER ROSSBY_PETSC_FILE INCLUDE REGEX "/libpetsc[^/]*$")  # other libraries may come first
  if(ROSSBY_PETSC_FILE AND CMAKE_OBJDUMP)
    list(GET ROSSBY_PETSC_FILE 0 ROSSBY_PETSC_FILE)
    file(REAL_PATH "${ROSSBY_PETSC_FILE}" ROSSBY_PETSC_FILE)
    cmake_path(GET ROSSBY_PETSC_FILE PARENT_PATH ROSSBY_PETSC_FOLDER)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${ROSSBY_PETSC_FILE} OUTPUT_VARIABLE ROSSBY_PETSC_TEXT ERROR_QUIET)
    if(ROSSBY_PETSC_TEXT MATCHES "SONAME +([^ \n]+)")
      set(ROSSBY_PETSC_NAME ${CMAKE_MATCH_1})
    endif()
  endif()
  # The package is called hdf5-openmpi in Debian; Spack and EasyBuild have one HDF5. With a serial one the
  # compiler stops (hdf5_handle.hpp).
  pkg_search_module(HDF5_PARALLEL REQUIRED IMPORTED_TARGET hdf5-openmpi hdf5-mpi hdf5)
endif()

if(ROSSBY_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(ROSSBY_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
