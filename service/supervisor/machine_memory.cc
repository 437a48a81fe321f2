#include "service/supervisor/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/limits.h"
#include "service/journal/recovery_memory.h"
#include "service/supervisor/limits.h"

namespace laneway::service {
namespace {

std::optional<Bytes> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;  // "max" too
  return Bytes(number);
}

// Field `name` of /proc/meminfo or of a control group's memory.stat.
std::optional<Bytes> read_field(const std::string& path, const std::string& name, int64_t unit) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string field;
    int64_t number = 0;
    if (words >> field >> number && field == name) return Bytes(number * unit);
  }
  return std::nullopt;
}

// What one control group allows; nothing where it sets no bound. File cache can be taken back.
void bound_by_group(const std::string& folder, MachineMemory& memory) {
  const auto most = read_number(folder + "/memory.max");
  const auto used = read_number(folder + "/memory.current");
  if (!most || !used) return;
  const Bytes cache = read_field(folder + "/memory.stat", "inactive_file", 1).value_or(Bytes(0));
  memory.total = std::min(memory.total, *most);
  memory.free = std::min(memory.free, std::max(Bytes(0), *most - *used + cache));
}

// The group of this process and those around it (version 2; its line begins with "0::").
void bound_by_groups(const std::string& root, MachineMemory& memory) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::")) continue;
    std::string group = line.substr(3);
    while (true) {
      while (group.ends_with('/')) group.pop_back();
      bound_by_group(root + "/sys/fs/cgroup" + group, memory);
      if (group.empty()) return;
      group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
}

constexpr int64_t kPage = 4096;

std::string arithmetic(const MachineMemory& memory) {
  return "of " + format_bytes(memory.total) + " in all, " + format_bytes(memory.free) +
         " are free here";
}

}  // namespace

Result<MachineMemory> MachineMemory::read(const std::string& root) {
  constexpr int64_t kKib = 1024;
  const auto total = read_field(root + "/proc/meminfo", "MemTotal:", kKib);
  const auto free = read_field(root + "/proc/meminfo", "MemAvailable:", kKib);
  if (!total || !free) {
    return Error{ErrorCode::failed,
                 "/proc/meminfo does not say how much memory there is: is /proc mounted?"};
  }
  MachineMemory memory{.total = *total, .free = *free};
  bound_by_groups(root, memory);
  return memory;
}

Result<Bytes> choose_pool(Bytes wanted, Bytes reserve, const MachineMemory& memory) {
  if (wanted > memory.free) {
    return Error{ErrorCode::out_of_memory,
                 "a pool of " + format_bytes(wanted) + " cannot be had: " + arithmetic(memory) +
                     ". Give --pool " + format_bytes(memory.free) + " or less, or free memory"};
  }
  Bytes pool = wanted > Bytes(0) ? wanted : Bytes(memory.free.count() / 2);
  pool = Bytes(pool.count() / limits::kHostAlignment * limits::kHostAlignment);
  if (pool < limits::kMinPool) {
    return Error{ErrorCode::out_of_memory,
                 "half of the free memory is no pool: " + arithmetic(memory) +
                     ", and a pool has at least " + format_bytes(limits::kMinPool) +
                     ". Free memory first"};
  }
  if (reserve >= pool) {
    return Error{ErrorCode::invalid_argument,
                 "--reserve " + format_bytes(reserve) + ": nothing would be left of the pool of " +
                     format_bytes(pool) + " (half of what is free): reserve less"};
  }
  return pool;
}

Result<Bytes> choose_recovery(std::optional<Bytes> wanted, Bytes pool, Bytes beside,
                              const MachineMemory& memory) {
  const Bytes left = std::max(Bytes(), memory.free - beside);
  if (wanted && *wanted > left) {
    return Error{ErrorCode::out_of_memory,
                 "--recovery-memory " + format_bytes(*wanted) + " cannot be had: " +
                     arithmetic(memory) + ", and the pool takes " + format_bytes(beside) +
                     ". Give " + format_bytes(left) + " or less, or a smaller --pool"};
  }
  if (wanted && *wanted > Bytes() && *wanted < RecoveryMemory::kSmallest) {
    return Error{ErrorCode::invalid_argument,
                 "--recovery-memory " + format_bytes(*wanted) + " is too small: it has at least " +
                     format_bytes(RecoveryMemory::kSmallest) + ", or 0 for none"};
  }
  const Bytes most = wanted.value_or(std::min(pool, Bytes(left.count() / 2)));
  if (most < RecoveryMemory::kSmallest) return Bytes();
  return Bytes(most.count() / kPage * kPage);
}

Result<Bytes> choose_store(std::optional<Bytes> wanted, Bytes pool, Bytes beside,
                           const MachineMemory& memory) {
  const Bytes left = std::max(Bytes(), memory.free - beside);
  if (wanted && *wanted > left) {
    return Error{ErrorCode::out_of_memory,
                 "--staging " + format_bytes(*wanted) + " cannot be had: " + arithmetic(memory) +
                     ", and pool and recovery memory take " + format_bytes(beside) + ". Give " +
                     format_bytes(left) + " or less, or let images go to a disk with --spill"};
  }
  const Bytes most = wanted.value_or(std::min(pool, Bytes(left.count() / 2)));
  return Bytes(most.count() / kPage * kPage);
}

}  // namespace laneway::service
