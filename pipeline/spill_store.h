// SpillStore: images in a file. A disk may return something else than it got, so each image has a
// checksum; and it may take any time. With a part of the image in the pool already, load has the
// CPU read that part there: the checksum is the whole image's.
#pragma once

#include <vector>

#include "memory/os/spill_file.h"
#include "pipeline/outside_store.h"

namespace laneway::pipeline {

class SpillStore final : public OutsideStore {
 public:
  explicit SpillStore(memory::SpillFile file) : file_(std::move(file)) {}

  Bytes size() const override { return file_.size(); }
  std::byte* in_memory() const override { return nullptr; }
  bool may_stall() const override { return true; }
  Result<uint64_t> save(memory::PoolAccess& pool, const std::byte* image, Bytes size, Bytes at,
                        const GoesOn& goes_on) override;
  Status load(memory::PoolAccess& pool, std::byte* image, const Saved& saved, Bytes there,
              const GoesOn& goes_on, const Started& started) override;

 private:
  memory::SpillFile file_;
  std::vector<std::byte> piece_;  // on its way between pool and file
};

}  // namespace laneway::pipeline
