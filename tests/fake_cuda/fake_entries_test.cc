// What the fake shows of its functions: dlopen() finds it by the driver's name, and
// cuGetProcAddress gives the form of a function that the version asked for had.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/fake_cuda/fake_context.h"

namespace laneway::fake_cuda {
namespace {

void* entry(const char* name, int version) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &found),
            CUDA_SUCCESS);
  EXPECT_EQ(found == CU_GET_PROC_ADDRESS_SUCCESS, function != nullptr);
  return function;
}

TEST(FakeEntries, TheDriversNameLeadsToTheFake) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(dlsym(library, "cuInit"), reinterpret_cast<void*>(&cuInit));
  EXPECT_EQ(dlsym(library, "cuMemAlloc_v2"), reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(dlsym(library, "cuMemAlloc"), nullptr);
  EXPECT_NE(dlsym(library, "fake_cuda_hold"), nullptr);
  dlclose(library);
}

TEST(FakeEntries, AVersionHasItsOwnForm) {
  EXPECT_EQ(entry("cuMemAlloc", 13000), reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(entry("cuMemAlloc", 3010), nullptr);
  EXPECT_EQ(entry("cuMemAlloc_v2", 13000), nullptr);
  EXPECT_EQ(entry("cuNoSuchFunction", 13000), nullptr);
  // From 13.0 on this name means the form that wants a context.
  EXPECT_EQ(entry("cuCtxSynchronize", 12090), reinterpret_cast<void*>(&cuCtxSynchronize));
  EXPECT_EQ(entry("cuCtxSynchronize", 13000), reinterpret_cast<void*>(&cuCtxSynchronize_v2));
}

TEST(FakeEntries, WithoutADeviceNothingBegins) {
  fake_cuda_forbid("device", 1);
  int version = 0;
  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, CUDA_VERSION);
  fake_cuda_forbid("device", 0);
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
}

}  // namespace
}  // namespace laneway::fake_cuda
