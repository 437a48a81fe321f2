# The wheel's binaries for further versions of torch. LANEWAY_MORE_TORCHES lists folders, each with an
# unpacked torch wheel: include/, version.py and the libraries c10, torch_cpu, c10_cuda, torch_cuda
# are enough. What links torch is built again for each, in a build folder of its own beside this one
# (as deep, so that the compiler's cache knows its files), with CUDA's headers and runtime of the
# first, and installed beside it.
set(LANEWAY_MORE_TORCHES "" CACHE STRING "Folders with unpacked torch wheels, further ones")
include(ExternalProject)

function(laneway_add_torch folder)
  file(STRINGS "${folder}/torch/version.py" line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+" minor "${line}")
  set(tree "${CMAKE_BINARY_DIR}-torch-${minor}")
  ExternalProject_Add(torch-${minor}
    SOURCE_DIR "${PROJECT_SOURCE_DIR}"
    BINARY_DIR "${tree}"
    PREFIX "${tree}-steps"
    CMAKE_CACHE_ARGS
      "-DCMAKE_BUILD_TYPE:STRING=${CMAKE_BUILD_TYPE}"
      "-DCMAKE_C_COMPILER:FILEPATH=${CMAKE_C_COMPILER}"
      "-DCMAKE_CXX_COMPILER:FILEPATH=${CMAKE_CXX_COMPILER}"
      "-DLANEWAY_CHECKED:BOOL=${LANEWAY_CHECKED}"
      "-DBUILD_TESTING:BOOL=OFF"
      "-DLANEWAY_PYTHON:FILEPATH=${LANEWAY_PYTHON}"
      "-DLANEWAY_SITE_PACKAGES:PATH=${folder}"
      "-DLANEWAY_CUDART:FILEPATH=${LANEWAY_CUDART}"
      "-DCUDA_HEADERS_INCLUDE:PATH=${CUDA_HEADERS_INCLUDE}"
      "-DCUDNN_HEADERS_INCLUDE:PATH=${CUDNN_HEADERS_INCLUDE}"
    BUILD_COMMAND ${CMAKE_COMMAND} --build <BINARY_DIR> --target laneway_torch_binaries
    BUILD_ALWAYS ON
    INSTALL_COMMAND ""
    USES_TERMINAL_BUILD ON
    DEPENDS laneway_torch_binaries)
  add_dependencies(laneway_wheel torch-${minor})
  install(CODE "set(_strip \"\")
                if(CMAKE_INSTALL_DO_STRIP)
                  set(_strip --strip)
                endif()
                execute_process(COMMAND ${CMAKE_COMMAND} --install ${tree} --component torch
                                        --prefix \"\${CMAKE_INSTALL_PREFIX}\" \${_strip}
                                COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT torch)
endfunction()

foreach(_folder IN LISTS LANEWAY_MORE_TORCHES)
  laneway_add_torch("${_folder}")
endforeach()
