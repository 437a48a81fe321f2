#include "adaptor/numeric_context.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <string>

#include "base/mutex.h"

namespace laneway::adaptor {
namespace {

constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

uint8_t precision_number(at::Float32MatmulPrecision precision) {
  return static_cast<uint8_t>(precision);
}

lanes::NumericContext current_flags() {
  const at::Context& torch = at::globalContext();
  lanes::NumericContext now;
  now.mkldnn = torch.userEnabledMkldnn();
  now.deterministic = torch.deterministicAlgorithms();
  now.deterministic_warn_only = torch.deterministicAlgorithmsWarnOnly();
  now.matmul_precision = precision_number(torch.float32MatmulPrecision());
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
}

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
    : wanted_(wanted), threads_before_(at::get_num_threads()) {
  shared_flags().enter(wanted_);
  if (threads_before_ != wanted_.threads) at::set_num_threads(wanted_.threads);
  // The processor's flush-to-zero flag belongs to the thread and has no reader in torch: set it
  // only for the jobs that asked, and clear it behind them.
  if (wanted_.flush_denormal) at::globalContext().setFlushDenormal(true);
}

NumericScope::~NumericScope() {
  shared_flags().leave(wanted_);
  if (threads_before_ != wanted_.threads) at::set_num_threads(threads_before_);
  if (wanted_.flush_denormal) at::globalContext().setFlushDenormal(false);
}

uint64_t context_key(const lanes::NumericContext& context) {
  uint64_t key = 1;  // never 0, which means "no matter"
  key = key << 1 | static_cast<uint64_t>(context.mkldnn);
  key = key << 1 | static_cast<uint64_t>(context.deterministic);
  key = key << 1 | static_cast<uint64_t>(context.deterministic_warn_only);
  key = key << 8 | context.matmul_precision;
  return key;
}

}  // namespace laneway::adaptor
