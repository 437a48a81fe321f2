#include "pipeline/host_store.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/log.h"
#include "pipeline/limits.h"

namespace laneway::pipeline {
namespace {

constexpr Bytes kPiece = mib(1);  // that is made present at a time

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

Status HostStore::make_present(Bytes at, Bytes size) {
  const Bytes end = memory_.size();
  present_.resize(static_cast<size_t>((end.count() + kPiece.count() - 1) / kPiece.count()));
  for (auto piece = static_cast<size_t>(at.count() / kPiece.count()); piece < present_.size();
       ++piece) {
    const Bytes begin(static_cast<int64_t>(piece) * kPiece.count());
    if (begin >= at + size) break;
    if (present_[piece]) continue;
    if (Status made = memory_.make_present(begin, std::min(kPiece, end - begin)); !made) {
      return made;
    }
    present_[piece] = true;
  }
  return {};
}

void HostStore::pin(memory::PoolAccess& pool, Bytes at, Bytes size) {
  if (!pool.wants_pinned() || !can_pin_ || size <= Bytes()) return;
  const int64_t unit = limits::kStorePin.count();
  for (int64_t n = at.count() / unit; n * unit < (at + size).count(); ++n) {
    if (pinned_.contains(n)) continue;
    const Bytes begin(n * unit);
    const Bytes bytes = std::min(limits::kStorePin, memory_.size() - begin);
    Status done = make_present(begin, bytes);
    if (done) {
      auto pinned = pool.pin(memory_.data() + begin.count(), bytes);
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

Result<uint64_t> HostStore::save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                                 Bytes at, const GoesOn& goes_on) {
  if (Status present = make_present(at, size); !present) return present.error();
  pin(pool, at, size);
  std::byte* const into = memory_.data() + at.count();
  const Bytes piece = pool.piece();
  for (Bytes done; done < size; done += piece) {
    if (!goes_on(done)) return not_wanted();
    const Bytes bytes = std::min(piece, size - done);
    if (Status read = pool.read(into + done.count(), image + done.count(), bytes); !read) {
      return read.error();
    }
  }
  return uint64_t{0};
}

Status HostStore::load(memory::PoolAccess& pool, std::byte* image, const Saved& saved, Bytes there,
                       const GoesOn& goes_on, const Started& started) {
  pin(pool, saved.at, saved.size);
  const std::byte* const from = memory_.data() + saved.at.count();
  const Bytes piece = pool.piece();
  UnderWay under_way(there);
  Status status;
  for (Bytes at = there; at < saved.size && status; at += piece) {
    if (!goes_on(under_way.there())) {
      status = not_wanted();
      break;
    }
    const Bytes bytes = std::min(piece, saved.size - at);
    auto event = pool.start_write(image + at.count(), from + at.count(), bytes);
    if (!event) {
      status = event.error();
      break;
    }
    if (status = under_way.add(at + bytes, event.value()); !status) break;
    started(at + bytes, std::move(event).value());
    status = under_way.wait_until(limits::kLoadAhead);
  }
  // Whoever gets the range next, or uses the image, may rely on it.
  const Status landed = under_way.wait_until(Bytes());
  return status ? landed : status;
}

}  // namespace laneway::pipeline
