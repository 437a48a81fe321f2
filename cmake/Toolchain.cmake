# How everything is compiled, whatever the target: the compiler cache, the debug level, sanitizers
# and library checks. What only our own targets get (warnings, language level) is in Laneway.cmake.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(LANEWAY_CCACHE ccache)
if(LANEWAY_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # What it keeps serves every checkout of this machine: it sees paths from the root on, and knows
  # precompiled headers by their text (Precompiled.cmake).
  set(CMAKE_C_COMPILER_LAUNCHER
      env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${LANEWAY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# Line numbers for stack traces, without the weight of full debug information.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

if(LANEWAY_CHECKED)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(LANEWAY_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  add_compile_options(-fsanitize=${LANEWAY_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LANEWAY_SANITIZE})
endif()
