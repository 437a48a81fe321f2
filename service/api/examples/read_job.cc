// read_job ADDRESS GRAPH: what run_graph.c does, in C++: makes a job that others may join, joins it
// by its name as another client would, runs an iteration through the second handle and reads the
// state.
#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "service/api/laneway.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> graph{std::istreambuf_iterator<char>(file), {}};
  try {
    auto service = laneway::client::Service::connect(argv[1]);
    const laneway_slot slot{
        .name = "state", .kind = LANEWAY_PARAMETER, .bytes = 16, .initial = nullptr};
    laneway_job_options options{};
    options.name = "example";
    options.slot_count = 1;
    options.slots = &slot;
    options.shared = 1;
    auto job = service.create_job(options, graph);
    auto joined = service.attach("example");
    std::cout << joined.describe() << "\n";

    const std::array<float, 4> in = {1, 2, 3, 4};
    std::array<float, 4> out{}, state{};
    const std::array inputs = {
        laneway_input{.data = in.data(), .bytes = sizeof in, .real = 0, .integer = 0}};
    const std::array outputs = {laneway_output{.data = out.data(), .bytes = sizeof out}};
    joined.run(0, inputs, outputs);
    const std::array slots = {
        laneway_slot_copy{.slot = 0, .bytes = sizeof state, .data = state.data()}};
    job.read_state(slots);
    std::cout << "out " << out[3] << " state " << state[3] << "\n";
  } catch (const laneway::client::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
