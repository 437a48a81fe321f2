/* run_graph ADDRESS GRAPH: connects to a lanewayd, makes a job of one slot of 16 bytes and the
 * graph file (four floats in, four out), runs it three times and prints what came out. */
#include <stdio.h>

#include "service/api/laneway.h"

static laneway_error error;

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, error.message);
  return 1;
}

int main(int argc, char** argv) {
  static char graph[1 << 20];
  FILE* file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (file == NULL) return 2;
  const size_t graph_bytes = fread(graph, 1, sizeof graph, file);
  fclose(file);

  const laneway_connect_options options = {.size = sizeof options, .address = argv[1]};
  laneway_service* service = NULL;
  if (laneway_connect(&options, &service, &error) != LANEWAY_OK) return failed("connect");
  const laneway_slot slot = {.name = "state", .kind = LANEWAY_PARAMETER, .bytes = 16};
  const laneway_job_options wanted = {
      .size = sizeof wanted, .name = "example", .slot_count = 1, .slots = &slot};
  laneway_job* job = NULL;
  if (laneway_job_create(service, &wanted, graph, graph_bytes, &job, &error) != LANEWAY_OK)
    return failed("job");

  const float in[4] = {1, 2, 3, 4};
  float out[4] = {0};
  const laneway_input input = {.data = in, .bytes = sizeof in};
  const laneway_output output = {.data = out, .bytes = sizeof out};
  for (int i = 0; i < 3; ++i) {
    laneway_submission* pending = NULL;
    int code = laneway_run(job, 0, &input, 1, &output, 1, &pending, &error);
    if (code == LANEWAY_PENDING) {
      code = laneway_wait(pending, -1, &output, 1, &error);
      laneway_submission_release(pending);
    }
    if (code != LANEWAY_OK) return failed("run");
  }
  printf("out %g %g %g %g\n", out[0], out[1], out[2], out[3]);
  laneway_job_release(job);
  laneway_service_close(service);
  laneway_service_release(service);
  return 0;
}
