# Installs static libraries, configurations, schemas and scripts, and a CMake package with three components:
# lib (every room of lib/), mpi and run. rossby_room installs headers; apps/ installs the program.
include(CMakePackageConfigHelpers)

set(ROSSBY_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rossby)

get_property(ROSSBY_LIB_TARGETS GLOBAL PROPERTY ROSSBY_ROOMS)
set(ROSSBY_MPI_TARGETS ${ROSSBY_LIB_TARGETS})
list(FILTER ROSSBY_MPI_TARGETS INCLUDE REGEX "^rossby_mpi$")
set(ROSSBY_RUN_TARGETS ${ROSSBY_LIB_TARGETS})
list(FILTER ROSSBY_RUN_TARGETS INCLUDE REGEX "^rossby_run$")
list(FILTER ROSSBY_LIB_TARGETS EXCLUDE REGEX "^rossby_(mpi|run)$")

# rossby_install_component(<component> targets...): writes rossby_<component>_targets.cmake
function(rossby_install_component COMPONENT)
  install(TARGETS ${ARGN} EXPORT rossby_${COMPONENT} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT rossby_${COMPONENT} NAMESPACE rossby:: DESTINATION ${ROSSBY_PACKAGE_DIR}
          FILE rossby_${COMPONENT}_targets.cmake)
endfunction()

rossby_install_component(lib ${ROSSBY_LIB_TARGETS})
if(ROSSBY_MPI_TARGETS)
  rossby_install_component(mpi ${ROSSBY_MPI_TARGETS})
  rossby_install_component(run ${ROSSBY_RUN_TARGETS})
endif()

foreach(FOLDER configs schemas)
  if(EXISTS ${PROJECT_SOURCE_DIR}/apps/${FOLDER})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/apps/${FOLDER} DESTINATION ${CMAKE_INSTALL_DATADIR}/rossby COMPONENT program
            PATTERN README.md EXCLUDE)
  endif()
endforeach()
# The program finds the plotting scripts by its own path.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/jobscripts/report DESTINATION ${CMAKE_INSTALL_DATADIR}/rossby COMPONENT program
        FILES_MATCHING PATTERN "*.py")
# Scripts find each other by their relative paths below jobscripts.
set(ROSSBY_SCRIPT_DIR ${CMAKE_INSTALL_DATADIR}/rossby/jobscripts)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/jobscripts/demo.sh ${PROJECT_SOURCE_DIR}/jobscripts/scaling
        DESTINATION ${ROSSBY_SCRIPT_DIR} COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/jobscripts/mpi.sh DESTINATION ${ROSSBY_SCRIPT_DIR} COMPONENT program)
foreach(FOLDER machines slurm scaling_driver)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/jobscripts/${FOLDER} DESTINATION ${ROSSBY_SCRIPT_DIR} USE_SOURCE_PERMISSIONS
          COMPONENT program PATTERN __pycache__ EXCLUDE)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rossbyConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/rossbyConfig.cmake INSTALL_DESTINATION ${ROSSBY_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rossbyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rossbyConfig.cmake ${PROJECT_BINARY_DIR}/rossbyConfigVersion.cmake
        DESTINATION ${ROSSBY_PACKAGE_DIR})
