// An ELF note that says which torch the file was built with: "LANEWAY" and "2.11.0+cu130". Python
// reads it before the file is loaded or started, because a binary for another minor version of
// torch must not even be tried (python/laneway/native/torch_versions.py).
#include <cstdint>

namespace {

struct TorchNote {
  uint32_t name_bytes;
  uint32_t version_bytes;
  uint32_t type;
  char name[8];
  char version[(sizeof LANEWAY_TORCH_VERSION + 3) / 4 * 4];
};
[[gnu::section(".note.laneway"), gnu::used, gnu::aligned(4)]] const TorchNote torch_note = {
    8, sizeof LANEWAY_TORCH_VERSION, 1, "LANEWAY", LANEWAY_TORCH_VERSION};

}  // namespace
