# Finds the headers of CUDA and defines
#   cuda::headers   interface target: the include directory, as a system one; no library with it
#   cudnn::headers  the same of cuDNN, where the wheel has it
# They come with the torch wheel (site-packages/nvidia/cuNN/include of the interpreter LANEWAY_PYTHON,
# by default .venv of this checkout); a toolkit in /usr/local/cuda is used where the wheel has none.
# Libraries are never looked for: the driver is opened at run time, the runtime comes with torch.
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
set(_wheel_includes "")
if(_status EQUAL 0)
  file(GLOB _wheel_includes LIST_DIRECTORIES true "${_purelib}/nvidia/cu[0-9]*/include")
  list(SORT _wheel_includes COMPARE NATURAL ORDER DESCENDING)
endif()
find_path(CUDA_HEADERS_INCLUDE NAMES cuda.h
          PATHS ${_wheel_includes} /usr/local/cuda/include NO_DEFAULT_PATH)
if(CUDA_HEADERS_INCLUDE)
  file(STRINGS "${CUDA_HEADERS_INCLUDE}/cuda.h" _line REGEX "^#define CUDA_VERSION ")
  string(REGEX REPLACE "[^0-9]" "" CUDA_HEADERS_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders
  REQUIRED_VARS CUDA_HEADERS_INCLUDE VERSION_VAR CUDA_HEADERS_VERSION
  REASON_FAILURE_MESSAGE "no cuda.h beside the torch wheel of ${LANEWAY_PYTHON} nor in \
/usr/local/cuda/include: run ./dev build, or pass -DCUDA_HEADERS_INCLUDE=DIR")

if(CudaHeaders_FOUND AND NOT TARGET cuda::headers)
  add_library(cuda::headers INTERFACE IMPORTED)
  set_target_properties(cuda::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CUDA_HEADERS_INCLUDE}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${CUDA_HEADERS_INCLUDE}")
endif()

find_path(CUDNN_HEADERS_INCLUDE NAMES cudnn.h
          PATHS "${_purelib}/nvidia/cudnn/include" NO_DEFAULT_PATH)
if(CUDNN_HEADERS_INCLUDE AND TARGET cuda::headers AND NOT TARGET cudnn::headers)
  add_library(cudnn::headers INTERFACE IMPORTED)
  set_target_properties(cudnn::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_HEADERS_INCLUDE}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${CUDNN_HEADERS_INCLUDE}"
    INTERFACE_LINK_LIBRARIES cuda::headers)
endif()
