// What the fake shows of its functions: dlopen() finds it by the driver's name, and
// cuGetProcAddress gives the form of a function that the version asked for had.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fake_cuda/fake_context.h"
#include "tests/fake_cuda/fake_cuda.h"

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

// A form that takes other arguments is never passed off as the one that is asked for.
TEST(FakeEntries, ANewerFormThatItLacksIsRefusedByName) {
  EXPECT_EQ(entry("cuLaunchHostFunc", 13000), reinterpret_cast<void*>(&cuLaunchHostFunc));
  EXPECT_EQ(entry("cuStreamGetCtx", 12040), reinterpret_cast<void*>(&cuStreamGetCtx));
  const size_t before = fake_cuda_count("complaints");
  EXPECT_EQ(entry("cuLaunchHostFunc", 13010), nullptr);
  EXPECT_EQ(entry("cuStreamGetCtx", 12050), nullptr);
  EXPECT_EQ(fake_cuda_count("complaints"), before + 2);
}

// The driver's functions that the runtime of CUDA 13.2 names and that of 13.0 does not, by the
// version of their form. Those that the fake lacks leave a note with their name.
TEST(FakeEntries, WhatTheRuntimeOf132NamesIsAnsweredOrRefusedByName) {
  struct Named {
    const char* name;
    int version;
    bool answered;
  };
  constexpr Named kNamed[] = {{"cuCtxFromGreenCtx", 12040, true},
                              {"cuCtxGetDevResource", 12040, true},
                              {"cuCtxGetId", 12000, true},
                              {"cuCtxRecordEvent", 12050, false},
                              {"cuCtxWaitEvent", 12050, false},
                              {"cuDevResourceGenerateDesc", 12040, true},
                              {"cuDevSmResourceSplit", 13010, false},
                              {"cuDevSmResourceSplitByCount", 12040, true},
                              {"cuDeviceGetDevResource", 12040, true},
                              {"cuFuncGetParamCount", 13020, false},
                              {"cuGraphExecGetId", 13010, false},
                              {"cuGraphGetId", 13010, false},
                              {"cuGraphNodeGetContainingGraph", 13010, false},
                              {"cuGraphNodeGetLocalId", 13010, false},
                              {"cuGraphNodeGetParams", 13020, false},
                              {"cuGraphNodeGetToolsId", 13010, false},
                              {"cuGreenCtxCreate", 12040, true},
                              {"cuGreenCtxDestroy", 12040, true},
                              {"cuGreenCtxGetDevResource", 12040, true},
                              {"cuGreenCtxGetId", 12090, false},
                              {"cuGreenCtxRecordEvent", 12040, false},
                              {"cuGreenCtxStreamCreate", 12050, true},
                              {"cuGreenCtxWaitEvent", 12040, false},
                              {"cuKernelGetParamCount", 13020, false},
                              {"cuLaunchHostFunc", 13010, false},
                              {"cuMemcpy3DWithAttributesAsync", 13020, false},
                              {"cuMemcpyWithAttributesAsync", 13020, false},
                              {"cuStreamGetCtx", 12050, false},
                              {"cuStreamGetDevResource", 13010, false}};
  std::string notes(1 << 16, '\0');
  fake_cuda_note(1);
  for (const Named& named : kNamed) {
    EXPECT_EQ(entry(named.name, named.version) != nullptr, named.answered) << named.name;
    fake_cuda_notes(notes.data(), notes.size());
    const std::string missing =
        std::string("missing ") + named.name + " " + std::to_string(named.version);
    EXPECT_EQ(notes.find(missing) != std::string::npos, !named.answered) << missing;
  }
  fake_cuda_note(0);
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
