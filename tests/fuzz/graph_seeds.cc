// Writes the valid graphs of tests/support as files, one each, into the folder given: the fuzzer's
// first corpus. Usage: graph_seeds FOLDER
#include <cstdio>
#include <fstream>
#include <string>

#include "base/random.h"
#include "lanes/graph/graph_codec.h"
#include "tests/support/graph_builder.h"
#include "tests/support/random_graph.h"

namespace {

bool write_seed(const std::string& folder, const std::string& name,
                const laneway::lanes::Graph& graph) {
  const auto bytes = laneway::lanes::encode_graph(graph);
  std::ofstream file(folder + "/" + name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return file.good();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: graph_seeds FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  bool ok = write_seed(folder, "training", laneway::testing::training_graph()) &&
            write_seed(folder, "inference", laneway::testing::inference_graph()) &&
            write_seed(folder, "every_kind", laneway::testing::every_kind_graph());
  laneway::Random random(1);
  for (int i = 0; i < 20 && ok; ++i) {
    ok = write_seed(folder, "random" + std::to_string(i), laneway::testing::random_graph(random));
  }
  if (!ok) std::fprintf(stderr, "graph_seeds: cannot write into %s\n", folder.c_str());
  return ok ? 0 : 1;
}
