// cuDNN: graphs of operations (its backend API), as far as torch's convolutions need them. cuDNN's
// attention finds no plan here: torch raises an error at its first call and crashes at the next, so
// whoever would take it must switch it off. A description keeps the attributes that it is given.
// One engine serves every graph, and a plan that is executed only checks that its memory is there.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/fake_cuda/dnn.h"
#include "tests/fake_cuda/handle_table.h"

using laneway::Mutex;
using laneway::MutexLock;
using laneway::fake_cuda::beginning;
using laneway::fake_cuda::HandleTable;
using laneway::fake_cuda::launch_dnn;
using laneway::fake_cuda::Operand;

namespace {

// Of every plan.
constexpr int64_t kWorkspace = int64_t{1} << 20;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_VOID_PTR;
  int64_t count = 0;
  std::string bytes;
};

struct Description {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  std::map<int, Attribute> attributes;
};

// Descriptions are made by all threads at once, without the device: a lock of their own.
struct Descriptions {
  Mutex mutex;
  HandleTable<cudnnBackendDescriptor_t, Description> all{0x10000000};
};
Descriptions& descriptions() {
  static auto* const made = new Descriptions;
  return *made;
}

size_t element_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    default: return 4;  // enumerations, int32, float
  }
}

template <typename T>
std::vector<T> values(const Description& description, cudnnBackendAttributeName_t name) {
  const auto found = description.attributes.find(name);
  if (found == description.attributes.end()) return {};
  std::vector<T> read(found->second.bytes.size() / sizeof(T));
  std::memcpy(read.data(), found->second.bytes.data(), read.size() * sizeof(T));
  return read;
}

// What a description knows without having been told.
bool derived(const Description& description, cudnnBackendAttributeName_t name, int64_t* value) {
  switch (name) {
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: *value = kWorkspace; return true;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE: *value = kWorkspace; return true;
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT: *value = 1; return true;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: *value = 0; return description.attributes.count(name) == 0;
    default: return false;
  }
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* out) {
  MutexLock lock(descriptions().mutex);
  auto made = std::make_shared<Description>();
  made->type = type;
  *out = descriptions().all.add(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  MutexLock lock(descriptions().mutex);
  return descriptions().all.take(handle) != nullptr ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  MutexLock lock(descriptions().mutex);
  return descriptions().all.find(handle) != nullptr ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  MutexLock lock(descriptions().mutex);
  const auto description = descriptions().all.find(handle);
  if (description == nullptr || count < 0) return CUDNN_STATUS_BAD_PARAM;
  Attribute attribute{type, count, {}};
  if (elements != nullptr) {
    attribute.bytes.assign(static_cast<const char*>(elements),
                           static_cast<size_t>(count) * element_bytes(type));
  }
  description->attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked,
                                       int64_t* count, void* elements) {
  MutexLock lock(descriptions().mutex);
  const auto description = descriptions().all.find(handle);
  if (description == nullptr) return CUDNN_STATUS_BAD_PARAM;
  int64_t found = 0;
  int64_t value = 0;
  const auto stored = description->attributes.find(name);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS || name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    found = 1;  // into a description that the caller made
  } else if (derived(*description, name, &value)) {
    found = 1;
    if (asked > 0 && elements != nullptr) std::memcpy(elements, &value, element_bytes(type));
  } else if (stored != description->attributes.end()) {
    found = stored->second.count;
    const size_t copied = static_cast<size_t>(std::min(asked, found)) * element_bytes(type);
    if (elements != nullptr) {
      std::memcpy(elements, stored->second.bytes.data(),
                  std::min(copied, stored->second.bytes.size()));
    }
  }
  if (count != nullptr) *count = found;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  std::vector<Operand> operands;
  {
    MutexLock lock(descriptions().mutex);
    const auto given = descriptions().all.find(pack);
    if (given == nullptr || descriptions().all.find(plan) == nullptr) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    const auto workspace = values<void*>(*given, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (workspace.empty() || workspace[0] == nullptr) return CUDNN_STATUS_BAD_PARAM;
    operands.push_back({workspace[0], kWorkspace});
    for (const void* pointer : values<void*>(*given, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)) {
      operands.push_back(beginning(pointer));
    }
  }
  return launch_dnn(handle, "cudnn plan", std::move(operands));
}

}  // extern "C"
