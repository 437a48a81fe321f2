// Writes the adding graph of four floats to a file, for the client in C.
#include <cstdio>

#include "lanes/graph/graph_codec.h"
#include "tests/service/tiny_graphs.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto bytes = laneway::lanes::encode_graph(laneway::testing::adding_graph(4));
  std::FILE* file = std::fopen(argv[1], "wb");
  if (file == nullptr) return 1;
  const size_t written = std::fwrite(bytes.data(), 1, bytes.size(), file);
  return std::fclose(file) == 0 && written == bytes.size() ? 0 : 1;
}
