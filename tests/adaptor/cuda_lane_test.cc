// Shows that torch's CUDA operators run in a lane as they should: on its stream, in its memory,
// with nothing left behind, beside other lanes and the user's own threads: the plugin's classes
// over torch's real CUDA side, on the fake device (tests/fake_cuda).
#include "adaptor/cuda/cuda_lane.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "adaptor/cuda/cuda_workspaces.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "tests/adaptor/cuda_rig.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace laneway::adaptor {
namespace {

using testing::CudaRig;
using ::testing::HasSubstr;

const at::TensorOptions kCuda = at::TensorOptions(at::kCUDA).dtype(at::kFloat);

// torch 2.11 and 2.12 keep a workspace, later ones a pair with its size.
const void* memory_of(const at::DataPtr& workspace) { return workspace.get(); }
template <class Sized>
const void* memory_of(const Sized& workspace) {
  return workspace.first.get();
}

int64_t bytes_of_torch() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
}

TEST(CudaLane, OperatorsRunOnItsStreamAndInItsMemory) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  lane.run([] {});  // makes workspaces
  const int64_t outside = bytes_of_torch();
  const memory::LaneArena::Use use = lane.run([&] {
    EXPECT_EQ(c10::cuda::getCurrentCUDAStream().stream(), lane.cuda().native());
    const at::Tensor x = at::empty({64, 64}, kCuda);
    const at::Tensor sum = at::add(at::relu(x), at::mm(x, x));
    EXPECT_TRUE(lane.arena->contains(x.const_data_ptr()));
    EXPECT_TRUE(lane.arena->contains(sum.const_data_ptr()));
    at::addmm(at::empty({64}, kCuda), x, sum);  // cuBLASLt
    EXPECT_GT(fake_cuda_pending() + fake_cuda_count("cudaLaunchKernel"), 0u);
  });
  EXPECT_GE(use.allocations, 6u);
  EXPECT_EQ(use.live_count, 0u);
  EXPECT_EQ(bytes_of_torch(), outside);
}

TEST(CudaLane, AThreadFindsTorchAsItLeftIt) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  const c10::cuda::CUDAStream users = c10::cuda::getStreamFromPool(false, 0);
  c10::cuda::setCurrentCUDAStream(users);
  at::globalContext().setBenchmarkCuDNN(true);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  lane.run([] {
    EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
    EXPECT_TRUE(c10::impl::tls_local_dispatch_key_set().excluded_.has(
        c10::DispatchKey::AutogradFunctionality));
  });
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), users);
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  EXPECT_FALSE(lane.arena->contains(at::empty({64}, kCuda).const_data_ptr()));
  at::globalContext().setBenchmarkCuDNN(false);
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
}

TEST(CudaLane, WorkspacesNeverOutliveAnIteration) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  const auto multiply = [] {
    const at::Tensor x = at::empty({32, 32}, kCuda);
    at::mm(x, x);
    at::addmm(at::empty({32}, kCuda), x, x);
  };
  EXPECT_EQ(lane.run(multiply).live_count, 0u);
  std::thread([&] { EXPECT_EQ(lane.run(multiply).live_count, 0u); }).join();
  at::cuda::clearCublasWorkspaces();
  EXPECT_EQ(lane.run(multiply).live_count, 0u);
  EXPECT_EQ(rig.backend().escaped_within(rig.pool(), CudaRig::kPoolSize), 0u);
}

// From torch 2.15 on, without TORCH_CUBLAS_WORKSPACE_CACHE.
TEST(CudaLane, AWorkspaceThatTorchDoesNotKeepIsAnAllocationOfTheIteration) {
  if (torch_keeps_workspaces()) GTEST_SKIP() << "torch keeps its workspaces in this process";
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  lane.run([] {});
  const int64_t outside = bytes_of_torch();
  const auto multiply = [] {
    const at::Tensor x = at::empty({32, 32}, kCuda);
    at::mm(x, x);
  };
  const memory::LaneArena::Use use = lane.run(multiply);
  EXPECT_GE(use.peak, Bytes(static_cast<int64_t>(at::cuda::getChosenWorkspaceSize())));
  EXPECT_EQ(use.live_count, 0u);
  EXPECT_EQ(bytes_of_torch(), outside);
  EXPECT_EQ(lane.run(multiply).allocations, use.allocations);
  EXPECT_TRUE(at::cuda::cublas_handle_stream_to_workspace().map.empty());
}

// torch keeps them for each thread's handle and stream. What was recorded holds their address.
TEST(CudaLane, ItsWorkspacesAreTheSameForAllItsThreadsAndWhenTorchForgotThem) {
  if (!torch_keeps_workspaces()) GTEST_SKIP() << "torch keeps no workspaces in this process";
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  std::set<const void*> used;
  const auto use = [&] {
    lane.run([&] {
      const at::Tensor x = at::empty({32, 32}, kCuda);
      at::mm(x, x);
      at::cuda::WorkspaceMapWithMutex& known = at::cuda::cublas_handle_stream_to_workspace();
      size_t of_lane = 0;
      for (const auto& [key, memory] : known.map) {
        if (std::get<1>(key) != static_cast<void*>(lane.cuda().native())) continue;
        used.insert(memory_of(memory));
        ++of_lane;
      }
      EXPECT_GE(of_lane, 1u);
    });
  };
  use();
  const int64_t outside = bytes_of_torch();
  std::thread(use).join();
  EXPECT_EQ(bytes_of_torch(), outside);
  at::cuda::clearCublasWorkspaces();
  const auto size = static_cast<int64_t>(at::cuda::getChosenWorkspaceSize());
  const at::Tensor users = at::empty({size}, kCuda.dtype(at::kByte));
  use();
  EXPECT_EQ(used.size(), 1u);
  EXPECT_EQ(used.count(users.const_data_ptr()), 0u);
}

// "bfx9" of torch 2.15, which no graph can want.
TEST(CudaLane, APrecisionThatGraphsHaveNoWordForIsNotTheLanes) {
  at::Context& torch = at::globalContext();
  const auto of_products = [&] {
    return torch.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  };
  at::Float32Precision unknown;
  try {
    unknown = at::str2precision("bfx9");
    torch.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, unknown);
  } catch (const c10::Error& error) {
    GTEST_SKIP() << error.what_without_backtrace();
  }
  CudaRig rig;
  rig.make_lane().run([&] { EXPECT_NE(of_products(), unknown); });
  EXPECT_EQ(of_products(), unknown);
  torch.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL,
                            at::Float32Precision::NONE);
}

TEST(CudaLane, EqualIterationsLieAtEqualAddresses) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  std::vector<uint64_t> hashes;
  for (int iteration = 0; iteration < 3; ++iteration) {
    lane.run([&] {
      const at::Tensor x = at::empty({100, 100}, kCuda);
      at::mm(at::relu(x), x);
      hashes.push_back(lane.device->address_hash());
    });
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(CudaLane, WhatDoesNotFitComesThroughTorch) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  lane.run([] {
    const at::Tensor x = at::empty({64, 64}, kCuda);
    EXPECT_THROW(at::empty({CudaRig::kLaneSize.count()}, kCuda), OutOfLane);
    const at::Tensor half = at::empty({CudaRig::kLaneSize.count() / 4 / 2}, kCuda);
    EXPECT_THROW(at::relu(half), OutOfLane);
  });
}

TEST(CudaLane, LanesAndTheUsersThreadsGoOnBesideEachOther) {
  CudaRig rig;
  std::vector<CudaRig::Lane> lanes;
  lanes.push_back(rig.make_lane());
  lanes.push_back(rig.make_lane());
  std::vector<std::thread> threads;
  for (CudaRig::Lane& lane : lanes) {
    threads.emplace_back([&lane] {
      for (int iteration = 0; iteration < 20; ++iteration) {
        const auto use = lane.run([&] {
          at::Tensor x = at::empty({50, 50}, kCuda);
          for (int node = 0; node < 20; ++node) {
            x = at::mm(at::relu(x), x);
            EXPECT_TRUE(lane.arena->contains(x.const_data_ptr()));
            EXPECT_TRUE(lane.device->node_enqueued().ok());
          }
        });
        EXPECT_EQ(use.live_count, 0u);
      }
    });
  }
  threads.emplace_back([&] {
    for (int step = 0; step < 100; ++step) {
      const at::Tensor x = at::relu(at::empty({50, 50}, kCuda));
      for (const CudaRig::Lane& lane : lanes) {
        EXPECT_FALSE(lane.arena->contains(x.const_data_ptr()));
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
}

TEST(CudaLane, BytesGoUpAndComeDownInTheOrderOfItsStream) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  const std::vector<float> input = {1, 2, 3, 4};
  std::vector<float> output(4);
  const Bytes bytes(static_cast<int64_t>(input.size() * sizeof(float)));
  std::unique_ptr<lanes::EnqueuedIteration> enqueued;
  lane.run([&] {
    fake_cuda_hold();
    const at::Tensor x = at::empty({4}, kCuda);
    EXPECT_TRUE(lane.device->upload(x.mutable_data_ptr(), input.data(), bytes).ok());
    EXPECT_TRUE(lane.device->download(output.data(), x.const_data_ptr(), bytes).ok());
    enqueued = lane.device->enqueue();
    EXPECT_FALSE(enqueued->done());
    fake_cuda_release();
  });
  EXPECT_EQ(output, std::vector<float>(4));
  ASSERT_TRUE(enqueued->retire().ok());
  EXPECT_EQ(output, input);
}

// Lanes come and go with their jobs: each used to leave its workspaces in torch's cache, under the
// name of a stream that is gone.
TEST(CudaLane, WhatALaneLeavesTheNextOneUses) {
  const size_t before = fake_cuda_used();
  {
    CudaRig rig;
    const size_t streams = fake_cuda_live("streams");
    const int64_t outside = bytes_of_torch();
    const auto use = [](CudaRig::Lane& lane) {
      lane.run([] { at::relu(at::empty({10}, kCuda)); });
      std::thread([&] {
        lane.run([] { at::mm(at::empty({8, 8}, kCuda), at::empty({8, 8}, kCuda)); });
      }).join();
    };
    size_t used = 0;
    for (int round = 0; round < 3; ++round) {
      CudaRig::Lane one = rig.make_lane();
      use(one);
      EXPECT_EQ(fake_cuda_live("streams"), streams + 1);
      CudaRig::Lane other = rig.make_lane();
      use(other);
      if (round == 0) used = fake_cuda_used();
      EXPECT_EQ(fake_cuda_used(), used) << "round " << round;
    }
    EXPECT_EQ(fake_cuda_live("streams"), streams);
    EXPECT_EQ(bytes_of_torch(), outside);
    EXPECT_GT(used, before);
  }
  EXPECT_EQ(fake_cuda_used(), before);
}

// In torch's own mode, which forbids much to every thread that does not say that it is none of it.
TEST(CudaLane, ACaptureOfTheUsersIsNotDisturbed) {
  CudaRig rig;
  CudaRig::Lane lane = rig.make_lane();
  const c10::cuda::CUDAStream users = c10::cuda::getStreamFromPool(false, 0);
  const at::Tensor x = at::empty({100}, kCuda);
  ASSERT_EQ(cudaStreamBeginCapture(users.stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    std::vector<float> output(100);
    const auto enqueued = [&] {
      std::unique_ptr<lanes::EnqueuedIteration> made;
      lane.run([&] {
        at::Tensor y = at::empty({100}, kCuda);
        for (uint32_t node = 0; node < 3 * limits::kMaxNodesPerMark; ++node) {
          y = at::relu(y);
          EXPECT_TRUE(lane.device->node_enqueued().ok());
        }
        EXPECT_TRUE(lane.device->download(output.data(), y.const_data_ptr(), Bytes(400)).ok());
        made = lane.device->enqueue();
      });
      return made;
    }();
    EXPECT_TRUE(enqueued->done());
    EXPECT_TRUE(enqueued->retire().ok());
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(users.stream(), &graph), cudaSuccess);
  ASSERT_NE(graph, nullptr);
  cudaGraphDestroy(graph);
}

TEST(CudaLane, EachHasMultiprocessorsOfItsOwnIfAsked) {
  CudaRig rig({.lane_sms = 32});
  std::vector<std::unique_ptr<DeviceLane>> lanes;
  Result<std::unique_ptr<DeviceLane>> made = rig.backend().make_lane();
  while (made.ok()) {
    lanes.push_back(std::move(made).value());
    ASSERT_LE(lanes.size(), 4u);  // of 132
    made = rig.backend().make_lane();
  }
  EXPECT_EQ(lanes.size(), 4u);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_THAT(made.error().message, HasSubstr("4 partitions of 32"));
  lanes.pop_back();
  EXPECT_TRUE(rig.backend().make_lane().ok());
}

// In a process of its own: the device does not come back.
TEST(CudaLaneDeathTest, AnErrorThatLastsIsToldAsDeviceLost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CudaRig rig;
        CudaRig::Lane lane = rig.make_lane();
        if (!rig.backend().health().ok()) std::_Exit(1);
        lane.device->enter(*lane.arena, lanes::NumericContext());
        lane.arena->begin_probe();
        fake_cuda_fail_in_stream(lane.cuda().native(), CUDA_ERROR_ASSERT);
        Status status;
        try {
          for (int node = 0; node < 100'000 && status.ok(); ++node) {
            at::relu(at::empty({10}, kCuda));
            status = lane.device->node_enqueued();
          }
        } catch (const c10::Error&) {
        }
        const Status drained = lane.device->drain();
        const Status health = rig.backend().health();
        lane.arena->abandon();
        lane.device->leave();
        const bool told = !drained.ok() && drained.error().code == ErrorCode::device_lost &&
                          !health.ok() && health.error().code == ErrorCode::device_lost;
        std::_Exit(told ? 0 : 2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace laneway::adaptor
