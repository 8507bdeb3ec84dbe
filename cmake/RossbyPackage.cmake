# Man pages and shell completion of the program, and its Debian packages. `cpack` in a build folder writes
# rossby (program, configurations, scripts, man pages) and librossby-dev (libraries, headers, CMake package).
find_package(Python3 3.11 QUIET COMPONENTS Interpreter)
set(ROSSBY_RUNS_HERE ON)
if(CMAKE_CROSSCOMPILING OR ROSSBY_SANITIZE)
  set(ROSSBY_RUNS_HERE OFF)
endif()
if(Python3_FOUND AND ROSSBY_RUNS_HERE)
  set(ROSSBY_PAGES ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${ROSSBY_PAGES}/completions/rossby
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/packaging/pages.py $<TARGET_FILE:rossby> ${ROSSBY_PAGES}
    DEPENDS rossby ${PROJECT_SOURCE_DIR}/packaging/pages.py
    COMMENT "Writing man pages" VERBATIM)
  add_custom_target(rossby_pages ALL DEPENDS ${ROSSBY_PAGES}/completions/rossby)
  # A tree in which only the program was built can be installed, too.
  install(DIRECTORY ${ROSSBY_PAGES}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program OPTIONAL)
  install(FILES ${ROSSBY_PAGES}/completions/rossby DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          COMPONENT program OPTIONAL)
else()
  message(STATUS "without man pages: they need Python 3.11 and a program that runs here")
endif()

set(CPACK_PACKAGE_NAME rossby)
set(CPACK_PACKAGE_VENDOR "The Rossby developers")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
find_program(ROSSBY_DPKG_DEB dpkg-deb)
if(NOT ROSSBY_DPKG_DEB)
  set(CPACK_GENERATOR TGZ)
  include(CPack)
  return()
endif()

# Debian policy requires copyright, the changelog in gzip, and a Debian changelog with the newest version.
set(ROSSBY_DEBIAN_REVISION 1)
file(STRINGS ${PROJECT_SOURCE_DIR}/CHANGELOG.md ROSSBY_RELEASE REGEX "^## \\[${PROJECT_VERSION}\\]")
if(NOT ROSSBY_RELEASE MATCHES "([0-9]+-[0-9]+-[0-9]+)$")
  message(FATAL_ERROR "CHANGELOG.md has no line \"## [${PROJECT_VERSION}] - DATE\"")
endif()
execute_process(COMMAND date -u -R -d ${CMAKE_MATCH_1} OUTPUT_VARIABLE ROSSBY_RELEASE_DATE
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(ROSSBY_CHANGES ${PROJECT_BINARY_DIR}/debian)
configure_file(${PROJECT_SOURCE_DIR}/packaging/debian/changelog.in ${ROSSBY_CHANGES}/changelog.Debian @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${ROSSBY_CHANGES}/changelog COPYONLY)
foreach(FILE changelog changelog.Debian)
  execute_process(COMMAND gzip -9nf ${ROSSBY_CHANGES}/${FILE} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(NAME_AND_COMPONENT rossby:program librossby-dev:development)
  string(REPLACE ":" ";" NAME_AND_COMPONENT ${NAME_AND_COMPONENT})
  list(POP_FRONT NAME_AND_COMPONENT NAME COMPONENT)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/copyright ${ROSSBY_CHANGES}/changelog.gz
                ${ROSSBY_CHANGES}/changelog.Debian.gz
          DESTINATION share/doc/${NAME} COMPONENT ${COMPONENT})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Rossby developers <rossby@packages.invalid>")
set(CPACK_DEBIAN_PACKAGE_RELEASE ${ROSSBY_DEBIAN_REVISION})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rossby)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Rossby takes a series on a grid or on sensors, and the relations between its
nodes, and trains a model that forecasts all nodes at once. Every MPI rank owns
a block of nodes. This package has the program, configurations, job scripts for
Slurm and a demonstration.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "openmpi-bin, python3:any")
if(ROSSBY_PETSC_NAME)  # loaded at run time, so that dpkg-shlibdeps does not see it
  execute_process(COMMAND dpkg-query -S ${ROSSBY_PETSC_FILE} OUTPUT_VARIABLE ROSSBY_PETSC_PACKAGE ERROR_QUIET)
  if(ROSSBY_PETSC_PACKAGE MATCHES "^([^:]+):")
    string(APPEND CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS ", ${CMAKE_MATCH_1}")
  endif()
endif()
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "python3-matplotlib, python3-netcdf4")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librossby-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "This package has static libraries, headers and the CMake package of Rossby:
find_package(rossby).")
string(JOIN ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libblosc-dev libfmt-dev libhdf5-openmpi-dev liblz4-dev libnetcdf-dev
       libopenblas-dev libopenmpi-dev libtomlplusplus-dev libzstd-dev nlohmann-json3-dev petsc-dev pkg-config zlib1g-dev)
include(CPack)
