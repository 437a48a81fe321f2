# Finds LibTorch inside the installed PyPI wheel and defines
#   torch::c10, torch::cpu   what adaptor/ links (headers and the two libraries)
#   torch::cuda              c10_cuda and libtorch_cuda, when the wheel has them
#   TORCH_WHEEL_VERSION      "2.11.0+cu130", as torch/version.py says
# The wheel is looked for beside the interpreter LANEWAY_PYTHON (default: .venv of this checkout).
set(LANEWAY_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
    "The Python whose torch wheel is built against")
set(LANEWAY_SITE_PACKAGES "" CACHE PATH
    "Where the torch wheel is unpacked; empty: where LANEWAY_PYTHON has its packages")

if(LANEWAY_SITE_PACKAGES)
  set(_purelib "${LANEWAY_SITE_PACKAGES}")
  set(_status 0)
else()
  execute_process(
    COMMAND ${LANEWAY_PYTHON} -c
            "import sysconfig; print(sysconfig.get_paths()['purelib'], end='')"
    OUTPUT_VARIABLE _purelib RESULT_VARIABLE _status ERROR_QUIET)
endif()
if(NOT _status EQUAL 0)
  message(FATAL_ERROR "No Python at ${LANEWAY_PYTHON}: run ./dev build, or pass -DLANEWAY_PYTHON=…")
endif()
set(TORCH_WHEEL_DIR "${_purelib}/torch")
find_path(TORCH_WHEEL_INCLUDE NAMES ATen/core/dispatch/Dispatcher.h
          PATHS "${TORCH_WHEEL_DIR}/include" NO_DEFAULT_PATH)
foreach(_lib c10 torch_cpu c10_cuda torch_cuda)
  find_library(TORCH_WHEEL_${_lib} NAMES ${_lib} PATHS "${TORCH_WHEEL_DIR}/lib" NO_DEFAULT_PATH)
endforeach()
if(EXISTS "${TORCH_WHEEL_DIR}/version.py")
  file(STRINGS "${TORCH_WHEEL_DIR}/version.py" _line REGEX "^__version__")
  string(REGEX REPLACE ".*'([^']+)'.*" "\\1" TORCH_WHEEL_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel
  REQUIRED_VARS TORCH_WHEEL_c10 TORCH_WHEEL_torch_cpu TORCH_WHEEL_INCLUDE
  VERSION_VAR TORCH_WHEEL_VERSION)

if(TorchWheel_FOUND AND NOT TARGET torch::cpu)
  foreach(_lib c10 torch_cpu c10_cuda torch_cuda)
    string(REGEX REPLACE "^torch_" "" _name ${_lib})
    if(TORCH_WHEEL_${_lib})
      add_library(torch::${_name} SHARED IMPORTED)
      set_target_properties(torch::${_name} PROPERTIES
        IMPORTED_LOCATION "${TORCH_WHEEL_${_lib}}"
        INTERFACE_INCLUDE_DIRECTORIES "${TORCH_WHEEL_INCLUDE}"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${TORCH_WHEEL_INCLUDE}")
    endif()
  endforeach()
  set_property(TARGET torch::cpu APPEND PROPERTY INTERFACE_LINK_LIBRARIES torch::c10)
endif()
