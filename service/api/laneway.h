/* laneway.h: the C interface of Laneway, the one that every language speaks. Stable: fields are
 * only ever appended (each options struct begins with its own size) and functions only added.
 *
 * Two libraries have all of it. liblaneway_client.so speaks to a running lanewayd
 * (laneway_connect) and needs nothing else; liblaneway_embedded.so has core and worker inside the
 * process (laneway_embedded_open) and needs libtorch. Each answers LANEWAY_UNSUPPORTED to the other
 * one's way of getting a service; the rest is the same for both. One process may load both: then
 * handles go back to the library that made them.
 *
 * Objects are opaque. Every function that can fail returns a laneway_code and fills the error that
 * the caller gave (which may be NULL); LANEWAY_OK is 0. Functions may be called from any thread;
 * one object must not be released while another thread is inside a call with it, closing is fine.
 * Objects belong to the process that made them: in a child made by fork(), every call with one is
 * LANEWAY_UNAVAILABLE, and closing and releasing do nothing. fork() waits for running iterations to
 * end. Services that are open when the process exits are closed then. No function keeps a
 * pointer of the caller beyond its return, unless it says so. Tensor bytes are contiguous,
 * row-major, in the machine's byte order.
 */
#ifndef LANEWAY_H
#define LANEWAY_H

/* NOLINTBEGIN(modernize-deprecated-headers, readability-identifier-naming): this is C */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LANEWAY_ABI_VERSION 1

#define LANEWAY_API __attribute__((visibility("default")))

typedef enum laneway_code {
  LANEWAY_OK = 0,
  LANEWAY_PENDING = 1, /* not an error: not done yet (a wait's time passed, or work was queued) */
  LANEWAY_INVALID_ARGUMENT = 2,
  LANEWAY_INVALID_GRAPH = 3,
  LANEWAY_OUT_OF_MEMORY = 4,
  LANEWAY_REFUSED = 5, /* for good: the same call fails again */
  LANEWAY_UNAVAILABLE = 6,
  LANEWAY_FAILED = 7,
  LANEWAY_QUARANTINED = 8,
  LANEWAY_CANCELLED = 9,
  LANEWAY_TIMED_OUT = 10,
  LANEWAY_UNSUPPORTED = 11,
  LANEWAY_INTERNAL = 12,
  LANEWAY_DEVICE_LOST = 13,  /* the device failed for good; a daemon goes on with another worker */
  LANEWAY_OTHER_LAYOUT = 14, /* a result has other strides, another dtype or size than its graph
                                declares; the message names node and operator, the job is as
                                before the iteration */
  LANEWAY_BUSY = 15 /* as many requests as a job may have are not done yet; nothing was queued. The
                       same call can succeed after laneway_wait_for_room */
} laneway_code;

typedef struct laneway_error {
  int32_t code;       /* laneway_code */
  char message[4092]; /* one or more sentences, NUL-terminated, cut if longer */
} laneway_error;

typedef struct laneway_service laneway_service;
typedef struct laneway_job laneway_job;
typedef struct laneway_submission laneway_submission;

/* ---- service ----------------------------------------------------------------------------------
 */

typedef struct laneway_embedded_options {
  uint32_t size;             /* sizeof(laneway_embedded_options) */
  uint32_t lanes;            /* at most so many lanes; 0: as many as pay by measure */
  uint64_t pool_bytes;       /* 0: half of the memory that is free now; 90 % of a CUDA device's */
  const char* policy;        /* "fifo", "NAME:key=value", "./FILE:key=value"; NULL: fifo */
  const char* device;        /* "host", "cuda:N"; NULL: host */
  const char* torch_version; /* of the process; refused when its minor version is not the one built
                                against. NULL: not compared */
  /* since laneway_service_kernels; an options struct that ends before them is taken too */
  uint32_t lane_sms; /* multiprocessors that each lane has to itself; 0: lanes share all. Devices
                        that cannot be divided refuse any other value */
  uint32_t reserved; /* 0 */
  /* since laneway_job_drop_graph; an options struct that ends before them is taken too */
  int64_t store_bytes; /* memory for images that leave the pool while others need the room; < 0:
                          as much as the pool; 0: none */
  const char* spill_folder; /* of a file for those that find no room there; NULL: none */
  uint64_t spill_bytes;     /* of that file */
} laneway_embedded_options;

LANEWAY_API int laneway_abi_version(void);
/* The torch version that this library was built against, "2.11.0+cu130"; "" of the client library,
 * which knows no torch. */
LANEWAY_API const char* laneway_torch_version(void);

/* Core and worker inside this process. */
LANEWAY_API int laneway_embedded_open(const laneway_embedded_options* options,
                                      laneway_service** service, laneway_error* error);

typedef struct laneway_connect_options {
  uint32_t size;       /* sizeof(laneway_connect_options) */
  uint32_t reserved;   /* 0 */
  const char* address; /* "ipc://PATH"; NULL: $LANEWAY_ADDRESS, else the default one */
  const char* name;    /* how the service shows this client; NULL: the program's name */
  int64_t timeout_ns;  /* to wait for a service that is not there yet; < 0: no limit */
  /* since laneway_job_options.iteration_ns; an options struct that ends before it is taken too */
  const char* torch_version; /* with which this process captures graphs: a graph that the service's
                                torch refuses is refused with both versions, and the status shows
                                it. NULL or "": not known */
  /* since laneway_service_status_with; an options struct that ends before it is taken too */
  int64_t answer_ns; /* for how long a request waits for its answer, at most, before it fails with
                        LANEWAY_TIMED_OUT, as where the service is stopped; 0: ten minutes */
} laneway_connect_options;

/* A session with a running lanewayd; `options` may be NULL. LANEWAY_UNAVAILABLE, with what to do,
 * when there is none at the address, and from every later call once it is gone for good; a restart
 * of one of its programs is waited for. The service ends a client's jobs when the client dies. */
LANEWAY_API int laneway_connect(const laneway_connect_options* options, laneway_service** service,
                                laneway_error* error);
/* Ends every job that was made with the service (running iterations end first); an embedded one
 * frees the pool, a connection says goodbye. Idempotent.
 * Jobs stay valid as handles, and answer LANEWAY_UNAVAILABLE, until they are released. */
LANEWAY_API void laneway_service_close(laneway_service* service);
LANEWAY_API void laneway_service_release(laneway_service* service);
/* JSON, in the form of `laneway status --json` and "map": who holds which bytes of the pool.
 * To be freed with laneway_free. */
LANEWAY_API int laneway_service_status(laneway_service* service, char** json, laneway_error* error);
/* The same; without the jobs that are over where `with_ended` is 0, for those who ask often. */
LANEWAY_API int laneway_service_status_with(laneway_service* service, int with_ended, char** json,
                                            laneway_error* error);
/* The report of the job of that number in the status (see laneway_job_report), for its user and for
 * operators. To be freed with laneway_free. */
LANEWAY_API int laneway_service_job_report(laneway_service* service, uint64_t job, char** json,
                                           laneway_error* error);
/* What an operator does, by name: "kill" ends the job that the argument means, for everybody:
 * decimal digits are a job's number in the status, "name:NAME" is the job of that name, any other
 * text is a name; "release" tries such a job again that was quarantined; "load" brings a job's
 * image into the pool, "unload" sends it out, "pin" keeps it in until "unpin" (each begins when it
 * can: the status shows where an image is); "policy" has another policy decide from now on ("srtf",
 * "NAME:key=value", "./FILE:key=value": a program, looked for from the caller's folder); "pool"
 * gives the pool another size ("4GiB", at most that with which it was made; images that lie above
 * it move or leave first, and the status shows when it is so, but nothing is begun that some job
 * could not live with); "record" has the daemon write every decision to the file of this absolute
 * path, until "record" with NULL or the end of this connection (not of an embedded service);
 * "shutdown" ends the daemon (NULL; not of an embedded service).
 * LANEWAY_REFUSED when the user may not. */
LANEWAY_API int laneway_service_command(laneway_service* service, const char* command,
                                        const char* argument, laneway_error* error);
/* Changes what the policy is told of a job (named as above), from its next decision on: `settings`
 * is "KEY=VALUE", or several with blanks between: priority, weight, total_iterations, deadline
 * (seconds from the job's creation), iteration_s (seconds of one iteration), job_class ("training",
 * "inference", "best_effort"); total_iterations, deadline and iteration_s take "none". All or none
 * of them change. For the job's user and for operators. */
LANEWAY_API int laneway_service_set(laneway_service* service, const char* job, const char* settings,
                                    laneway_error* error);
/* Which kernels run a job's graphs: "cpu" or "cuda". Graphs are captured for one of them. Valid
 * until the service is released; NULL for NULL. */
LANEWAY_API const char* laneway_service_kernels(laneway_service* service);
LANEWAY_API void laneway_free(void* memory);

/* ---- jobs -------------------------------------------------------------------------------------
 */

typedef enum laneway_slot_kind {
  LANEWAY_PARAMETER = 0,
  LANEWAY_BUFFER = 1,
  LANEWAY_OPTIMIZER_STATE = 2,
  LANEWAY_GRADIENT = 3,
  LANEWAY_CONSTANT = 4
} laneway_slot_kind;

/* One persistent storage. */
typedef struct laneway_slot {
  const char* name;
  uint32_t kind; /* laneway_slot_kind */
  uint64_t bytes;
  const void* initial; /* read when the job is made; NULL: zeros */
} laneway_slot;

/* A file with first bytes of slots. */
typedef struct laneway_file {
  int32_t descriptor; /* of a regular file, open for reading; the caller may close it on return */
  uint32_t reserved;  /* 0 */
  const char* name;   /* for messages; NULL: "file N" */
} laneway_file;

/* Where in a file `bytes` bytes of a slot lie, from `slot_offset` on. */
typedef struct laneway_file_range {
  uint32_t slot;
  uint32_t file; /* index in the options' files */
  uint64_t slot_offset;
  uint64_t file_offset;
  uint64_t bytes;
  uint32_t has_crc32; /* not 0: the bytes are refused when they have another CRC-32 (zlib's) */
  uint32_t crc32;
} laneway_file_range;

typedef enum laneway_class {
  LANEWAY_TRAINING = 0,
  LANEWAY_INFERENCE = 1,
  LANEWAY_BEST_EFFORT = 2
} laneway_class;

/* Whether the device's work of an iteration is recorded once and then replayed at once, where the
 * device can: the whole, or what comes before the first step that needs the CPU. */
typedef enum laneway_replay {
  LANEWAY_REPLAY_AUTO = 0, /* where it changes nothing and the job is alone in its lane's region */
  LANEWAY_REPLAY_ON = 1,   /* whenever the graph allows it */
  LANEWAY_REPLAY_OFF = 2
} laneway_replay;

typedef struct laneway_job_options {
  uint32_t size;      /* sizeof(laneway_job_options) */
  uint32_t job_class; /* laneway_class */
  const char* name;   /* NULL: "job-N" */
  int32_t priority;   /* higher is more urgent; -1,000,000 to 1,000,000 */
  uint32_t slot_count;
  double weight;             /* of the device's time, beside other jobs: 0.001 to 1,000; 0: 1 */
  uint64_t total_iterations; /* of training, or calls of a job without it; 0: unknown */
  const laneway_slot* slots;
  const void* random_state; /* torch.get_rng_state(); NULL: torch's default seed */
  uint64_t random_state_bytes;
  /* since laneway_attach; an options struct that ends before them is taken too */
  uint32_t shared; /* not 0: others of the same user may attach to it by name */
  uint32_t replay; /* laneway_replay */
  /* since laneway_file; an options struct that ends before them is taken too */
  const laneway_file* files; /* read when the job gets its memory, not before */
  uint32_t file_count;       /* limits::kMaxWeightFiles at most */
  uint32_t range_count;
  const laneway_file_range* ranges; /* by slot, then by offset in the slot, disjoint. A slot that
                                       has one has no `initial`; the rest of it is zeros */
  /* since laneway_file_range; an options struct that ends before it is taken too */
  int64_t deadline_ns; /* all of its iterations should be done so long after laneway_job_create; 0:
                          no deadline */
  /* since laneway_job_options.deadline_ns; an options struct that ends before it is taken too */
  int64_t iteration_ns; /* what one iteration takes alone, until one is measured; 0: not known */
} laneway_job_options;

/* Makes a job and its first graph, and offers it for admission. Refused at once when it can never
 * run; otherwise it waits its turn: see laneway_job_wait. The initial bytes are copied. A file that
 * is written to before they are in the job's memory, that is cut short or damaged, ends the job
 * with LANEWAY_FAILED; one that never answers keeps nobody else waiting. */
LANEWAY_API int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                                   const void* graph, uint64_t graph_bytes, laneway_job** job,
                                   laneway_error* error);
/* A handle of a job of this service that another client (or the same) made with `shared`, by its
 * name. Its graphs may be run, its state read and written, graphs added; what each client submits
 * runs in order, between iterations of the others. Closing it only detaches. LANEWAY_REFUSED when
 * there is no such job, or it is not shared, or another user's. */
LANEWAY_API int laneway_attach(laneway_service* service, const char* name, laneway_job** job,
                               laneway_error* error);
/* JSON: {"name", "class", "slots": [{"name", "kind", "bytes"}], "graphs": [{"number", "name",
 * "inputs": [{"kind", "bytes", "name"}], "outputs": [{"kind", "bytes"}]}]}; kinds of slots as in
 * laneway_slot_kind ("parameter", …), of values "tensor", "real", "integer", "boolean". Slots in
 * order; graphs that this handle may run. To be freed with laneway_free. */
LANEWAY_API int laneway_job_describe(laneway_job* job, char** json, laneway_error* error);
/* Adds a graph over the slots of the job's image (what else it needs, constants for instance, it
 * takes as inputs). Graphs are numbered from 0 in order of adding. */
LANEWAY_API int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                                      uint32_t* index, laneway_error* error);
/* Takes a graph from the job: what was submitted for it still runs, nothing further is taken, its
 * number is not given again. Refused for the job's last graph. */
LANEWAY_API int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error);
/* laneway_service_set for this job; of an attached one too, which changes for all who use it. */
LANEWAY_API int laneway_job_set(laneway_job* job, const char* settings, laneway_error* error);
/* Waits until the job has its memory. LANEWAY_PENDING after `timeout_ns`, with position and reason
 * in the error's message. */
LANEWAY_API int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error);
/* Ends the job: what was submitted is cancelled, a running iteration ends first. Of an attached job
 * it ends the handle's own part: what was submitted through it is cancelled, the job goes on. */
LANEWAY_API void laneway_job_close(laneway_job* job);
LANEWAY_API void laneway_job_release(laneway_job* job);
/* JSON: state, lane, bytes, iterations, plans with their tapes. To be freed with laneway_free. */
LANEWAY_API int laneway_job_report(laneway_job* job, int with_tapes, char** json,
                                   laneway_error* error);

/* ---- iterations -------------------------------------------------------------------------------
 */

typedef struct laneway_input {
  const void* data; /* tensor */
  uint64_t bytes;
  double real;     /* number */
  int64_t integer; /* integer or boolean */
} laneway_input;

typedef struct laneway_output {
  void* data; /* a number takes 8 bytes: a double or an int64_t */
  uint64_t bytes;
} laneway_output;

/* Runs one iteration and waits for it when the job's lane is idle (it may run on this very thread)
 * and the graph's iterations take less than some 50 ms:
 * LANEWAY_OK, outputs filled. Otherwise queues it like laneway_submit (inputs copied) and returns
 * LANEWAY_PENDING with *pending set. */
LANEWAY_API int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                            uint32_t input_count, const laneway_output* outputs,
                            uint32_t output_count, laneway_submission** pending,
                            laneway_error* error);
/* Queues one iteration; inputs are copied. Iterations of a job run in the order of submission.
 * LANEWAY_BUSY when limits::kMaxInFlight are not done yet. */
LANEWAY_API int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                               uint32_t input_count, laneway_submission** submission,
                               laneway_error* error);
/* Waits until the job can take one more request: what to do after LANEWAY_BUSY. LANEWAY_PENDING
 * when `timeout_ns` passed (< 0: no limit), the reason when the job takes nothing any more. */
LANEWAY_API int laneway_wait_for_room(laneway_job* job, int64_t timeout_ns, laneway_error* error);
/* Waits for it; LANEWAY_PENDING when `timeout_ns` passed (0: only look; < 0: no limit). When it is
 * done, fills `outputs` (as many as the graph has, or 0). May be called again. */
LANEWAY_API int laneway_wait(laneway_submission* submission, int64_t timeout_ns,
                             const laneway_output* outputs, uint32_t output_count,
                             laneway_error* error);
/* Takes back what has not begun: LANEWAY_OK when it will not run (laneway_wait then tells
 * LANEWAY_CANCELLED), LANEWAY_REFUSED when it runs or is done. */
LANEWAY_API int laneway_cancel(laneway_submission* submission, laneway_error* error);
/* Forgets the handle; the iteration itself goes on. */
LANEWAY_API void laneway_submission_release(laneway_submission* submission);

/* ---- state ------------------------------------------------------------------------------------
 */

#define LANEWAY_RANDOM_STATE_BYTES 5056 /* of torch's CPU generator */

typedef struct laneway_slot_copy {
  uint32_t slot;
  uint64_t bytes; /* the slot's size */
  void* data;
} laneway_slot_copy;

/* Ordered: after all iterations submitted before, before all submitted after. LANEWAY_OK when it
 * was done at once; else LANEWAY_PENDING with *pending set: the arrays and the bytes that they
 * point to must then stay until laneway_wait said that it is done (or the job was closed). A job
 * that waits for memory has its initial bytes read or replaced. `random_state` may be NULL; else it
 * has room for, or holds, LANEWAY_RANDOM_STATE_BYTES bytes in the form of torch.get_rng_state(). */
LANEWAY_API int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                                   void* random_state, laneway_submission** pending,
                                   laneway_error* error);
LANEWAY_API int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots,
                                    uint32_t count, const void* random_state,
                                    laneway_submission** pending, laneway_error* error);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-deprecated-headers, readability-identifier-naming) */

#endif
