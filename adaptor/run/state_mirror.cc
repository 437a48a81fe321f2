#include "adaptor/run/state_mirror.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace laneway::adaptor {

std::vector<uint32_t> placed_last(std::span<const uint32_t> order, std::span<const uint32_t> last) {
  std::vector<uint32_t> result(order.begin(), order.end());
  std::stable_partition(result.begin(), result.end(), [&](uint32_t slot) {
    return std::find(last.begin(), last.end(), slot) == last.end();
  });
  return result;
}

StateMirror::StateMirror(const pipeline::ImageLayout& layout, std::span<const uint32_t> slots,
                         memory::PoolAccess& access)
    : layout_(layout),
      access_(access),
      has_(layout.slot_count(), false),
      begin_(layout.total()),
      size_(Bytes()),
      storage_(0) {
  for (const uint32_t slot : slots) {
    has_[slot] = true;
    begin_ = std::min(begin_, layout.offset(slot));
  }
  for (uint32_t slot = 0; slot < has_.size(); ++slot) {
    LW_CHECK(has_[slot] || layout.slot(slot).bytes == 0 || layout.offset(slot) < begin_,
             "slots of the CPU's are the last of the image");
  }
  size_ = layout.total() - begin_;
  bytes_ = std::make_unique<std::byte[]>(static_cast<size_t>(size_.count()));
  storage_ = BorrowedStorage(static_cast<uint64_t>(size_.count()));
  storage_.rebind(bytes_.get());
}

void StateMirror::bind(std::byte* image) {
  image_ = image;
  state_written();
}

void StateMirror::take(const std::byte* copy) {
  std::memcpy(bytes_.get(), copy + begin_.count(), static_cast<size_t>(size_.count()));
  stale_ = false;
}

void StateMirror::state_written() {
  stale_ = true;
  ++epoch_;
}

uint64_t StateMirror::begin(const void* graph) {
  if (graph != last_graph_) ++epoch_;
  last_graph_ = graph;
  return epoch_;
}

Status StateMirror::refresh(DeviceLane& lane) {
  if (!stale_ || size_ == Bytes()) return {};
  LW_CHECK(image_ != nullptr, "an iteration begins without its image");
  if (Status drained = lane.drain(); !drained) return drained;
  if (Status read = access_.read(bytes_.get(), image_ + begin_.count(), size_); !read) return read;
  stale_ = false;
  return {};
}

std::vector<StateMirror::Piece> StateMirror::pieces_of(std::span<const uint32_t> slots) const {
  std::vector<bool> wanted(has_.size(), false);
  for (const uint32_t slot : slots) wanted[slot] = true;
  std::vector<uint32_t> mine;
  for (uint32_t slot = 0; slot < has_.size(); ++slot) {
    if (has_[slot]) mine.push_back(slot);
  }
  std::sort(mine.begin(), mine.end(),
            [&](uint32_t a, uint32_t b) { return offset(a) < offset(b); });
  std::vector<Piece> pieces;
  bool joins = false;
  for (const uint32_t slot : mine) {
    if (wanted[slot]) {
      if (!joins) pieces.push_back({offset(slot), Bytes()});
      Piece& piece = pieces.back();
      piece.size =
          offset(slot) + Bytes(static_cast<int64_t>(layout_.slot(slot).bytes)) - piece.offset;
    }
    joins = wanted[slot];
  }
  return pieces;
}

Status StateMirror::flush(DeviceLane& lane, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    Status sent = lane.upload(image_ + (begin_ + piece.offset).count(),
                              bytes_.get() + piece.offset.count(), piece.size);
    if (!sent) return sent;
  }
  return {};
}

}  // namespace laneway::adaptor
