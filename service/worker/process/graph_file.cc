#include "service/worker/process/graph_file.h"

#include <sys/stat.h>

#include <string>

#include "base/limits.h"
#include "memory/os/shared_memory.h"

namespace laneway::service {

Result<std::vector<std::byte>> read_graph(Descriptor memfd) {
  struct stat status {};
  if (::fstat(memfd.get(), &status) != 0) {
    return Error{ErrorCode::invalid_argument, "a graph's descriptor is not one"};
  }
  if (status.st_size <= 0 || static_cast<uint64_t>(status.st_size) > limits::kMaxGraphBytes) {
    return Error{ErrorCode::invalid_graph, "a graph of " + std::to_string(status.st_size) +
                                               " bytes: the limit is " +
                                               std::to_string(limits::kMaxGraphBytes)};
  }
  auto memory = memory::SharedMemory::attach(memfd.release(), Bytes(status.st_size));
  if (!memory) return memory.error();
  return std::vector<std::byte>(memory.value().data(), memory.value().data() + status.st_size);
}

}  // namespace laneway::service
