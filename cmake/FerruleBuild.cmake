# Compiler settings that every target shares, and the functions that declare layers, programs and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

add_library(ferrule_options INTERFACE)
# No contraction: a fused multiply-add where the format says "multiply, then add" would break bit-equality.
target_compile_options(ferrule_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off
  # g++ 12 sees overlapping copies in "text" + std::string, which are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${FERRULE_WERROR}>:-Werror>)
target_include_directories(ferrule_options INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
if(FERRULE_SANITIZE)
  target_compile_options(ferrule_options INTERFACE -fsanitize=${FERRULE_SANITIZE} -fno-sanitize-recover=all
                                                   -fno-omit-frame-pointer
    # g++ 12 with sanitizers sees uninitialised members inside std::regex and std::variant, where there are none.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(ferrule_options INTERFACE -fsanitize=${FERRULE_SANITIZE})
endif()

# ferrule_layer(NAME <name> SOURCES ... [USES <libraries>...]): one layer of the library. USES is what it may include.
function(ferrule_layer)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;USES" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PUBLIC ferrule_options fmt::fmt ${ARG_USES})
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# ferrule_test(NAME <name> SOURCES ... USES ... [LABELS ...] [TIMEOUT s]): a GoogleTest program, one ctest test.
function(ferrule_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;USES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE ferrule_options GTest::gmock GTest::gtest_main ${ARG_USES})
  target_include_directories(${ARG_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# ferrule_feature(<name> <on/off> <why>): remembered, and printed at the end of configuration.
function(ferrule_feature name state why)
  set_property(GLOBAL APPEND PROPERTY FERRULE_FEATURES "${name}|${state}|${why}")
endfunction()

function(ferrule_print_features)
  get_property(features GLOBAL PROPERTY FERRULE_FEATURES)
  message(STATUS "Ferrule ${PROJECT_VERSION}:")
  foreach(feature IN LISTS features)
    string(REPLACE "|" ";" parts "${feature}")
    list(GET parts 0 name)
    list(GET parts 1 state)
    list(GET parts 2 why)
    message(STATUS "  ${name}: ${state} (${why})")
  endforeach()
endfunction()
