# A room is a folder of headers and sources and one static library, rossby_<name>, alias rossby::<name>.
#
# Headers lie beside their sources. The include path is the real path: "rossby/<room>/x.hpp" is found below
# lib/, mpi/ or run/, and below the include directory after installation.

add_library(rossby_options INTERFACE)
target_compile_features(rossby_options INTERFACE cxx_std_20)
set(ROSSBY_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
                    -Woverloaded-virtual)
# GCC 12 warns wrongly of overlap in std::string + literal (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND ROSSBY_WARNINGS -Wno-restrict)
endif()
# The compiler would collect garbage several times a source, for an eighth of its time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(rossby_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()
if(ROSSBY_WERROR)
  list(APPEND ROSSBY_WARNINGS -Werror)
endif()
target_compile_options(rossby_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${ROSSBY_WARNINGS}>)
if(ROSSBY_SANITIZE)
  target_compile_options(rossby_options INTERFACE -fsanitize=${ROSSBY_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  # These follow -fsanitize, which would switch them on again.
  if(ROSSBY_SANITIZE_NOT)
    target_compile_options(rossby_options INTERFACE -fno-sanitize=${ROSSBY_SANITIZE_NOT})
  endif()
  target_link_options(rossby_options INTERFACE -fsanitize=${ROSSBY_SANITIZE})
endif()
# Targets that link it after rossby_options have no checks of their own.
add_library(rossby_not_sanitized INTERFACE)
target_compile_options(rossby_not_sanitized INTERFACE -fno-sanitize=all)

# Code without numerical loops (commands, assembly of runs, tests) need not be fast. With these options it
# compiles in two thirds of the time. The last -O of a command line counts. Sanitizer presets set their own
# (CMakePresets.json).
set(ROSSBY_COLD_OPTIONS)
if(NOT ROSSBY_SANITIZE)
  set(ROSSBY_COLD_OPTIONS $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>,$<CONFIG:Release>>:-O1>)
endif()

if(ROSSBY_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ROSSBY_BUILD_FUZZERS needs clang (cmake --preset fuzz), not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(rossby_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# rossby_unity(<target>): compiles its sources sixteen at a time, because headers cost more than a source. If
# two sources share local names, one of them has the property SKIP_UNITY_BUILD_INCLUSION.
function(rossby_unity TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${ROSSBY_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# rossby_room(<name> SOURCES a.cpp ... HEADERS a.hpp ... [DEPENDS public targets] [PRIVATE private targets])
function(rossby_room NAME)
  cmake_parse_arguments(ROOM "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE" ${ARGN})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH ROSSBY_FOLDER)
  cmake_path(GET ROSSBY_FOLDER PARENT_PATH INCLUDE_DIR)
  if(ROOM_SOURCES)
    add_library(rossby_${NAME} STATIC ${ROOM_SOURCES})
    target_include_directories(rossby_${NAME} PUBLIC $<BUILD_INTERFACE:${INCLUDE_DIR}>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_compile_features(rossby_${NAME} PUBLIC cxx_std_20)
    target_link_libraries(rossby_${NAME} PUBLIC ${ROOM_DEPENDS}
                          PRIVATE $<BUILD_INTERFACE:rossby_options> ${ROOM_PRIVATE})
  else()
    add_library(rossby_${NAME} INTERFACE)
    target_include_directories(rossby_${NAME} INTERFACE $<BUILD_INTERFACE:${INCLUDE_DIR}>
                                                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(rossby_${NAME} INTERFACE ${ROOM_DEPENDS})
  endif()
  set_target_properties(rossby_${NAME} PROPERTIES EXPORT_NAME ${NAME})
  add_library(rossby::${NAME} ALIAS rossby_${NAME})
  set_property(GLOBAL APPEND PROPERTY ROSSBY_ROOMS rossby_${NAME})
  foreach(HEADER IN LISTS ROOM_HEADERS)
    get_filename_component(SUB ${HEADER} DIRECTORY)
    install(FILES ${HEADER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rossby/${NAME}/${SUB})
  endforeach()
endfunction()
