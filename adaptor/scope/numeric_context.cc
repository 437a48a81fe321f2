#include "adaptor/scope/numeric_context.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <string>

#include "adaptor/operators/torch_tensors.h"
#include "base/mutex.h"

namespace laneway::adaptor {
namespace {

constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

uint8_t precision_number(at::Float32MatmulPrecision precision) {
  return static_cast<uint8_t>(precision);
}

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
  now.matmul_precision = precision_number(torch.float32MatmulPrecision());
  now.default_dtype = default_dtype();
  return now;
}

// Brings torch's flags from `from` to `to`, touching only what differs.
void apply(const lanes::NumericContext& from, const lanes::NumericContext& to) {
  at::Context& torch = at::globalContext();
  if (from.mkldnn != to.mkldnn) torch.setUserEnabledMkldnn(to.mkldnn);
  if (from.deterministic != to.deterministic ||
      from.deterministic_warn_only != to.deterministic_warn_only) {
    torch.setDeterministicAlgorithms(to.deterministic, to.deterministic_warn_only);
  }
  if (from.matmul_precision != to.matmul_precision && to.matmul_precision < 3) {
    torch.setFloat32MatmulPrecision(kPrecisionNames[to.matmul_precision]);
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
    MutexLock lock(mutex_);
    const lanes::NumericContext now = current_flags();
    if (scopes_++ == 0) before_ = now;
    apply(now, wanted);
  }
  void leave(const lanes::NumericContext& wanted) LW_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (--scopes_ == 0) apply(wanted, before_);
  }

 private:
  Mutex mutex_;
  int scopes_ LW_GUARDED_BY(mutex_) = 0;
  lanes::NumericContext before_ LW_GUARDED_BY(mutex_);
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
  shared_flags().leave(wanted_);
  if (wanted_.flush_denormal != flushed_before_) set_flush_denormals(flushed_before_);
}

void wake_torch() { current_flags(); }

uint64_t context_key(const lanes::NumericContext& context) {
  uint64_t key = 1;  // never 0, which means "no matter"
  key = key << 1 | static_cast<uint64_t>(context.mkldnn);
  key = key << 1 | static_cast<uint64_t>(context.deterministic);
  key = key << 1 | static_cast<uint64_t>(context.deterministic_warn_only);
  key = key << 8 | context.matmul_precision;
  key = key << 8 | static_cast<uint64_t>(context.default_dtype);
  return key;
}

}  // namespace laneway::adaptor
