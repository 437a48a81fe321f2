// cuDNN: what the fake does not stand in for, refused in words: nothing of the real library may
// meet a handle that is none of its own.
#include <cudnn.h>

#include "tests/fake_cuda/dnn.h"

using laneway::fake_cuda::refuse_dnn;

extern "C" {

cudnnStatus_t cudnnCTCLoss(cudnnHandle_t, const cudnnTensorDescriptor_t, const void*, const int*,
                           const int*, const int*, void*, const cudnnTensorDescriptor_t, void*,
                           cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t, void*, size_t) {
  return refuse_dnn("cudnnCTCLoss");
}
cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t,
                              const cudnnTensorDescriptor_t, const void*, const int*, const int*,
                              const int*, void*, const cudnnTensorDescriptor_t, void*, size_t,
                              void*) {
  return refuse_dnn("cudnnCTCLoss_v8");
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void*,
                                           const cudnnFilterDescriptor_t, const void*,
                                           const cudnnTensorDescriptor_t, const void*,
                                           const cudnnConvolutionDescriptor_t,
                                           cudnnConvolutionBwdDataAlgo_t, void*, size_t,
                                           const void*, const cudnnTensorDescriptor_t, void*) {
  return refuse_dnn("cudnnConvolutionBackwardData");
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void*,
                                             const cudnnTensorDescriptor_t, const void*,
                                             const cudnnTensorDescriptor_t, const void*,
                                             const cudnnConvolutionDescriptor_t,
                                             cudnnConvolutionBwdFilterAlgo_t, void*, size_t,
                                             const void*, const cudnnFilterDescriptor_t, void*) {
  return refuse_dnn("cudnnConvolutionBackwardFilter");
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnFilterDescriptor_t, const void*, const cudnnConvolutionDescriptor_t,
    cudnnConvolutionFwdAlgo_t, void*, size_t, const void*, const cudnnTensorDescriptor_t,
    const void*, const cudnnTensorDescriptor_t, const void*, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t, void*) {
  return refuse_dnn("cudnnConvolutionBiasActivationForward");
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t,
                                      const void*, const cudnnFilterDescriptor_t, const void*,
                                      const cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t,
                                      void*, size_t, const void*, const cudnnTensorDescriptor_t,
                                      void*) {
  return refuse_dnn("cudnnConvolutionForward");
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t, const cudnnFilterDescriptor_t, const void*, const cudnnTensorDescriptor_t,
    const void*, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, void*,
    const int, int*, cudnnConvolutionBwdDataAlgoPerf_t*, void*, size_t) {
  return refuse_dnn("cudnnFindConvolutionBackwardDataAlgorithmEx");
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t,
    const void*, const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t, void*,
    const int, int*, cudnnConvolutionBwdFilterAlgoPerf_t*, void*, size_t) {
  return refuse_dnn("cudnnFindConvolutionBackwardFilterAlgorithmEx");
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const void*, const cudnnFilterDescriptor_t,
    const void*, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, void*,
    const int, int*, cudnnConvolutionFwdAlgoPerf_t*, void*, size_t) {
  return refuse_dnn("cudnnFindConvolutionForwardAlgorithmEx");
}
cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                           const cudnnTensorDescriptor_t, const int*, const int*,
                                           const int*, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t,
                                           size_t*) {
  return refuse_dnn("cudnnGetCTCLossWorkspaceSize");
}
cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t, cudnnCTCLossAlgo_t,
                                              cudnnCTCLossDescriptor_t,
                                              const cudnnTensorDescriptor_t,
                                              const cudnnTensorDescriptor_t, size_t*) {
  return refuse_dnn("cudnnGetCTCLossWorkspaceSize_v8");
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, const int, int*,
    cudnnConvolutionBwdDataAlgoPerf_t*) {
  return refuse_dnn("cudnnGetConvolutionBackwardDataAlgorithm_v7");
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t,
                                                           const cudnnFilterDescriptor_t,
                                                           const cudnnTensorDescriptor_t,
                                                           const cudnnConvolutionDescriptor_t,
                                                           const cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t, size_t*) {
  return refuse_dnn("cudnnGetConvolutionBackwardDataWorkspaceSize");
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t, const int, int*,
    cudnnConvolutionBwdFilterAlgoPerf_t*) {
  return refuse_dnn("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t,
    cudnnConvolutionBwdFilterAlgo_t, size_t*) {
  return refuse_dnn("cudnnGetConvolutionBackwardFilterWorkspaceSize");
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                     const cudnnFilterDescriptor_t,
                                                     const cudnnConvolutionDescriptor_t,
                                                     const cudnnTensorDescriptor_t, const int, int*,
                                                     cudnnConvolutionFwdAlgoPerf_t*) {
  return refuse_dnn("cudnnGetConvolutionForwardAlgorithm_v7");
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                      const cudnnFilterDescriptor_t,
                                                      const cudnnConvolutionDescriptor_t,
                                                      const cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t, size_t*) {
  return refuse_dnn("cudnnGetConvolutionForwardWorkspaceSize");
}
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t, const cudnnPoolingDescriptor_t, const void*,
                                  const cudnnTensorDescriptor_t, const void*, const void*,
                                  const cudnnTensorDescriptor_t, void*) {
  return refuse_dnn("cudnnPoolingForward");
}
cudnnStatus_t cudnnSpatialTfGridGeneratorBackward(cudnnHandle_t,
                                                  const cudnnSpatialTransformerDescriptor_t,
                                                  const void*, void*) {
  return refuse_dnn("cudnnSpatialTfGridGeneratorBackward");
}
cudnnStatus_t cudnnSpatialTfGridGeneratorForward(cudnnHandle_t,
                                                 const cudnnSpatialTransformerDescriptor_t,
                                                 const void*, void*) {
  return refuse_dnn("cudnnSpatialTfGridGeneratorForward");
}
cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t, cudnnSpatialTransformerDescriptor_t,
                                            const void*, const cudnnTensorDescriptor_t, const void*,
                                            const void*, const cudnnTensorDescriptor_t, void*,
                                            const void*, const cudnnTensorDescriptor_t, const void*,
                                            const void*, const void*, void*) {
  return refuse_dnn("cudnnSpatialTfSamplerBackward");
}
cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t, cudnnSpatialTransformerDescriptor_t,
                                           const void*, const cudnnTensorDescriptor_t, const void*,
                                           const void*, const void*, cudnnTensorDescriptor_t,
                                           void*) {
  return refuse_dnn("cudnnSpatialTfSamplerForward");
}

}  // extern "C"
