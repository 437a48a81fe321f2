// laneway-client-roundtrip: what a client of the service waits for one iteration.
//
//     laneway-client-roundtrip ADDRESS GRAPH CORE
//
// Makes a job without slots of the graph in the file GRAPH (each input 16 zero bytes, one output of
// 16: the empty graph of the benches) and runs it synchronously through laneway.h. CORE is where
// this process stays (-1: anywhere). Trials as in bench/trial_loop.h.
//
//     laneway-client-roundtrip ADDRESS GRAPH CORE IN_FLIGHT [PRIORITY]
//
// keeps IN_FLIGHT iterations under way instead (if more than 1); a round trip is then from one
// result to the next.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/trial_loop.h"
#include "service/api/laneway.h"

namespace {

constexpr uint64_t kBytes = 16;

laneway_error error;

void require(int code, const char* what) {
  if (code == LANEWAY_OK) return;
  std::fprintf(stderr, "laneway-client-roundtrip: %s: %s\n", what, error.message);
  std::exit(1);
}

int number(const char* text) { return static_cast<int>(std::strtol(text, nullptr, 10)); }

struct Client {
  laneway_job* job = nullptr;
  unsigned char in[kBytes] = {};
  unsigned char out[kBytes] = {};
  const laneway_input input{in, kBytes, 0, 0};
  const laneway_output output{out, kBytes};

  // A synchronous iteration.
  int64_t run() {
    laneway_submission* pending = nullptr;
    const int64_t start = laneway::bench::now_ns();
    int code = laneway_run(job, 0, &input, 1, &output, 1, &pending, &error);
    if (code == LANEWAY_PENDING) {
      code = laneway_wait(pending, -1, &output, 1, &error);
      laneway_submission_release(pending);
    }
    const int64_t end = laneway::bench::now_ns();
    require(code, "an iteration");
    return end - start;
  }

  std::deque<laneway_submission*> under_way;
  int64_t last = 0;

  // The next result, with `most` under way before it is waited for.
  int64_t next_of(size_t most) {
    if (under_way.empty()) last = laneway::bench::now_ns();
    while (under_way.size() < most) {
      laneway_submission* submitted = nullptr;
      require(laneway_submit(job, 0, &input, 1, &submitted, &error), "a submission");
      under_way.push_back(submitted);
    }
    require(laneway_wait(under_way.front(), -1, &output, 1, &error), "an iteration in flight");
    laneway_submission_release(under_way.front());
    under_way.pop_front();
    const int64_t now = laneway::bench::now_ns();
    const int64_t took = now - last;
    last = now;
    return took;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fprintf(stderr,
                 "usage: laneway-client-roundtrip ADDRESS GRAPH CORE [IN_FLIGHT [PRIORITY]]\n");
    return 2;
  }
  laneway::bench::stay_on_core(number(argv[3]));
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> graph{std::istreambuf_iterator<char>(file), {}};
  laneway_connect_options where{};
  where.size = sizeof(where);
  where.address = argv[1];
  where.name = "laneway-client-roundtrip";
  laneway_service* service = nullptr;
  require(laneway_connect(&where, &service, &error), "connect");
  laneway_job_options options{};
  options.size = sizeof(options);
  options.job_class = LANEWAY_INFERENCE;
  options.priority = argc == 6 ? number(argv[5]) : 0;
  Client client;
  require(laneway_job_create(service, &options, graph.data(), graph.size(), &client.job, &error),
          "the job");
  require(laneway_job_wait(client.job, -1, &error), "admission");
  const auto in_flight = static_cast<size_t>(argc > 4 ? number(argv[4]) : 1);
  const int code = laneway::bench::serve_trials(
      [&] { return in_flight > 1 ? client.next_of(in_flight) : client.run(); });
  while (!client.under_way.empty()) client.next_of(1);
  laneway_job_close(client.job);
  laneway_job_release(client.job);
  laneway_service_close(service);
  laneway_service_release(service);
  return code;
}
