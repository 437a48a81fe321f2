// cuDNN: recurrent layers. Where each weight lies in the layer's memory is real, so that torch
// finds them; what is computed is nothing.
#include <cudnn.h>
#include <dlfcn.h>

#include <map>

#include "base/mutex.h"
#include "tests/fake_cuda/dnn.h"

using laneway::Mutex;
using laneway::MutexLock;
using laneway::fake_cuda::beginning;
using laneway::fake_cuda::check_dnn;
using laneway::fake_cuda::launch_dnn;
using laneway::fake_cuda::refuse_dnn;

namespace {

constexpr size_t kWorkspace = size_t{256} << 10;
constexpr size_t kReserve = size_t{64} << 10;
constexpr size_t kDropoutStates = size_t{256} << 10;

// What cudnnSetRNNDescriptor_v8 was told.
struct Layers {
  cudnnRNNMode_t mode = CUDNN_LSTM;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool bias = true;
  int64_t directions = 1;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t layers = 0;

  // Matrices that meet the input, as many as meet the hidden state.
  int64_t gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  size_t element() const {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
  }
  int64_t input_of(int64_t pseudo) const {
    return pseudo < directions ? input : hidden * directions;
  }
  int64_t columns(int64_t pseudo, int64_t id) const {
    return id < gates() ? input_of(pseudo) : hidden;
  }
  // Elements before the matrix `id` of the pseudo layer; `id` 2 * gates(): of all its matrices.
  int64_t matrices_before(int64_t pseudo, int64_t id) const {
    int64_t sum = 0;
    for (int64_t p = 0; p <= pseudo; ++p) {
      const int64_t last = p == pseudo ? id : 2 * gates();
      for (int64_t i = 0; i < last; ++i) sum += hidden * columns(p, i);
    }
    return sum;
  }
  int64_t pseudo_layers() const { return layers * directions; }
  int64_t all_matrices() const { return matrices_before(pseudo_layers() - 1, 2 * gates()); }
  int64_t all() const {
    return all_matrices() + (bias ? pseudo_layers() * 2 * gates() * hidden : 0);
  }
};

struct Known {
  Mutex mutex;
  std::map<cudnnRNNDescriptor_t, Layers> layers;
};
Known& known() {
  static auto* const all = new Known;
  return *all;
}

bool find(cudnnRNNDescriptor_t description, Layers* out) {
  MutexLock lock(known().mutex);
  const auto found = known().layers.find(description);
  if (found == known().layers.end()) return false;
  *out = found->second;
  return true;
}

cudnnStatus_t describe(cudnnTensorDescriptor_t tensor, const Layers& layers, int rows,
                       int columns) {
  const int sizes[3] = {1, rows, columns};
  const int strides[3] = {rows * columns, columns, 1};
  // Of the real library, which is loaded, but not for everybody.
  static void* const library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  static const auto set = reinterpret_cast<decltype(&cudnnSetTensorNdDescriptor)>(
      dlsym(library, "cudnnSetTensorNdDescriptor"));
  return set(tensor, layers.type, 3, sizes, strides);
}

void* address(const void* base, int64_t elements, const Layers& layers) {
  return static_cast<char*>(const_cast<void*>(base)) +
         static_cast<size_t>(elements) * layers.element();
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t description, cudnnRNNAlgo_t,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t,
                                       cudnnDataType_t type, cudnnDataType_t, cudnnMathType_t,
                                       int32_t input, int32_t hidden, int32_t projection,
                                       int32_t layers, cudnnDropoutDescriptor_t, uint32_t) {
  if (projection != hidden) return refuse_dnn("cudnnSetRNNDescriptor_v8 with a projection");
  Layers told;
  told.mode = mode;
  told.type = type;
  told.bias = bias != CUDNN_RNN_NO_BIAS;
  told.directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
  told.input = input;
  told.hidden = hidden;
  told.layers = layers;
  MutexLock lock(known().mutex);
  known().layers[description] = told;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes) {
  *bytes = kDropoutStates;
  return check_dnn("cudnnDropoutGetStatesSize", handle);
}
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t handle, float,
                                        void* states, size_t bytes, unsigned long long) {
  if (states == nullptr) return check_dnn("cudnnSetDropoutDescriptor", handle);
  return launch_dnn(handle, "cudnnSetDropoutDescriptor", {{states, bytes}});
}
cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t handle, float,
                                            void*, size_t, unsigned long long) {
  return check_dnn("cudnnRestoreDropoutDescriptor", handle);
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t,
                                        size_t* workspace, size_t* reserve) {
  if (workspace != nullptr) *workspace = kWorkspace;
  if (reserve != nullptr) *reserve = mode == CUDNN_FWD_MODE_TRAINING ? kReserve : 0;
  return check_dnn("cudnnGetRNNTempSpaceSizes", handle);
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t description,
                                         size_t* bytes) {
  Layers layers;
  if (!find(description, &layers)) return CUDNN_STATUS_BAD_PARAM;
  *bytes = static_cast<size_t>(layers.all()) * layers.element();
  return check_dnn("cudnnGetRNNWeightSpaceSize", handle);
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t description,
                                      int32_t pseudo, size_t, const void* weights, int32_t id,
                                      cudnnTensorDescriptor_t matrix, void** matrix_address,
                                      cudnnTensorDescriptor_t bias, void** bias_address) {
  Layers layers;
  if (!find(description, &layers)) return CUDNN_STATUS_BAD_PARAM;
  const int64_t gates = 2 * layers.gates();
  if (pseudo >= layers.pseudo_layers() || id >= gates) return CUDNN_STATUS_BAD_PARAM;
  const int hidden = static_cast<int>(layers.hidden);
  if (matrix_address != nullptr) {
    *matrix_address = address(weights, layers.matrices_before(pseudo, id), layers);
    describe(matrix, layers, hidden, static_cast<int>(layers.columns(pseudo, id)));
  }
  if (bias_address != nullptr) {
    const int64_t before = layers.all_matrices() + (pseudo * gates + id) * layers.hidden;
    *bias_address = layers.bias ? address(weights, before, layers) : nullptr;
    describe(bias, layers, hidden, 1);
  }
  return check_dnn("cudnnGetRNNWeightParams", handle);
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t, cudnnForwardMode_t,
                              const int32_t*, cudnnRNNDataDescriptor_t, const void* x,
                              cudnnRNNDataDescriptor_t, void* y, cudnnTensorDescriptor_t,
                              const void* hx, void* hy, cudnnTensorDescriptor_t, const void* cx,
                              void* cy, size_t weight_bytes, const void* weights,
                              size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                              void* reserve) {
  return launch_dnn(handle, "cudnnRNNForward",
                    {beginning(x),
                     beginning(y),
                     beginning(hx),
                     beginning(hy),
                     beginning(cx),
                     beginning(cy),
                     {weights, weight_bytes},
                     {workspace, workspace_bytes},
                     {reserve, reserve_bytes}});
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t, const int32_t*,
                                      cudnnRNNDataDescriptor_t, const void* y, const void* dy,
                                      cudnnRNNDataDescriptor_t, void* dx, cudnnTensorDescriptor_t,
                                      const void* hx, const void* dhy, void* dhx,
                                      cudnnTensorDescriptor_t, const void* cx, const void* dcy,
                                      void* dcx, size_t weight_bytes, const void* weights,
                                      size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                                      void* reserve) {
  return launch_dnn(handle, "cudnnRNNBackwardData",
                    {beginning(y),
                     beginning(dy),
                     beginning(dx),
                     beginning(hx),
                     beginning(dhy),
                     beginning(dhx),
                     beginning(cx),
                     beginning(dcy),
                     beginning(dcx),
                     {weights, weight_bytes},
                     {workspace, workspace_bytes},
                     {reserve, reserve_bytes}});
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t,
                                         cudnnWgradMode_t, const int32_t*, cudnnRNNDataDescriptor_t,
                                         const void* x, cudnnTensorDescriptor_t, const void* hx,
                                         cudnnRNNDataDescriptor_t, const void* y,
                                         size_t weight_bytes, void* d_weights,
                                         size_t workspace_bytes, void* workspace,
                                         size_t reserve_bytes, void* reserve) {
  return launch_dnn(handle, "cudnnRNNBackwardWeights",
                    {beginning(x),
                     beginning(hx),
                     beginning(y),
                     {d_weights, weight_bytes},
                     {workspace, workspace_bytes},
                     {reserve, reserve_bytes}});
}

}  // extern "C"
