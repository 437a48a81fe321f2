#include "tests/memory/random_tapes.h"

#include <utility>
#include <vector>

namespace laneway::testing {
namespace {

class TapeWriter {
 public:
  uint32_t allocate(uint64_t bytes) {
    tape_.allocations.push_back({bytes, static_cast<uint32_t>(tape_.frees.size())});
    return static_cast<uint32_t>(tape_.allocations.size() - 1);
  }
  void free(uint32_t index) { tape_.frees.push_back(index); }
  void temporary(uint64_t bytes) { free(allocate(bytes)); }
  memory::AllocationTape take() { return std::move(tape_); }

 private:
  memory::AllocationTape tape_;
};

uint64_t random_size(Random& random, uint64_t largest) {
  uint64_t size = random.below(largest) + 1;
  while (random.chance(0.6) && size > 1) size /= 4;
  return random.chance(0.02) ? 0 : size;
}

}  // namespace

memory::AllocationTape random_tape(Random& random, const RandomTapeOptions& options) {
  TapeWriter writer;
  std::vector<uint32_t> live;
  const auto free_one = [&] {
    const size_t victim = random.below(live.size());
    writer.free(live[victim]);
    live[victim] = live.back();
    live.pop_back();
  };
  for (uint32_t i = 0; i < options.allocations; ++i) {
    while (!live.empty() && random.chance(options.free_chance)) free_one();
    live.push_back(writer.allocate(random_size(random, options.largest)));
  }
  while (!live.empty() && (options.free_all || random.chance(0.8))) free_one();
  return writer.take();
}

memory::AllocationTape training_tape(Random& random, uint32_t layers) {
  TapeWriter writer;
  struct Layer {
    uint64_t activation;
    uint64_t weight;
    std::vector<uint32_t> saved;
    uint32_t gradient = 0;
  };
  std::vector<Layer> net(layers);
  for (Layer& layer : net) {
    layer.activation = random_size(random, 1 << 20) + 4;
    layer.weight = random_size(random, 1 << 18) + 4;
    const auto saved = static_cast<uint32_t>(random.below(3) + 1);
    for (uint32_t i = 0; i < saved; ++i) {
      layer.saved.push_back(writer.allocate(layer.activation));
      if (random.chance(0.5)) writer.temporary(random_size(random, 1 << 21));
      if (random.chance(0.3)) layer.saved.push_back(writer.allocate(4));
    }
  }
  uint32_t flowing = writer.allocate(4);  // the loss, then the gradient of each activation
  for (size_t i = net.size(); i-- > 0;) {
    Layer& layer = net[i];
    const uint32_t next = writer.allocate(layer.activation);
    if (random.chance(0.3)) writer.temporary(random_size(random, 1 << 21));
    layer.gradient = writer.allocate(layer.weight);
    writer.free(flowing);
    flowing = next;
    while (!layer.saved.empty()) {
      writer.free(layer.saved.back());
      layer.saved.pop_back();
    }
  }
  writer.free(flowing);
  for (const Layer& layer : net) {
    const uint32_t first = writer.allocate(layer.weight);
    const uint32_t second = writer.allocate(layer.weight);
    writer.temporary(4);
    writer.free(first);
    writer.free(second);
  }
  for (const Layer& layer : net) writer.free(layer.gradient);
  return writer.take();
}

}  // namespace laneway::testing
