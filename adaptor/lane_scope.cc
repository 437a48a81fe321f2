#include "adaptor/lane_scope.h"

#include <new>

#include "adaptor/cpu_lane_allocator.h"
#include "adaptor/fork_gate.h"
#include "adaptor/numeric_context.h"

namespace laneway::adaptor {

struct LaneScope::State {
  State(memory::LaneArena& arena, const lanes::NumericContext& context)
      : numeric(context), binding(arena) {}

  const TorchUse use;
  NumericScope numeric;
  LaneBinding binding;
};

LaneScope::State& LaneScope::state() { return *std::launder(reinterpret_cast<State*>(storage_)); }

const LaneScope::State& LaneScope::state() const {
  return *std::launder(reinterpret_cast<const State*>(storage_));
}

LaneScope::LaneScope(memory::LaneArena& arena, const lanes::NumericContext& context) {
  static_assert(sizeof(State) <= sizeof(storage_) && alignof(State) <= 16);
  install_cpu_lane_allocator();
  new (storage_) State(arena, context);
}

LaneScope::~LaneScope() { state().~State(); }

uint64_t LaneScope::address_hash() const { return state().binding.address_hash(); }

}  // namespace laneway::adaptor
