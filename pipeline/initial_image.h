// InitialImage: a job's bytes from its making until they are placed in the pool, by slot: copied
// from the client's, or memory that the client shares, or in files of its. And SlotPlaces: where
// each slot's bytes are now, in here or in the placed image, for ordered accesses to the state; the
// pool may be memory that the CPU does not reach by itself. Not thread-safe: belongs to whoever has
// set WorkerJob::running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/os/shared_memory.h"
#include "memory/pool_access.h"
#include "pipeline/goes_on.h"
#include "pipeline/image.h"
#include "pipeline/weight_file_reader.h"

namespace laneway::pipeline {

// Borrowed: valid as long as what it was made from.
class SlotPlaces {
 public:
  // In an image that lies at `image` in the pool.
  SlotPlaces(memory::PoolAccess& pool, std::byte* image, const ImageLayout& layout)
      : pool_(&pool), base_(image), layout_(&layout) {}
  // In an image in the CPU's memory.
  SlotPlaces(std::byte* image, const ImageLayout& layout) : base_(image), layout_(&layout) {}
  // In the CPU's memory.
  SlotPlaces(std::byte* base, std::span<const uint64_t> offsets) : base_(base), offsets_(offsets) {}

  // The slot's first `bytes` bytes, as many as it has at most. Error device_lost when the device
  // failed.
  Status read(uint32_t slot, void* to, uint64_t bytes) const;
  Status write(uint32_t slot, const void* from, uint64_t bytes) const;

 private:
  std::byte* slot(uint32_t index) const {
    return base_ + (layout_ != nullptr ? static_cast<uint64_t>(layout_->offset(index).count())
                                       : offsets_[index]);
  }

  memory::PoolAccess* pool_ = nullptr;  // none: the bytes are the CPU's
  std::byte* base_;
  const ImageLayout* layout_ = nullptr;
  std::span<const uint64_t> offsets_;
};

class InitialImage {
 public:
  InitialImage() = default;
  // Copies `initial`, by slot; null: zeros.
  InitialImage(std::span<const lanes::ImageSlot> slots, std::span<const void* const> initial);
  // Zeros.
  explicit InitialImage(std::span<const lanes::ImageSlot> slots);
  // What a client laid out by slot_offsets. Takes the descriptor over. invalid_argument when it is
  // not sealed memory of that size.
  static Result<InitialImage> map(std::span<const lanes::ImageSlot> slots, int descriptor);

  // The slots that have ranges in `files` have their bytes there, and what the memory has of them
  // is of no meaning.
  void set_files(WeightFileReader files) { files_ = std::move(files); }
  bool lies_in_files() const { return !files_.empty(); }

  // Made from nothing: there are no bytes.
  bool empty() const { return data() == nullptr; }
  // Requires: they do not lie in files.
  SlotPlaces places() const { return {data(), offsets_}; }
  // Writes all `size` bytes of the image in `pool`: the slots', and zeros between and behind them.
  // Errors: cancelled, when the image is not wanted; failed, with what is wrong with a file.
  Status write_to(memory::PoolAccess& pool, std::byte* image, Bytes size, const ImageLayout& layout,
                  const GoesOn& goes_on);

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  std::byte* data() const { return shared_ ? shared_->data() : own_.get(); }

  std::vector<uint64_t> offsets_;
  std::unique_ptr<std::byte, Free> own_;  // from calloc: zeros that nobody writes take no memory
  std::optional<memory::SharedMemory> shared_;
  WeightFileReader files_;
};

}  // namespace laneway::pipeline
