cmake_minimum_required(VERSION 3.25)
# cmake -D... -P install_and_use.cmake: see CMakeLists.txt for the variables.

# run(<command...>): echoes it if it fails.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nended with ${failed}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(prefix ${WORK_DIR}/moved/here)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
file(MAKE_DIRECTORY ${WORK_DIR}/moved)
file(RENAME ${WORK_DIR}/first ${prefix})

foreach(file include/ferrule/ferrule.h include/ferrule/ferrule.hpp ${LIBDIR}/libferrule.so ${LIBDIR}/libferrule.so.0)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
file(GLOB top_level LIST_DIRECTORIES true RELATIVE ${prefix} ${prefix}/*)
if("ferrule" IN_LIST top_level)
  message(FATAL_ERROR "the Python package was installed into the prefix itself")
endif()
file(GLOB_RECURSE texts ${prefix}/*.cmake ${prefix}/*.pc)
foreach(text IN LISTS texts)
  file(READ ${text} content)
  if(content MATCHES "${WORK_DIR}|${BUILD_DIR}")
    message(FATAL_ERROR "${text} holds a path of this machine:\n${CMAKE_MATCH_0}")
  endif()
endforeach()

# With CMake: a project in C alone, and one in C++.
foreach(language C CXX)
  set(build ${WORK_DIR}/cmake-${language})
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${build} -G ${GENERATOR} -DLANGUAGE=${language} -DVERSION=${VERSION}
      -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
  run(${CMAKE_COMMAND} --build ${build})
  run(${build}/consumer)
  if(NOT output MATCHES "consumer: 2 ranks agree on 3")
    message(FATAL_ERROR "the ${language} consumer said: ${output}")
  endif()
endforeach()

# A later minor version must be refused.
string(REGEX MATCH "^[0-9]+" major ${VERSION})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/too-new -G ${GENERATOR} -DLANGUAGE=C
                        -DVERSION=${major}.99 -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${C_COMPILER}
                RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
if(NOT refused)
  message(FATAL_ERROR "find_package accepted ${VERSION} as ${major}.99")
endif()

# With pkg-config.
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --modversion ferrule)
string(STRIP "${output}" found)
if(NOT found STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config says version ${found}")
endif()
run(${PKG_CONFIG} --cflags --libs ferrule)
separate_arguments(flags UNIX_COMMAND "${output}")
set(threads -pthread -Wl,-rpath,${prefix}/${LIBDIR})
run(${C_COMPILER} ${SOURCE_DIR}/main.c -o ${WORK_DIR}/pkg-c ${flags} ${threads})
run(${WORK_DIR}/pkg-c)
run(${CXX_COMPILER} -std=c++20 ${SOURCE_DIR}/main.cpp -o ${WORK_DIR}/pkg-cxx ${flags} ${threads})
run(${WORK_DIR}/pkg-cxx)

if(EXISTS ${prefix}/${BINDIR}/ferrule-bench)
  run(${prefix}/${BINDIR}/ferrule-bench --ranks 2 --transport loopback -b 4K -e 4K -n 1 -w 0)
endif()
message(STATUS "installed, moved, found by CMake and by pkg-config, and run")
