#include "adaptor/run/carried_values.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <utility>

#include "adaptor/operators/torch_tensors.h"

namespace laneway::adaptor {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_conj() &&
         !tensor.is_neg() && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool();
}

}  // namespace

std::optional<CarriedValues> CarriedValues::note(std::span<const lanes::ValueIndex> indices,
                                                 const ValueTable& values,
                                                 const memory::LaneArena& arena,
                                                 const IsBorrowed& is_borrowed) {
  CarriedValues noted;
  for (const lanes::ValueIndex index : indices) {
    const c10::IValue& value = values[index];
    if (value.isNone()) continue;
    const bool tensor = value.isTensor();
    if (is_number(value) || (tensor && !value.toTensor().defined()) ||
        (tensor && is_borrowed(value.toTensor()))) {
      noted.kept_.push_back({index, value});
    } else if (!tensor || !noted.note_tensor(index, value.toTensor(), arena)) {
      return std::nullopt;
    }
  }
  return noted;
}

bool CarriedValues::note_tensor(lanes::ValueIndex index, const at::Tensor& tensor,
                                const memory::LaneArena& arena) {
  if (!is_plain(tensor)) return false;
  const c10::Storage& storage = tensor.storage();
  const Block block{storage.mutable_data(), storage.nbytes(), storage.device()};
  if (block.bytes != 0 && !arena.contains(block.memory)) return false;
  const auto same = [&block](const Block& other) {
    return block.bytes != 0 && other.memory == block.memory;
  };
  const auto known = std::find_if(blocks_.begin(), blocks_.end(), same);
  const auto place = static_cast<size_t>(known - blocks_.begin());
  if (known == blocks_.end()) blocks_.push_back(block);
  views_.push_back({index, place, tensor.scalar_type(), tensor.sizes().vec(),
                    tensor.strides().vec(), tensor.storage_offset()});
  return true;
}

void CarriedValues::restore(ValueTable& values) const {
  std::vector<c10::Storage> storages;
  storages.reserve(blocks_.size());
  for (const Block& block : blocks_) {
    void* const memory = block.bytes == 0 ? nullptr : block.memory;
    // As an allocation of this thread: freed by its address.
    c10::DataPtr data(memory, memory, c10::GetAllocator(block.device.type())->raw_deleter(),
                      block.device);
    storages.emplace_back(c10::Storage::use_byte_size_t(), static_cast<int64_t>(block.bytes),
                          std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
  }
  for (const View& view : views_) {
    values[view.value] =
        strided_view(storages[view.block], view.type, view.sizes, view.strides, view.offset);
  }
  for (const Kept& kept : kept_) values[kept.index] = kept.value;
}

}  // namespace laneway::adaptor
