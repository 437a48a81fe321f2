#include "pipeline/spill_store.h"

#include <zlib.h>

#include <algorithm>

namespace laneway::pipeline {
namespace {

constexpr Bytes kPiece = mib(1);

// Never 0, which stands for none.
uint64_t checksum_of(uint64_t before, const std::byte* data, Bytes bytes) {
  const auto* const begin = reinterpret_cast<const Bytef*>(data);
  const uint32_t sum = static_cast<uint32_t>(
      ::crc32_z(static_cast<uint32_t>(before), begin, static_cast<size_t>(bytes.count())));
  return uint64_t{1} << 32 | sum;
}

// Of two parts, the second one `bytes` long.
uint64_t whole_of(uint64_t first, uint64_t second, Bytes bytes) {
  const uLong sum = ::crc32_combine(static_cast<uint32_t>(first), static_cast<uint32_t>(second),
                                    static_cast<z_off_t>(bytes.count()));
  return uint64_t{1} << 32 | static_cast<uint32_t>(sum);
}

}  // namespace

Result<uint64_t> SpillStore::save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                  Bytes at, const GoesOn& goes_on) {
  piece_.resize(static_cast<size_t>(kPiece.count()));
  uint64_t sum = 0;
  for (Bytes done; done < size; done += kPiece) {
    if (!goes_on(done)) return not_wanted();
    const Bytes bytes = std::min(kPiece, size - done);
    if (Status read = pool.read(piece_.data(), image + done.count(), bytes); !read) {
      return read.error();
    }
    sum = checksum_of(sum, piece_.data(), bytes);
    if (Status wrote = file_.write(at + done, piece_.data(), bytes); !wrote) return wrote.error();
  }
  return sum;
}

Status SpillStore::load(memory::PoolAccess& pool, std::byte* image, const Saved& saved, Bytes there,
                        const GoesOn& goes_on, const Started& started) {
  piece_.resize(static_cast<size_t>(kPiece.count()));
  uint64_t sum = 0;
  for (Bytes at = there; at < saved.size; at += kPiece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(kPiece, saved.size - at);
    if (Status read = file_.read(saved.at + at, piece_.data(), bytes); !read) return read;
    sum = checksum_of(sum, piece_.data(), bytes);
    if (Status wrote = pool.write(image + at.count(), piece_.data(), bytes); !wrote) return wrote;
    started(at + bytes, nullptr);
  }
  if (there > Bytes()) {
    // Nodes run meanwhile: the disk is not kept waiting for what is in the pool already.
    const uint64_t begin = checksum_of(0, image, there);
    sum = whole_of(begin, sum, saved.size - there);
  }
  if (sum == saved.checksum) return {};
  return Error{ErrorCode::failed,
               "its image came back from the spill file with other bytes than were written: the "
               "disk or its folder cannot be relied on. Its state is lost; make the job again from "
               "your last state_dict()"};
}

}  // namespace laneway::pipeline
