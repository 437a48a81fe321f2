#include "bench/job_files.h"

#include <cstring>
#include <fstream>
#include <iterator>

namespace laneway::bench {
namespace {

std::vector<uint64_t> numbers(const std::string& path) {
  std::ifstream file(path);
  return {std::istream_iterator<uint64_t>(file), {}};
}

std::vector<ImageSlot> read_slots(const std::string& path) {
  std::ifstream file(path);
  std::vector<ImageSlot> slots;
  uint64_t bytes = 0;
  int kind = 0;
  std::string name;
  while (file >> bytes >> kind >> name) {
    slots.push_back({name, static_cast<SlotKind>(kind), bytes});
  }
  return slots;
}

}  // namespace

Result<JobFiles> read_job_files(const std::string& folder) {
  JobFiles files;
  const auto read = [&](const char* name, std::vector<char>& into) -> Status {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    if (!file) return Error{ErrorCode::invalid_argument, folder + "/" + name + " cannot be read"};
    into.assign(std::istreambuf_iterator<char>(file), {});
    return {};
  };
  const std::pair<const char*, std::vector<char>*> contents[] = {{"graph", &files.graph},
                                                                 {"image", &files.image},
                                                                 {"inputs", &files.inputs},
                                                                 {"outputs", &files.outputs}};
  for (const auto& [name, into] : contents) {
    if (Status done = read(name, *into); !done) return done.error();
  }
  files.slots = read_slots(folder + "/slots");
  files.input_sizes = numbers(folder + "/input_sizes");
  files.output_sizes = numbers(folder + "/output_sizes");
  return files;
}

Result<std::vector<std::byte>> JobFiles::image_in(const pipeline::ImageLayout& layout) const {
  std::vector<std::byte> bytes(static_cast<size_t>(layout.total().count()));
  size_t at = 0;
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (at + slots[slot].bytes > image.size()) {
      return Error{ErrorCode::invalid_argument, "the image is shorter than its slots"};
    }
    std::memcpy(bytes.data() + layout.offset(slot).count(), image.data() + at, slots[slot].bytes);
    at += slots[slot].bytes;
  }
  return bytes;
}

std::vector<lanes::InputView> JobFiles::input_views(const lanes::Graph& of) const {
  std::vector<lanes::InputView> views;
  size_t at = 0;
  for (size_t i = 0; i < input_sizes.size(); ++i) {
    const char* data = inputs.data() + at;
    lanes::InputView view;
    if (of.values[of.inputs[i]].kind == lanes::ValueKind::tensor) {
      view.data = data;
      view.bytes = input_sizes[i];
    } else {
      std::memcpy(&view.real, data, sizeof(view.real));
      view.integer = static_cast<int64_t>(view.real);
    }
    views.push_back(view);
    at += input_sizes[i];
  }
  return views;
}

std::vector<lanes::OutputView> JobFiles::output_views(std::vector<char>& memory) const {
  std::vector<lanes::OutputView> views;
  size_t at = 0;
  for (const uint64_t bytes : output_sizes) {
    views.push_back({.data = memory.data() + at, .bytes = bytes});
    at += bytes;
  }
  return views;
}

}  // namespace laneway::bench
