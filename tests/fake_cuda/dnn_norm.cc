// cuDNN: batch normalization. It computes nothing; its memory must be there.
#include <cudnn.h>

#include "tests/fake_cuda/dnn.h"

using laneway::fake_cuda::beginning;
using laneway::fake_cuda::check_dnn;
using laneway::fake_cuda::launch_dnn;

namespace {

constexpr size_t kWorkspace = size_t{64} << 10;
constexpr size_t kReserve = size_t{4} << 10;

}  // namespace

extern "C" {

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = kWorkspace;
  return check_dnn("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", handle);
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t,
    size_t* bytes) {
  *bytes = kWorkspace;
  return check_dnn("cudnnGetBatchNormalizationBackwardExWorkspaceSize", handle);
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t,
    const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t, size_t* bytes) {
  *bytes = kReserve;
  return check_dnn("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", handle);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void*, const void*,
    const cudnnTensorDescriptor_t, const void* x, const cudnnTensorDescriptor_t, void* y,
    const cudnnTensorDescriptor_t, const void* scale, const void* bias, const void* mean,
    const void* variance, double) {
  return launch_dnn(handle, "cudnnBatchNormalizationForwardInference",
                    {beginning(x), beginning(y), beginning(scale), beginning(bias), beginning(mean),
                     beginning(variance)});
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const cudnnTensorDescriptor_t, const void* x, const cudnnTensorDescriptor_t, const void* z,
    const cudnnTensorDescriptor_t, void* y, const cudnnTensorDescriptor_t, const void* scale,
    const void* bias, double, void* running_mean, void* running_variance, double, void* mean,
    void* variance, cudnnActivationDescriptor_t, void* workspace, size_t workspace_bytes,
    void* reserve, size_t reserve_bytes) {
  if (workspace_bytes < kWorkspace || reserve_bytes < kReserve) return CUDNN_STATUS_BAD_PARAM;
  return launch_dnn(handle, "cudnnBatchNormalizationForwardTrainingEx",
                    {beginning(x),
                     beginning(z),
                     beginning(y),
                     beginning(scale),
                     beginning(bias),
                     beginning(running_mean),
                     beginning(running_variance),
                     beginning(mean),
                     beginning(variance),
                     {workspace, workspace_bytes},
                     {reserve, reserve_bytes}});
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t, const void* x,
    const cudnnTensorDescriptor_t, const void* y, const cudnnTensorDescriptor_t, const void* dy,
    const cudnnTensorDescriptor_t, void* dz, const cudnnTensorDescriptor_t, void* dx,
    const cudnnTensorDescriptor_t, const void* scale, const void* bias, void* d_scale, void* d_bias,
    double, const void* mean, const void* variance, cudnnActivationDescriptor_t, void* workspace,
    size_t workspace_bytes, void* reserve, size_t reserve_bytes) {
  if (workspace_bytes < kWorkspace || reserve_bytes < kReserve) return CUDNN_STATUS_BAD_PARAM;
  return launch_dnn(handle, "cudnnBatchNormalizationBackwardEx",
                    {beginning(x),
                     beginning(y),
                     beginning(dy),
                     beginning(dz),
                     beginning(dx),
                     beginning(scale),
                     beginning(bias),
                     beginning(d_scale),
                     beginning(d_bias),
                     beginning(mean),
                     beginning(variance),
                     {workspace, workspace_bytes},
                     {reserve, reserve_bytes}});
}

}  // extern "C"
