#include "adaptor/scope/numeric_context.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <string>

#include "adaptor/operators/torch_tensors.h"
#include "adaptor/scope/float32_precision.h"
#include "base/log.h"
#include "base/mutex.h"

namespace laneway::adaptor {
namespace {

lanes::DType default_dtype() {
  const c10::ScalarType now = c10::typeMetaToScalarType(c10::get_default_dtype());
  for (const lanes::DType dtype :
       {lanes::DType::float16, lanes::DType::bfloat16, lanes::DType::float64}) {
    if (scalar_type(dtype) == now) return dtype;
  }
  return lanes::DType::float32;
}

lanes::NumericContext current_flags() {
  const at::Context& torch = at::globalContext();
  lanes::NumericContext now;
  now.mkldnn = torch.userEnabledMkldnn();
  now.deterministic = torch.deterministicAlgorithms();
  now.deterministic_warn_only = torch.deterministicAlgorithmsWarnOnly();
  now.float32 = float32_precisions();
  now.default_dtype = default_dtype();
  return now;
}

// Brings torch's flags from `from` to `to`, touching only what differs. Not those of float32.
void apply(const lanes::NumericContext& from, const lanes::NumericContext& to) {
  at::Context& torch = at::globalContext();
  if (from.mkldnn != to.mkldnn) torch.setUserEnabledMkldnn(to.mkldnn);
  if (from.deterministic != to.deterministic ||
      from.deterministic_warn_only != to.deterministic_warn_only) {
    torch.setDeterministicAlgorithms(to.deterministic, to.deterministic_warn_only);
  }
  if (from.default_dtype != to.default_dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(scalar_type(to.default_dtype)));
  }
}

// The processor's flush-to-zero and denormals-are-zero flags, which belong to the thread and have
// no reader in torch.
#if defined(__SSE2__)
constexpr unsigned int kFlushBits = 0x8040;

bool flushes_denormals() { return (__builtin_ia32_stmxcsr() & kFlushBits) == kFlushBits; }
void set_flush_denormals(bool on) {
  __builtin_ia32_ldmxcsr(on ? __builtin_ia32_stmxcsr() | kFlushBits
                            : __builtin_ia32_stmxcsr() & ~kFlushBits);
}
#else
bool flushes_denormals() { return false; }
void set_flush_denormals(bool on) { at::globalContext().setFlushDenormal(on); }
#endif

c10::impl::LocalDispatchKeySet below_autograd() {
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(c10::default_included_set);
  keys.set_excluded(c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  return c10::impl::LocalDispatchKeySet(keys);
}

// The process-wide flags while any scope is open.
class SharedFlags {
 public:
  void enter(const lanes::NumericContext& wanted) LW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const lanes::NumericContext now = current_flags();
    if (scopes_++ == 0) {
      before_ = now;
    } else {
      note_changes(now);
    }
    apply(now, wanted);
    float32_.set(now.float32, wanted.float32);
    in_force_ = wanted;
  }
  void leave() LW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const lanes::NumericContext now = current_flags();
    note_changes(now);
    in_force_ = now;
    if (--scopes_ > 0) return;
    apply(now, before_);
    float32_.put_back();
  }
  bool hold() LW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return changes(current_flags()) == Changes();
  }

 private:
  struct Changes {
    bool one_dnn = false;
    bool deterministic = false;
    bool dtype = false;
    bool float32 = false;
    friend bool operator==(const Changes&, const Changes&) = default;
  };
  Changes changes(const lanes::NumericContext& now) LW_REQUIRES(mutex_) {
    return {now.mkldnn != in_force_.mkldnn,
            now.deterministic != in_force_.deterministic ||
                now.deterministic_warn_only != in_force_.deterministic_warn_only,
            now.default_dtype != in_force_.default_dtype, now.float32 != in_force_.float32};
  }

  // What others set since the scopes did is theirs: the end of the last scope keeps it.
  void note_changes(const lanes::NumericContext& now) LW_REQUIRES(mutex_) {
    const Changes found = changes(now);
    if (found.one_dnn) before_.mkldnn = now.mkldnn;
    if (found.deterministic) {
      before_.deterministic = now.deterministic;
      before_.deterministic_warn_only = now.deterministic_warn_only;
    }
    if (found.dtype) before_.default_dtype = now.default_dtype;
    if (found == Changes() || told_) return;
    told_ = true;
    log_warning(std::string("torch's process-wide setting of ") +
                (found.float32         ? "float32 precision (TF32)"
                 : found.one_dnn       ? "oneDNN"
                 : found.deterministic ? "deterministic algorithms"
                                       : "the default dtype") +
                " was changed while an iteration of a job ran in this process: operators that "
                "had not run yet used the new value. Change it while no iteration is in flight, or "
                "let the jobs run in a lanewayd. This is said once");
  }

  Mutex mutex_;
  int scopes_ LW_GUARDED_BY(mutex_) = 0;
  bool told_ LW_GUARDED_BY(mutex_) = false;
  lanes::NumericContext before_ LW_GUARDED_BY(mutex_);
  lanes::NumericContext in_force_ LW_GUARDED_BY(mutex_);  // what the last scope set
  Float32Override float32_ LW_GUARDED_BY(mutex_);
};

SharedFlags& shared_flags() {
  static SharedFlags flags;
  return flags;
}

}  // namespace

DispatchScope::DispatchScope()
    : dispatch_(below_autograd()),
      grad_mode_(true),
      inference_mode_(c10::AutogradState::get_tls_state().get_inference_mode()) {
  c10::AutogradState::get_tls_state().set_inference_mode(false);
}

DispatchScope::~DispatchScope() {
  c10::AutogradState::get_tls_state().set_inference_mode(inference_mode_);
}

NumericScope::NumericScope(const lanes::NumericContext& wanted)
    : wanted_(wanted), threads_(wanted.threads), flushed_before_(flushes_denormals()) {
  shared_flags().enter(wanted_);
  if (wanted_.flush_denormal != flushed_before_) set_flush_denormals(wanted_.flush_denormal);
}

NumericScope::~NumericScope() {
  shared_flags().leave();
  if (wanted_.flush_denormal != flushed_before_) set_flush_denormals(flushed_before_);
}

bool numeric_flags_hold() { return shared_flags().hold(); }

void wake_torch() { current_flags(); }

uint64_t context_key(const lanes::NumericContext& context) {
  uint64_t key = 1;  // never 0, which means "no matter"
  key = key << 1 | static_cast<uint64_t>(context.mkldnn);
  key = key << 1 | static_cast<uint64_t>(context.deterministic);
  key = key << 1 | static_cast<uint64_t>(context.deterministic_warn_only);
  for (const lanes::Float32Precision precision : context.float32) {
    key = key << 2 | static_cast<uint64_t>(precision);
  }
  key = key << 8 | static_cast<uint64_t>(context.default_dtype);
  return key;
}

}  // namespace laneway::adaptor
