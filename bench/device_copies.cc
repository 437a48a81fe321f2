// laneway-device-copies: what the device's own copies take, by size.
//
//     laneway-device-copies DEVICE SECONDS SIZE…
//
// For each size, in both directions: a Stream's copies from and to pinned memory ("stream") and
// PoolAccess's from and to ordinary memory ("pool_access"). Prints one JSON object a line: {"what",
// "direction", "bytes", "seconds": of one copy, a number a batch}; a batch takes about SECONDS / 5.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adaptor/device/backend.h"
#include "base/bytes.h"
#include "bench/trial_loop.h"

namespace {

using laneway::Bytes;
using laneway::Status;

constexpr int kBatches = 5;
constexpr int kMostInABatch = 200;  // fits into a stream's queue

void fail(const std::string& why) {
  std::fprintf(stderr, "laneway-device-copies: %s\n", why.c_str());
  std::exit(1);
}

void check(const Status& status) {
  if (!status.ok()) fail(status.error().message);
}

template <typename T>
T take(laneway::Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(result).value();
}

struct Copies {
  const char* what;
  const char* direction;
  std::function<Status(Bytes)> copy;
  std::function<Status()> wait;
};

int64_t batch_ns(const Copies& copies, Bytes size, int count) {
  const int64_t start = laneway::bench::now_ns();
  for (int i = 0; i < count; ++i) check(copies.copy(size));
  check(copies.wait());
  return laneway::bench::now_ns() - start;
}

void measure(const Copies& copies, Bytes size, double seconds) {
  for (int i = 0; i < 3; ++i) batch_ns(copies, size, 1);
  const double one_s = std::max(static_cast<double>(batch_ns(copies, size, 1)) / 1e9, 1e-6);
  const int count = std::clamp(static_cast<int>(seconds / kBatches / one_s), 1, kMostInABatch);
  std::printf("{\"what\": \"%s\", \"direction\": \"%s\", \"bytes\": %lld, \"seconds\": [",
              copies.what, copies.direction, static_cast<long long>(size.count()));
  for (int batch = 0; batch < kBatches; ++batch) {
    const double taken_s = static_cast<double>(batch_ns(copies, size, count)) / 1e9 / count;
    std::printf("%s%.9g", batch == 0 ? "" : ", ", taken_s);
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: laneway-device-copies DEVICE SECONDS SIZE...\n");
    return 2;
  }
  const double seconds = std::atof(argv[2]);
  std::vector<Bytes> sizes;
  for (int i = 3; i < argc; ++i) sizes.emplace_back(std::atoll(argv[i]));
  const Bytes most = *std::max_element(sizes.begin(), sizes.end());

  const auto backend = take(laneway::adaptor::open_backend(argv[1], {}));
  auto& device = backend->device();
  const auto pool = take(device.allocate_pool(most));
  const auto pinned = take(device.allocate_host(most));
  std::vector<std::byte> ordinary(static_cast<size_t>(most.count()), std::byte{1});
  auto& access = backend->pool_access();
  const auto stream = take(device.create_stream());

  const auto stream_done = [&] { return stream->synchronize(); };
  const auto nothing_left = [] { return Status(); };
  const Copies all[] = {
      {"stream", "to_device",
       [&](Bytes size) { return stream->copy_to_device(pool->data(), pinned->data(), size); },
       stream_done},
      {"stream", "from_device",
       [&](Bytes size) { return stream->copy_to_host(pinned->data(), pool->data(), size); },
       stream_done},
      {"pool_access", "to_device",
       [&](Bytes size) { return access.write(pool->data(), ordinary.data(), size); }, nothing_left},
      {"pool_access", "from_device",
       [&](Bytes size) { return access.read(ordinary.data(), pool->data(), size); }, nothing_left},
  };
  for (const Copies& copies : all) {
    for (const Bytes size : sizes) measure(copies, size, seconds);
  }
  return 0;
}
