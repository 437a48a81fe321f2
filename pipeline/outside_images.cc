#include "pipeline/outside_images.h"

#include <zlib.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/log.h"
#include "pipeline/limits.h"

namespace laneway::pipeline {
namespace {

using lanes::Tier;

constexpr Bytes kPiece = mib(1);

Error not_wanted() { return {ErrorCode::cancelled, "the image is not wanted any more"}; }

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

std::byte* OutsideImages::in_memory(const lanes::OutsidePlace& place) const {
  return place.tier == Tier::store && store_ ? store_->data() + place.offset.count() : nullptr;
}

Status OutsideImages::check(const lanes::OutsidePlace& place, Bytes size) const {
  Bytes capacity;
  if (place.tier == Tier::store && store_) capacity = store_->size();
  if (place.tier == Tier::spill && spill_) capacity = spill_->size();
  const bool inside = size >= Bytes() && size <= capacity && place.offset >= Bytes() &&
                      place.offset <= capacity - size;
  if (inside) return {};
  return Error{ErrorCode::internal, "an image's place outside of the pool, " + format_bytes(size) +
                                        " at " + std::to_string(place.offset.count()) + " of the " +
                                        lanes::tier_name(place.tier) + ", does not exist"};
}

Status OutsideImages::make_present(Bytes at, Bytes size) {
  const Bytes end = store_->size();
  present_.resize(static_cast<size_t>((end.count() + kPiece.count() - 1) / kPiece.count()));
  for (auto piece = static_cast<size_t>(at.count() / kPiece.count()); piece < present_.size();
       ++piece) {
    const Bytes begin(static_cast<int64_t>(piece) * kPiece.count());
    if (begin >= at + size) break;
    if (present_[piece]) continue;
    if (Status made = store_->make_present(begin, std::min(kPiece, end - begin)); !made) {
      return made;
    }
    present_[piece] = true;
  }
  return {};
}

void OutsideImages::pin(memory::PoolAccess& pool, Bytes at, Bytes size) {
  if (!pool.wants_pinned() || !can_pin_ || size <= Bytes()) return;
  const int64_t unit = limits::kStorePin.count();
  for (int64_t n = at.count() / unit; n * unit < (at + size).count(); ++n) {
    if (pinned_.contains(n)) continue;
    const Bytes begin(n * unit);
    const Bytes bytes = std::min(limits::kStorePin, store_->size() - begin);
    Status done = make_present(begin, bytes);
    if (done) {
      auto pinned = pool.pin(store_->data() + begin.count(), bytes);
      if (pinned) {
        pinned_.emplace(n, std::move(pinned).value());
        continue;
      }
      done = pinned.error();
    }
    can_pin_ = false;
    log_warning("images outside of the pool come and go at a part of the link's rate: " +
                done.error().message);
    return;
  }
}

Result<uint64_t> OutsideImages::save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                     const lanes::OutsidePlace& to, const GoesOn& goes_on) {
  if (Status fits = check(to, size); !fits) return fits.error();
  std::byte* const memory = in_memory(to);
  if (memory != nullptr) {
    if (Status present = make_present(to.offset, size); !present) return present.error();
    pin(pool, to.offset, size);
  } else {
    piece_.resize(static_cast<size_t>(kPiece.count()));
  }
  const Bytes piece = memory != nullptr ? pool.piece() : kPiece;
  uint64_t sum = 0;
  for (Bytes at; at < size; at += piece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(piece, size - at);
    std::byte* const into = memory != nullptr ? memory + at.count() : piece_.data();
    if (Status read = pool.read(into, image + at.count(), bytes); !read) return read.error();
    if (memory != nullptr) continue;
    sum = checksum_of(sum, into, bytes);
    if (Status wrote = spill_->write(to.offset + at, into, bytes); !wrote) return wrote.error();
  }
  return sum;
}

Status OutsideImages::move_prefix(memory::PoolAccess& pool, std::byte* image, const Prefix& prefix,
                                  const GoesOn& goes_on, const Started& started) {
  const Bytes piece = pool.piece();
  for (Bytes at; prefix.data != image && at < prefix.size; at += piece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(piece, prefix.size - at);
    if (Status moved = pool.copy_within(image + at.count(), prefix.data + at.count(), bytes);
        !moved) {
      return moved;
    }
    started(at + bytes, nullptr);
  }
  if (prefix.data == image && prefix.size > Bytes()) started(prefix.size, nullptr);
  return {};
}

Status OutsideImages::load(memory::PoolAccess& pool, std::byte* image, Bytes size,
                           const lanes::OutsidePlace& from, uint64_t checksum,
                           const GoesOn& goes_on, const Prefix& prefix, const Started& started) {
  if (Status fits = check(from, size); !fits) return fits;
  const Started& tell = started ? started : [](Bytes, const std::shared_ptr<memory::Event>&) {};
  if (Status there = move_prefix(pool, image, prefix, goes_on, tell); !there) return there;
  if (in_memory(from) == nullptr) {
    return load_from_file(pool, image, size, from, checksum, prefix.size, goes_on, tell);
  }
  pin(pool, from.offset, size);
  return load_from_memory(pool, image, size, from, prefix.size, goes_on, tell);
}

namespace {

// Pieces that were started and are not known to be there, in their order.
class UnderWay {
 public:
  explicit UnderWay(Bytes there) : there_(there) {}

  Bytes there() const { return there_; }
  // `event` null: it is there, and then so are those before it when this returns.
  Status add(Bytes end, std::shared_ptr<memory::Event> event) {
    if (event != nullptr) {
      pieces_.push_back({end, std::move(event)});
      return {};
    }
    if (Status done = wait_until(Bytes()); !done) return done;
    there_ = end;
    return {};
  }
  // Waits until no more than that is under way.
  Status wait_until(Bytes most) {
    while (!pieces_.empty() && pieces_.back().end - there_ > most) {
      if (Status done = pieces_.front().event->synchronize(); !done) return done;
      there_ = pieces_.front().end;
      pieces_.pop_front();
    }
    return {};
  }

 private:
  struct Piece {
    Bytes end;
    std::shared_ptr<memory::Event> event;
  };

  Bytes there_;
  std::deque<Piece> pieces_;
};

}  // namespace

Status OutsideImages::load_from_memory(memory::PoolAccess& pool, std::byte* image, Bytes size,
                                       const lanes::OutsidePlace& from, Bytes done,
                                       const GoesOn& goes_on, const Started& started) {
  const std::byte* const memory = in_memory(from);
  const Bytes piece = pool.piece();
  UnderWay under_way(done);
  Status status;
  for (Bytes at = done; at < size && status; at += piece) {
    if (!goes_on(under_way.there())) {
      status = not_wanted();
      break;
    }
    const Bytes bytes = std::min(piece, size - at);
    auto there = pool.start_write(image + at.count(), memory + at.count(), bytes);
    if (!there) {
      status = there.error();
      break;
    }
    if (status = under_way.add(at + bytes, there.value()); !status) break;
    started(at + bytes, std::move(there).value());
    status = under_way.wait_until(limits::kLoadAhead);
  }
  // Whoever gets the range next, or uses the image, may rely on it.
  const Status landed = under_way.wait_until(Bytes());
  return status ? landed : status;
}

Status OutsideImages::load_from_file(memory::PoolAccess& pool, std::byte* image, Bytes size,
                                     const lanes::OutsidePlace& from, uint64_t checksum, Bytes done,
                                     const GoesOn& goes_on, const Started& started) {
  piece_.resize(static_cast<size_t>(kPiece.count()));
  uint64_t sum = 0;
  for (Bytes at = done; at < size; at += kPiece) {
    if (!goes_on(at)) return not_wanted();
    const Bytes bytes = std::min(kPiece, size - at);
    if (Status read = spill_->read(from.offset + at, piece_.data(), bytes); !read) return read;
    sum = checksum_of(sum, piece_.data(), bytes);
    if (Status wrote = pool.write(image + at.count(), piece_.data(), bytes); !wrote) return wrote;
    started(at + bytes, nullptr);
  }
  if (done > Bytes()) {
    // Nodes run meanwhile: the disk is not kept waiting for what is in the pool already.
    const uint64_t begin = checksum_of(0, image, done);
    sum = whole_of(begin, sum, size - done);
  }
  if (sum == checksum) return {};
  return Error{ErrorCode::failed,
               "its image came back from the spill file with other bytes than were written: the "
               "disk or its folder cannot be relied on. Its state is lost; make the job again from "
               "your last state_dict()"};
}

}  // namespace laneway::pipeline
