#include "adaptor/scope/float32_precision.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <utility>

namespace laneway::adaptor {
namespace {

using at::Float32Backend;
using at::Float32Op;
using lanes::Float32Precision;

struct Use {
  Float32Backend backend;
  Float32Op op;
};
constexpr std::array<Use, lanes::kFloat32Uses> kUses = [] {
  std::array<Use, lanes::kFloat32Uses> uses{};
  const auto at = [&uses](lanes::Float32Use use) -> Use& { return uses[static_cast<size_t>(use)]; };
  at(lanes::Float32Use::cuda_matmul) = {Float32Backend::CUDA, Float32Op::MATMUL};
  at(lanes::Float32Use::cuda_conv) = {Float32Backend::CUDA, Float32Op::CONV};
  at(lanes::Float32Use::cuda_rnn) = {Float32Backend::CUDA, Float32Op::RNN};
  at(lanes::Float32Use::mkldnn_matmul) = {Float32Backend::MKLDNN, Float32Op::MATMUL};
  at(lanes::Float32Use::mkldnn_conv) = {Float32Backend::MKLDNN, Float32Op::CONV};
  at(lanes::Float32Use::mkldnn_rnn) = {Float32Backend::MKLDNN, Float32Op::RNN};
  return uses;
}();

at::Float32Precision effective(Use use) {
  return at::globalContext().float32Precision(use.backend, use.op);
}

// What graphs have no word for, such as "bfx9" of torch 2.15: equal to none that a graph wants.
constexpr auto kOther = static_cast<Float32Precision>(UINT8_MAX);

Float32Precision precision_of(at::Float32Precision precision) {
  switch (precision) {
    case at::Float32Precision::NONE:
    case at::Float32Precision::IEEE: return Float32Precision::full;
    case at::Float32Precision::TF32: return Float32Precision::tf32;
    case at::Float32Precision::BF16: return Float32Precision::bf16;
    default: return kOther;
  }
}

at::Float32Precision torch_precision(Float32Precision precision) {
  if (precision == Float32Precision::tf32) return at::Float32Precision::TF32;
  if (precision == Float32Precision::bf16) return at::Float32Precision::BF16;
  return at::Float32Precision::IEEE;
}

void set_own(Use use, at::Float32Precision precision) {
  at::globalContext().setFloat32Precision(use.backend, use.op, precision);
}

// The setting itself, which torch does not tell: where it has the value of the one that it may
// follow, that one is changed for a moment. From torch 2.15 on cuDNN's two begin as TF32 that gives
// way to their library's setting, which nobody can set again: they become TF32 of their own.
at::Float32Precision own(Use use) {
  const at::Float32Precision now = effective(use);
  if (use.backend == Float32Backend::GENERIC || now == at::Float32Precision::NONE) return now;
  const Use followed = use.op == Float32Op::ALL ? Use{Float32Backend::GENERIC, Float32Op::ALL}
                                                : Use{use.backend, Float32Op::ALL};
  if (effective(followed) != now) return now;
  const at::Float32Precision before = own(followed);
  set_own(followed, now == at::Float32Precision::IEEE ? at::Float32Precision::TF32
                                                      : at::Float32Precision::IEEE);
  const bool follows = effective(use) != now;
  set_own(followed, before);
  return follows ? at::Float32Precision::NONE : now;
}

}  // namespace

lanes::Float32Precisions float32_precisions() {
  lanes::Float32Precisions now;
  for (size_t use = 0; use < kUses.size(); ++use) now[use] = precision_of(effective(kUses[use]));
  return now;
}

Float32Override::Older Float32Override::older() {
  Older now;
  try {
    now.matmul = at::globalContext().float32MatmulPrecision();
  } catch (const c10::Error&) {
    // The newer settings say what no older one does.
  }
  try {
    now.cudnn = at::globalContext().allowTF32CuDNN();
  } catch (const c10::Error&) {
    // The same.
  }
  return now;
}

// Before the setting is changed for the first time.
void Float32Override::remember(lanes::Float32Use use) {
  const auto index = static_cast<size_t>(use);
  if (!touched_[index]) own_[index] = own(kUses[index]);
  touched_[index] = true;
}

void Float32Override::note_changes() {
  const Older now = older();
  if (now.matmul && now.matmul != older_in_force_.matmul) older_.matmul = now.matmul;
  if (now.cudnn && now.cudnn != older_in_force_.cudnn) older_.cudnn = now.cudnn;
  for (size_t use = 0; use < kUses.size(); ++use) {
    if (precision_of(effective(kUses[use])) != in_force_[use]) own_[use] = own(kUses[use]);
  }
}

// The older settings follow where they have words for `wanted` and torch could tell them: the
// user's thread that asks for one meanwhile gets an answer.
Float32Override::Older Float32Override::older_for(const lanes::Float32Precisions& wanted) const {
  const auto at_use = [&](lanes::Float32Use use) { return wanted[static_cast<size_t>(use)]; };
  const Float32Precision cuda = at_use(lanes::Float32Use::cuda_matmul);
  const Float32Precision mkldnn = at_use(lanes::Float32Use::mkldnn_matmul);
  Older follow = older_;
  if (older_.matmul && cuda == Float32Precision::full && mkldnn == Float32Precision::full) {
    follow.matmul = at::Float32MatmulPrecision::HIGHEST;
  } else if (older_.matmul && cuda == Float32Precision::tf32) {
    follow.matmul = mkldnn == Float32Precision::bf16 ? at::Float32MatmulPrecision::MEDIUM
                                                     : at::Float32MatmulPrecision::HIGH;
  }
  const Float32Precision conv = at_use(lanes::Float32Use::cuda_conv);
  if (older_.cudnn && conv == at_use(lanes::Float32Use::cuda_rnn)) {
    follow.cudnn = conv == Float32Precision::tf32;
  }
  return follow;
}

// Torch changes newer settings with the older one.
void Float32Override::set_older(const Older& now, const Older& wanted) {
  constexpr const char* kNames[] = {"highest", "high", "medium"};
  if (wanted.matmul && wanted.matmul != now.matmul) {
    remember(lanes::Float32Use::cuda_matmul);
    remember(lanes::Float32Use::mkldnn_matmul);
    at::globalContext().setFloat32MatmulPrecision(kNames[static_cast<size_t>(*wanted.matmul)]);
  }
  if (wanted.cudnn && wanted.cudnn != now.cudnn) {
    remember(lanes::Float32Use::cuda_conv);
    remember(lanes::Float32Use::cuda_rnn);
    at::globalContext().setAllowTF32CuDNN(*wanted.cudnn);
  }
}

void Float32Override::set(const lanes::Float32Precisions& now,
                          const lanes::Float32Precisions& wanted) {
  if (active_) {
    note_changes();
  } else if (now == wanted) {
    return;
  } else {
    active_ = true;
    older_ = older();
  }
  set_older(older(), older_for(wanted));
  for (size_t use = 0; use < kUses.size(); ++use) {
    if (precision_of(effective(kUses[use])) == wanted[use]) continue;
    remember(static_cast<lanes::Float32Use>(use));
    set_own(kUses[use], torch_precision(wanted[use]));
  }
  in_force_ = wanted;
  older_in_force_ = older();
}

void Float32Override::put_back() {
  if (!active_) return;
  note_changes();
  set_older(older(), older_);
  for (size_t use = 0; use < kUses.size(); ++use) {
    if (touched_[use]) set_own(kUses[use], own_[use]);
  }
  active_ = false;
  touched_ = {};
}

}  // namespace laneway::adaptor
