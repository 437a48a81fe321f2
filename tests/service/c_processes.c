/* Shows laneway.h across fork() and exit(): a child is told whose the service is and ends without
 * waiting for anybody; the parent goes on; a process that exits with an open service, a thread in
 * the middle of iterations and submissions in flight ends well. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/api/laneway.h"

static laneway_error error;
static laneway_service* service;
static laneway_job* job;
static const float step[4] = {1, 2, 3, 4};
static const laneway_input input = {.data = step, .bytes = sizeof step};

static int failed(const char* what) {
  fprintf(stderr, "%s: %s (code %d)\n", what, error.message, (int)error.code);
  return 1;
}

static int run_once(laneway_error* told) {
  float out[4];
  const laneway_output output = {.data = out, .bytes = sizeof out};
  laneway_submission* pending = NULL;
  int code = laneway_run(job, 0, &input, 1, &output, 1, &pending, told);
  if (code != LANEWAY_PENDING) return code;
  code = laneway_wait(pending, -1, &output, 1, told);
  laneway_submission_release(pending);
  return code;
}

static int refused(int code, const char* what) {
  char owner[64];
  snprintf(owner, sizeof owner, "belongs to process %d, this is process %d,", (int)getppid(),
           (int)getpid());
  if (code == LANEWAY_UNAVAILABLE && strstr(error.message, owner) != NULL) return 0;
  return failed(what);
}

/* In the child: everything is refused, closing does nothing, and exit() is not kept waiting. */
static int use_in_child(laneway_submission* submission) {
  laneway_submission* pending = NULL;
  char* json = NULL;
  int wrong = refused(run_once(&error), "run");
  wrong |= refused(laneway_submit(job, 0, &input, 1, &pending, &error), "submit");
  wrong |= refused(laneway_wait(submission, -1, NULL, 0, &error), "wait for a submission");
  wrong |= refused(laneway_job_wait(job, -1, &error), "wait for the job");
  wrong |= refused(laneway_job_report(job, 0, &json, &error), "report");
  wrong |= refused(laneway_service_status(service, &json, &error), "status");
  laneway_job_close(job);
  laneway_service_close(service);
  laneway_submission_release(submission);
  laneway_job_release(job);
  laneway_service_release(service);
  return wrong;
}

static void* train(void* begun) {
  while (run_once(NULL) == LANEWAY_OK) {
    if (begun != NULL) *(volatile int*)begun = 1;
  }
  return NULL;
}

int main(int argc, char** argv) {
  static char graph[65536];
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 2;
  const size_t graph_bytes = fread(graph, 1, sizeof graph, file);
  fclose(file);
  const laneway_embedded_options options = {.size = sizeof options, .pool_bytes = 8u << 20};
  const laneway_slot slot = {.name = "state", .kind = LANEWAY_PARAMETER, .bytes = 16};
  const laneway_job_options job_options = {
      .size = sizeof job_options, .name = "c", .slot_count = 1, .slots = &slot};
  if (laneway_embedded_open(&options, &service, &error) != LANEWAY_OK) return failed("open");
  int code = laneway_job_create(service, &job_options, graph, graph_bytes, &job, &error);
  if (code != LANEWAY_OK) return failed("create");

  pthread_t thread;
  static volatile int begun = 0;
  if (pthread_create(&thread, NULL, &train, (void*)&begun) != 0) return failed("thread");
  while (!begun) {
  }
  for (int round = 0; round < 20; ++round) {
    laneway_submission* submission = NULL;
    code = laneway_submit(job, 0, &input, 1, &submission, &error);
    if (code != LANEWAY_OK) return failed("submit");
    const pid_t child = fork();
    if (child == 0) exit(use_in_child(submission));
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) return failed("child");
    if (laneway_wait(submission, -1, NULL, 0, &error) != LANEWAY_OK) return failed("wait");
    laneway_submission_release(submission);
  }
  for (int i = 0; i < 50; ++i) {
    laneway_submission* forgotten = NULL;
    code = laneway_submit(job, 0, &input, 1, &forgotten, &error);
    if (code != LANEWAY_OK && code != LANEWAY_REFUSED) return failed("submit");
  }
  return 0; /* with all of it open */
}
