"""The C interface of Laneway (service/api/laneway.h) through cffi, loaded on demand.

Two shared objects implement it. The embedded library contains the engine and links the libtorch
that `import torch` has loaded, so it must be for that torch's minor version: torch_versions.py says
which is, before either is loaded. The client library talks to a lanewayd and does not use torch. An
environment variable names the path of each; without it the path is lib/ beside this package.
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
from typing import Any

import cffi

from laneway import errors
from laneway.native import torch_versions

LIB = pathlib.Path(__file__).parent.parent / "lib"

# The header's declarations, without the preprocessor's lines; a test compares the two.
# Addresses of tensor bytes are integers here: that is what Tensor.data_ptr() gives.
DECLARATIONS = """
typedef struct laneway_error { int32_t code; char message[4092]; } laneway_error;
typedef struct laneway_service laneway_service;
typedef struct laneway_job laneway_job;
typedef struct laneway_submission laneway_submission;
typedef struct laneway_embedded_options {
  uint32_t size;
  uint32_t lanes;
  uint64_t pool_bytes;
  const char* policy;
  const char* device;
  const char* torch_version;
  uint32_t lane_sms;
  uint32_t reserved;
  int64_t store_bytes;
  const char* spill_folder;
  uint64_t spill_bytes;
} laneway_embedded_options;
int laneway_abi_version(void);
const char* laneway_torch_version(void);
int laneway_embedded_open(const laneway_embedded_options* options, laneway_service** service,
                          laneway_error* error);
typedef struct laneway_connect_options {
  uint32_t size;
  uint32_t reserved;
  const char* address;
  const char* name;
  int64_t timeout_ns;
  const char* torch_version;
  int64_t answer_ns;
} laneway_connect_options;
int laneway_connect(const laneway_connect_options* options, laneway_service** service,
                    laneway_error* error);
void laneway_service_close(laneway_service* service);
void laneway_service_release(laneway_service* service);
int laneway_service_status(laneway_service* service, char** json, laneway_error* error);
int laneway_service_status_with(laneway_service* service, int with_ended, char** json,
                                laneway_error* error);
int laneway_service_job_report(laneway_service* service, uint64_t job, char** json,
                               laneway_error* error);
int laneway_service_command(laneway_service* service, const char* command, const char* argument,
                            laneway_error* error);
int laneway_service_set(laneway_service* service, const char* job, const char* settings,
                        laneway_error* error);
const char* laneway_service_kernels(laneway_service* service);
void laneway_free(void* memory);
typedef struct laneway_slot {
  const char* name;
  uint32_t kind;
  uint64_t bytes;
  uintptr_t initial;
} laneway_slot;
typedef struct laneway_file {
  int32_t descriptor;
  uint32_t reserved;
  const char* name;
} laneway_file;
typedef struct laneway_file_range {
  uint32_t slot;
  uint32_t file;
  uint64_t slot_offset;
  uint64_t file_offset;
  uint64_t bytes;
  uint32_t has_crc32;
  uint32_t crc32;
} laneway_file_range;
typedef struct laneway_job_options {
  uint32_t size;
  uint32_t job_class;
  const char* name;
  int32_t priority;
  uint32_t slot_count;
  double weight;
  uint64_t total_iterations;
  const laneway_slot* slots;
  uintptr_t random_state;
  uint64_t random_state_bytes;
  uint32_t shared;
  uint32_t replay;
  const laneway_file* files;
  uint32_t file_count;
  uint32_t range_count;
  const laneway_file_range* ranges;
  int64_t deadline_ns;
  int64_t iteration_ns;
} laneway_job_options;
int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                       const void* graph, uint64_t graph_bytes, laneway_job** job,
                       laneway_error* error);
int laneway_attach(laneway_service* service, const char* name, laneway_job** job,
                   laneway_error* error);
int laneway_job_describe(laneway_job* job, char** json, laneway_error* error);
int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                          uint32_t* index, laneway_error* error);
int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error);
int laneway_job_set(laneway_job* job, const char* settings, laneway_error* error);
int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error);
void laneway_job_close(laneway_job* job);
void laneway_job_release(laneway_job* job);
int laneway_job_report(laneway_job* job, int with_tapes, char** json, laneway_error* error);
typedef struct laneway_input {
  uintptr_t data;
  uint64_t bytes;
  double real;
  int64_t integer;
} laneway_input;
typedef struct laneway_output { uintptr_t data; uint64_t bytes; } laneway_output;
int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                uint32_t input_count, const laneway_output* outputs, uint32_t output_count,
                laneway_submission** pending, laneway_error* error);
int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                   uint32_t input_count, laneway_submission** submission, laneway_error* error);
int laneway_wait_for_room(laneway_job* job, int64_t timeout_ns, laneway_error* error);
int laneway_wait(laneway_submission* submission, int64_t timeout_ns, const laneway_output* outputs,
                 uint32_t output_count, laneway_error* error);
int laneway_cancel(laneway_submission* submission, laneway_error* error);
void laneway_submission_release(laneway_submission* submission);
typedef struct laneway_slot_copy {
  uint32_t slot;
  uint64_t bytes;
  uintptr_t data;
} laneway_slot_copy;
int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       uintptr_t random_state, laneway_submission** pending, laneway_error* error);
int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                        uintptr_t random_state, laneway_submission** pending,
                        laneway_error* error);
"""

ABI_VERSION = 1
OK = 0
PENDING = 1
UNAVAILABLE = 6
BUSY = 15
RANDOM_STATE_BYTES = 5056

_EXCEPTIONS: dict[int, type[errors.Error]] = {
    2: errors.InvalidInput,
    3: errors.GraphError,
    4: errors.OutOfMemory,
    5: errors.Refused,
    6: errors.ServiceUnavailable,
    7: errors.JobFailed,
    8: errors.Quarantined,
    9: errors.ServiceUnavailable,  # cancelled: its job was closed before it ran
    10: errors.ServiceUnavailable,
    11: errors.Refused,
    12: errors.Error,
    13: errors.DeviceLost,
    14: errors.LayoutError,
    15: errors.Refused,  # busy: a caller that can wait for room does that instead
}

ffi = cffi.FFI()
ffi.cdef(DECLARATIONS)


class Library:
    """One loaded shared object; every handle belongs to the one that made it. `lib` has the
    functions."""

    __slots__ = ("lib", "path")

    def __init__(self, lib: Any, path: pathlib.Path) -> None:
        self.lib = lib
        self.path = path

    def take_text(self, pointer: Any) -> str:
        """The text behind a char*, which is freed."""
        text = ffi.string(pointer[0]).decode()
        self.lib.laneway_free(pointer[0])
        return text


def library_path(kind: str = "embedded", minor: str = "") -> pathlib.Path:
    """Where the shared object of this kind ("embedded", "client") is expected; `minor` is the
    version of torch that the embedded one is for."""
    named = os.environ.get(f"LANEWAY_{kind.upper()}_LIBRARY")
    if named:
        return pathlib.Path(named)
    folder = LIB if not minor else torch_versions.library_folder(LIB, minor)
    return folder / f"liblaneway_{kind}.so"


@functools.cache
def embedded_library() -> Library:
    """The library of embedded services. Raises ServiceUnavailable, saying what to do, when there is
    none for the torch of this process; then neither was loaded."""
    path = chosen_library()
    importlib.import_module("torch")  # the library needs its libtorch in the process
    return _load(path)


def chosen_library() -> pathlib.Path:
    """The embedded library for the torch of this process; neither is loaded. Raises
    ServiceUnavailable."""
    torch = torch_versions.usable_torch(library_path("embedded"))
    path = library_path("embedded", torch.minor)
    torch_versions.check_binary(path, torch, "LANEWAY_EMBEDDED_LIBRARY")
    return path


@functools.cache
def client_library() -> Library:
    """The library that speaks to a lanewayd. Raises ServiceUnavailable when it is not there."""
    path = library_path("client")
    if not path.exists():
        raise errors.ServiceUnavailable(
            f"{path} is missing: {torch_versions.REINSTALL}, build it with ./dev build, or name "
            "one in LANEWAY_CLIENT_LIBRARY"
        )
    return _load(path)


def _load(path: pathlib.Path) -> Library:
    try:
        loaded = ffi.dlopen(str(path))
    except OSError as error:
        words = torch_versions.loader_words(str(error)) or (
            f"{error}. Build it again with ./dev build in this environment"
        )
        raise errors.ServiceUnavailable(f"{path} cannot be loaded: {words}") from error
    if loaded.laneway_abi_version() != ABI_VERSION:
        raise errors.ServiceUnavailable(
            f"{path} speaks version {loaded.laneway_abi_version()} of the C interface, this "
            f"package {ABI_VERSION}: build both from the same sources with ./dev build"
        )
    return Library(loaded, path)


def new_error() -> Any:
    return ffi.new("laneway_error *")


def message_of(error: Any) -> str:
    return ffi.string(error.message).decode(errors="replace")


def exception_of(code: int, error: Any) -> errors.Error:
    """The exception for a code that is neither OK nor PENDING."""
    return _EXCEPTIONS.get(code, errors.Error)(message_of(error))
