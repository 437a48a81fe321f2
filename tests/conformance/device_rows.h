// The devices that a program of the conformance suite holds against the contract. Each program has
// its own: those that need hardware, or something in its place, stand apart.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "memory/device/device.h"

namespace laneway::memory {

struct DeviceRow {
  const char* name;
  std::function<std::unique_ptr<Device>()> open;  // null where there is no such hardware
};

inline void PrintTo(const DeviceRow& row, std::ostream* out) { *out << row.name; }

std::vector<DeviceRow> device_rows();

}  // namespace laneway::memory
