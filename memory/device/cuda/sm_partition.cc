#include "memory/device/cuda/sm_partition.h"

#include <string>

namespace laneway::memory {
namespace {

bool has_entries(const CudaDriver& driver) {
  return driver.cuDeviceGetDevResource != nullptr &&
         driver.cuDevSmResourceSplitByCount != nullptr &&
         driver.cuDevResourceGenerateDesc != nullptr && driver.cuGreenCtxCreate != nullptr &&
         driver.cuGreenCtxDestroy != nullptr && driver.cuGreenCtxStreamCreate != nullptr;
}

Error no_partitions(const CudaContext& context, const std::string& why) {
  return Error{ErrorCode::unsupported,
               context.name() + " cannot give lanes multiprocessors of their own: " + why +
                   "; leave --lane-sms at 0, and all lanes share all"};
}

Error no_such_parts(const CudaContext& context, const CUdevResource& all, uint32_t sms) {
  return Error{ErrorCode::invalid_argument,
               "partitions of " + std::to_string(sms) + " multiprocessors: " + context.name() +
                   " has " + std::to_string(all.sm.smCount) + ", in parts of at least " +
                   std::to_string(all.sm.minSmPartitionSize) + " and in multiples of " +
                   std::to_string(all.sm.smCoscheduledAlignment)};
}

// The equal parts of `all`; none when `sms`, rounded up as the hardware wants it, are too many.
Result<std::vector<CUdevResource>> groups_of(const CudaContext& context, const CUdevResource& all,
                                             uint32_t sms) {
  const auto split = context.driver().cuDevSmResourceSplitByCount;
  unsigned count = 0;
  CUresult result = split(nullptr, &count, &all, nullptr, 0, sms);
  std::vector<CUdevResource> groups(count);
  if (result == CUDA_SUCCESS && count > 0) {
    result = split(groups.data(), &count, &all, nullptr, 0, sms);
  }
  if (result == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) {
    count = 0;
  } else if (result != CUDA_SUCCESS) {
    return no_partitions(context, context.failure(result, "splitting the multiprocessors").message);
  }
  groups.resize(count);
  return groups;
}

}  // namespace

Result<std::vector<std::unique_ptr<SmPartition>>> SmPartition::split(const CudaContext& context,
                                                                     uint32_t sms) {
  const CudaDriver& driver = context.driver();
  if (!has_entries(driver)) {
    return no_partitions(context, "its driver has no green contexts (CUDA 12.5 brought them)");
  }
  const CudaContext::RelaxedScope scope(context);
  CUdevResource all{};
  const CUresult asked =
      driver.cuDeviceGetDevResource(context.device(), &all, CU_DEV_RESOURCE_TYPE_SM);
  if (asked != CUDA_SUCCESS) {
    return no_partitions(context, context.failure(asked, "asking for multiprocessors").message);
  }
  if (sms == 0 || sms > all.sm.smCount) return no_such_parts(context, all, sms);
  Result<std::vector<CUdevResource>> groups = groups_of(context, all, sms);
  if (!groups.ok()) return groups.error();
  if (groups.value().empty()) return no_such_parts(context, all, sms);
  std::vector<std::unique_ptr<SmPartition>> partitions;
  for (CUdevResource& group : groups.value()) {
    CUdevResourceDesc description = nullptr;
    CUgreenCtx green = nullptr;
    CUresult result = driver.cuDevResourceGenerateDesc(&description, &group, 1);
    if (result == CUDA_SUCCESS) {
      result = driver.cuGreenCtxCreate(&green, description, context.device(),
                                       CU_GREEN_CTX_DEFAULT_STREAM);
    }
    if (result != CUDA_SUCCESS) {
      return no_partitions(context, context.failure(result, "making a partition").message);
    }
    partitions.emplace_back(new SmPartition(driver, green, group.sm.smCount));
  }
  return partitions;
}

SmPartition::~SmPartition() { driver_.cuGreenCtxDestroy(green_); }

}  // namespace laneway::memory
