/* Shows that laneway.h is C and that the shared object alone serves a client: opens an embedded
 * service, makes a job of the graph file that is named, runs it three times, reads its state and
 * prints it. The asserts below hold the interface's layout still: fields are only ever appended. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "service/api/laneway.h"

static_assert(sizeof(void*) == 8, "the layouts below are those of 64-bit machines");
static_assert(sizeof(laneway_error) == 4096, "laneway_error");
static_assert(sizeof(laneway_input) == 32 && offsetof(laneway_input, integer) == 24,
              "laneway_input");
static_assert(sizeof(laneway_output) == 16, "laneway_output");
static_assert(sizeof(laneway_slot) == 32 && offsetof(laneway_slot, initial) == 24, "laneway_slot");
static_assert(sizeof(laneway_slot_copy) == 24, "laneway_slot_copy");
static_assert(sizeof(laneway_embedded_options) >= 40, "laneway_embedded_options");
static_assert(offsetof(laneway_embedded_options, torch_version) == 32, "laneway_embedded_options");
static_assert(offsetof(laneway_embedded_options, lane_sms) == 40, "laneway_embedded_options");
static_assert(sizeof(laneway_job_options) >= 64, "laneway_job_options");
static_assert(offsetof(laneway_job_options, random_state_bytes) == 56, "laneway_job_options");
static_assert(offsetof(laneway_job_options, shared) == 64, "laneway_job_options");
static_assert(offsetof(laneway_job_options, replay) == 68, "laneway_job_options");
static_assert(offsetof(laneway_job_options, deadline_ns) == 96, "laneway_job_options");
static_assert(sizeof(laneway_connect_options) >= 32, "laneway_connect_options");
static_assert(offsetof(laneway_connect_options, timeout_ns) == 24, "laneway_connect_options");
static_assert(offsetof(laneway_connect_options, torch_version) == 32, "laneway_connect_options");
static_assert(offsetof(laneway_connect_options, answer_ns) == 40, "laneway_connect_options");

static laneway_error error;

static int failed(const char* what) {
  fprintf(stderr, "%s: %s (code %d)\n", what, error.message, (int)error.code);
  return 1;
}

/* Waits for what was queued. */
static int settle(int code, laneway_submission* pending, const laneway_output* output) {
  if (code != LANEWAY_PENDING) return code;
  code = laneway_wait(pending, -1, output, output != NULL ? 1 : 0, &error);
  laneway_submission_release(pending);
  return code;
}

/* Runs the graph three times, after calls that must be refused without harm. */
static int train(laneway_job* job) {
  const float step[4] = {1, 2, 3, 4};
  float out[4] = {0};
  const laneway_input input = {.data = step, .bytes = sizeof step};
  laneway_output output = {.data = out, .bytes = sizeof out - 4};
  laneway_submission* pending = NULL;
  int code = laneway_run(job, 0, &input, 1, &output, 1, &pending, &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("run with too small an output");
  code = laneway_run(job, 0, &input, 1, NULL, 0, &pending, &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("run without an output");
  output.bytes = sizeof out;
  for (int i = 0; i < 3; ++i) {
    code = laneway_run(job, 0, &input, 1, &output, 1, &pending, &error);
    if (settle(code, pending, &output) != LANEWAY_OK) return failed("run");
  }
  return out[3] == 24 ? 0 : failed("sum");
}

/* Replaces the state and prints what is read back. */
static int exchange_state(laneway_job* job) {
  float wanted[4] = {2, 4, 6, 8};
  float state[4] = {0};
  const laneway_slot_copy replace = {.slot = 0, .bytes = sizeof wanted, .data = wanted};
  const laneway_slot_copy copy = {.slot = 0, .bytes = sizeof state, .data = state};
  laneway_submission* pending = NULL;
  int code = laneway_write_state(job, &replace, 1, NULL, &pending, &error);
  if (settle(code, pending, NULL) != LANEWAY_OK) return failed("write_state");
  code = laneway_read_state(job, &copy, 1, NULL, &pending, &error);
  if (settle(code, pending, NULL) != LANEWAY_OK) return failed("read_state");
  char* report = NULL;
  if (laneway_job_report(job, 0, &report, &error) != LANEWAY_OK) return failed("report");
  const int counted = strstr(report, "\"iterations\":3") != NULL;
  laneway_free(report);
  printf("state %g %g %g %g; iterations 3 %s\n", state[0], state[1], state[2], state[3],
         counted ? "ok" : "lost");
  return 0;
}

/* A second handle of the shared job runs its graph, is closed, and the job goes on; one that was
 * not shared is not to be had. */
static int attach(laneway_service* service, laneway_job* job) {
  laneway_job* again = NULL;
  if (laneway_attach(service, "nobody", &again, &error) != LANEWAY_REFUSED) return failed("attach");
  if (laneway_attach(service, "c", &again, &error) != LANEWAY_OK) return failed("attach");
  char* described = NULL;
  if (laneway_job_describe(again, &described, &error) != LANEWAY_OK) return failed("describe");
  const char* slot = "{\"name\":\"state\",\"kind\":\"parameter\",\"bytes\":16}";
  const int found = strstr(described, slot) != NULL;
  laneway_free(described);
  if (!found) return failed("describe names the slot");
  const float step[4] = {0};
  const laneway_input input = {.data = step, .bytes = sizeof step};
  laneway_submission* submission = NULL;
  if (laneway_submit(again, 0, &input, 1, &submission, &error) != LANEWAY_OK) return failed("run");
  const int cancelled = laneway_cancel(submission, &error);
  const int wanted = cancelled == LANEWAY_OK ? LANEWAY_CANCELLED : LANEWAY_OK;
  if (laneway_wait(submission, -1, NULL, 0, &error) != wanted) return failed("cancel");
  laneway_submission_release(submission);
  laneway_job_close(again);
  int code = laneway_job_describe(again, &described, &error);
  if (code != LANEWAY_UNAVAILABLE) return failed("describe after close");
  laneway_job_release(again);
  if (laneway_job_describe(job, &described, &error) != LANEWAY_OK) return failed("describe");
  laneway_free(described);
  return 0;
}

/* The status must say it. */
static int set_options(laneway_service* service, laneway_job* job) {
  laneway_error error;
  if (laneway_job_set(job, "weight=2.5 priority=-3", &error) != LANEWAY_OK) return failed("set");
  if (laneway_service_set(service, "name:c", "deadline=90", &error) != LANEWAY_OK)
    return failed("set by name");
  char* json = NULL;
  if (laneway_service_status(service, &json, &error) != LANEWAY_OK) return failed("status");
  const int shown = strstr(json, "\"weight\":2.5") != NULL &&
                    strstr(json, "\"priority\":-3") != NULL &&
                    strstr(json, "\"deadline_s\":90.0") != NULL;
  laneway_free(json);
  if (!shown) return failed("what was set");
  if (laneway_service_status_with(service, 0, &json, &error) != LANEWAY_OK)
    return failed("status without jobs that are over");
  laneway_free(json);
  if (laneway_job_set(job, "weight=nan", &error) != LANEWAY_INVALID_ARGUMENT ||
      strstr(error.message, "weight = nan") == NULL)
    return failed("set a weight that is no number");
  if (laneway_service_set(service, "name:nobody", "weight=1", &error) != LANEWAY_INVALID_ARGUMENT)
    return failed("set of a job that is not there");
  return 0;
}

/* Operators' words: what is none is refused, a policy is taken, a job is ended for everybody. */
static int command(laneway_service* service, laneway_job* job) {
  int code = laneway_service_command(service, "explode", NULL, &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("an unknown command");
  code = laneway_service_command(service, "shutdown", NULL, &error);
  if (code != LANEWAY_UNSUPPORTED) return failed("shutdown");
  code = laneway_service_command(service, "policy", "none such", &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("an unknown policy");
  if (laneway_service_command(service, "policy", "srtf", &error) != LANEWAY_OK)
    return failed("policy");
  code = laneway_service_command(service, "kill", "nobody", &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("kill of nobody");
  if (laneway_service_command(service, "kill", "c", &error) != LANEWAY_OK) return failed("kill");
  code = laneway_job_wait(job, 0, &error);
  return code == LANEWAY_UNAVAILABLE ? 0 : failed("wait for a killed job");
}

int main(int argc, char** argv) {
  static char graph[65536];
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 2;
  const size_t graph_bytes = fread(graph, 1, sizeof graph, file);
  fclose(file);
  if (laneway_abi_version() != LANEWAY_ABI_VERSION) return failed("version");

  laneway_embedded_options options = {.size = sizeof options, .pool_bytes = 8u << 20};
  options.torch_version = "1.0";
  laneway_service* service = NULL;
  int code = laneway_embedded_open(&options, &service, &error);
  if (code != LANEWAY_UNSUPPORTED) return failed("open with another torch");
  /* Another build of the same minor version. */
  char torch_version[64];
  snprintf(torch_version, sizeof torch_version, "%s+other", laneway_torch_version());
  options.torch_version = torch_version;
  /* As a program that was compiled before `lane_sms` was there. */
  options.size = offsetof(laneway_embedded_options, lane_sms);
  if (laneway_embedded_open(&options, &service, &error) != LANEWAY_OK) return failed("open");
  if (laneway_service_kernels(NULL) != NULL) return failed("kernels of nothing");
  if (strcmp(laneway_service_kernels(service), "cpu") != 0) return failed("kernels");

  const laneway_slot slot = {.name = "state", .kind = LANEWAY_PARAMETER, .bytes = 16};
  laneway_job_options job_options = {
      .size = sizeof job_options, .name = "c", .slot_count = 1, .slots = &slot, .shared = 1};
  laneway_job* job = NULL;
  code = laneway_job_create(service, &job_options, "LWGR", 4, &job, &error);
  if (code != LANEWAY_INVALID_GRAPH) return failed("create of a cut graph");
  job_options.replay = LANEWAY_REPLAY_OFF + 1;
  code = laneway_job_create(service, &job_options, graph, graph_bytes, &job, &error);
  if (code != LANEWAY_INVALID_ARGUMENT) return failed("create with an unknown replay");
  job_options.replay = LANEWAY_REPLAY_OFF;
  code = laneway_job_create(service, &job_options, graph, graph_bytes, &job, &error);
  if (code != LANEWAY_OK) return failed("create");
  if (laneway_job_wait(job, INT64_MAX, &error) != LANEWAY_OK) return failed("wait");

  if (train(job) != 0 || exchange_state(job) != 0 || attach(service, job) != 0) return 1;
  if (set_options(service, job) != 0) return 1;
  if (command(service, job) != 0) return 1;
  laneway_job_release(job);

  /* As a program that was compiled before `shared` was there. */
  job_options.size = offsetof(laneway_job_options, shared);
  code = laneway_job_create(service, &job_options, graph, graph_bytes, &job, &error);
  if (code != LANEWAY_OK) return failed("create with the first options");
  laneway_job* other = NULL;
  if (laneway_attach(service, "c", &other, &error) != LANEWAY_REFUSED)
    return failed("attach to a job that is not shared");
  if (laneway_connect(NULL, &service, &error) != LANEWAY_UNSUPPORTED) return failed("connect");
  laneway_service_close(service);
  laneway_submission* pending = NULL;
  code = laneway_submit(job, 0, &(laneway_input){.data = graph, .bytes = 16}, 1, &pending, &error);
  laneway_job_release(job);
  laneway_service_release(service);
  return code == LANEWAY_UNAVAILABLE ? 0 : failed("submit after close");
}
