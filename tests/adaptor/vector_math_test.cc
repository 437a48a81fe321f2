// Shows that each of MKL's vector functions is called, once for each dtype, by the one thread that
// opens a backend, before a lane computes. (What happens otherwise is seen once in some hundred
// processes on a busy machine.)
#include "adaptor/scope/vector_math.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "adaptor/device/backend.h"

namespace laneway::adaptor {
namespace {

const std::thread::id opener = std::this_thread::get_id();
std::vector<std::string> called;  // by the opener

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  if (std::this_thread::get_id() == opener) called.emplace_back(function.name());
  return nullptr;
}

TEST(PrepareVectorMath, CallsEachFunctionForFloatAndDouble) {
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  ASSERT_TRUE(open_backend("host", {}));
  at::removeCallback(handle);
  for (const char* const name : {"acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp",
                                 "log", "log10", "log2", "sin", "sqrt", "tan", "tanh", "trunc"}) {
    EXPECT_EQ(std::ranges::count(called, "aten::" + std::string(name)), 2) << name;
  }
}

}  // namespace
}  // namespace laneway::adaptor
