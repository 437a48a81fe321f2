#include "adaptor/numeric_context.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <string>

namespace laneway::adaptor {
namespace {

constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

uint8_t precision_number(at::Float32MatmulPrecision precision) {
  return static_cast<uint8_t>(precision);
}

lanes::NumericContext current_context(const lanes::NumericContext& like) {
  const at::Context& torch = at::globalContext();
  lanes::NumericContext now = like;  // default_dtype and flush_denormal have no reader
  now.threads = at::get_num_threads();
  now.mkldnn = torch.userEnabledMkldnn();
  now.deterministic = torch.deterministicAlgorithms();
  now.deterministic_warn_only = torch.deterministicAlgorithmsWarnOnly();
  now.matmul_precision = precision_number(torch.float32MatmulPrecision());
  return now;
}

// Brings torch from `from` to `to`, touching only what differs.
void apply(const lanes::NumericContext& from, const lanes::NumericContext& to) {
  at::Context& torch = at::globalContext();
  if (from.threads != to.threads) at::set_num_threads(to.threads);
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

}  // namespace

NumericScope::NumericScope(const lanes::NumericContext& wanted)
    : before_(current_context(wanted)),
      wanted_(wanted),
      dispatch_(below_autograd()),
      grad_mode_(true) {
  apply(before_, wanted_);
  // The processor's flush-to-zero flag belongs to the thread and has no reader in torch: set it
  // only for the jobs that asked, and clear it behind them.
  if (wanted_.flush_denormal) at::globalContext().setFlushDenormal(true);
}

NumericScope::~NumericScope() {
  apply(wanted_, before_);
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
