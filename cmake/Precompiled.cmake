# laneway_precompiled(NAME POSITION -fPIE HEADERS a.h … DEPS lib … INCLUDES dir …): a precompiled
# header, which targets take by laneway_use_precompiled(NAME TARGET …). What is in it is other
# people's: a header of ours must compile alone, and when it changed all would be compiled anew.
#
# ccache must know whether two precompiled headers say the same. Their bytes don't tell, as they hold
# paths of the build directory. So a file beside the header, of which ccache is told by the launcher
# (Toolchain.cmake), has the hash of its text, and objects of one checkout serve the others.
function(laneway_precompiled name)
  cmake_parse_arguments(ARG "" "POSITION" "HEADERS;DEPS;INCLUDES" ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${name}.dir)
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "#include <\\1>\n" OUTPUT_VARIABLE lines)
  string(JOIN "" lines ${lines})
  file(WRITE ${folder}/text.cc "${lines}")
  list(TRANSFORM ARG_INCLUDES PREPEND -I)
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 ${ARG_INCLUDES} -E -P -dD ${folder}/text.cc
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "${PROJECT_SOURCE_DIR}/" "" text "${text}")  # in __FILE__
  string(SHA256 hash "${text}")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    file(WRITE ${folder}/cmake_pch.hxx.pch.sum "${hash}\n")
  else()
    file(WRITE ${folder}/cmake_pch.hxx.gch.sum "${hash}\n")
  endif()

  file(WRITE ${folder}/none.cc "// The target has to have a source.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${folder}/none.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  laneway_defaults(${name})
  # Compiled without ccache: clang's header is good in the directory that it was made for alone.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF CXX_COMPILER_LAUNCHER "")
  target_compile_options(${name} PRIVATE ${ARG_POSITION})
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

function(laneway_use_precompiled name)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${name})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache asks for it
    endif()
  endforeach()
endfunction()
