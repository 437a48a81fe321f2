# laneway_library(NAME SOURCES a.cc … DEPS lib …): a static library of one folder; includes are from
# the repository root. Torch-free unless it links torch::cpu (adaptor and service/embedded only).
function(laneway_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  laneway_defaults(${name})
endfunction()

# laneway_program(NAME SOURCES main.cc … DEPS lib …): a program that users run; it lies in
# ${CMAKE_BINARY_DIR}/bin and ./dev links it into .venv/bin.
function(laneway_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  laneway_defaults(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# laneway_test(NAME [OPTIMISED] LABELS unit … SOURCES a_test.cc … DEPS lib … DEFINITIONS A=b …): one
# GoogleTest program; each of its tests is a ctest test with the labels, and its program's name as
# one more. The thread sanitizer has those labelled `threads` alone. Under sanitizers the test's own
# sources are compiled without optimisation, which takes half of the time, unless it is OPTIMISED:
# where it computes much.
function(laneway_test name)
  cmake_parse_arguments(ARG "OPTIMISED" "" "SOURCES;DEPS;LABELS;DEFINITIONS" ${ARGN})
  if(NOT BUILD_TESTING OR (LANEWAY_SANITIZE MATCHES "thread" AND NOT "threads" IN_LIST ARG_LABELS))
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
  laneway_defaults(${name})
  if(LANEWAY_SANITIZE AND NOT ARG_OPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(NOT LANEWAY_SANITIZE OR NOT ARG_OPTIMISED)
    laneway_use_precompiled(laneway_test_headers ${name})
  endif()
  gtest_discover_tests(${name} TEST_LIST _laneway_discovered DISCOVERY_TIMEOUT 60)
  # Labels are set when ctest reads the discovered tests: discovery itself passes one label only.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  file(WRITE ${labels_file}
       "if(_laneway_discovered)\n"
       "  set_tests_properties(\${_laneway_discovered} PROPERTIES LABELS \"${ARG_LABELS};${name}\")\n"
       "  set(_laneway_discovered)\n"
       "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  set_property(GLOBAL APPEND PROPERTY LANEWAY_TESTS ${name})
  string(REPLACE ";" "," labels "${ARG_LABELS}")
  set_property(TARGET ${name} PROPERTY LANEWAY_LABELS "${labels}")
endfunction()

# What every target of ours gets: language level, warnings as errors, include root.
function(laneway_defaults name)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                         -Wno-sign-conversion -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 reports an overlap in std::string's operator+ that is not there (its bug 105651).
    target_compile_options(${name} PRIVATE -Wno-restrict)
    if(LANEWAY_SANITIZE)  # preset asan-torch
      # Nor does it see, in instrumented code, which alternative of a variant is moved.
      target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${name} PRIVATE -Wthread-safety)
  endif()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF
                                           CXX_VISIBILITY_PRESET hidden
                                           VISIBILITY_INLINES_HIDDEN ON)
endfunction()
