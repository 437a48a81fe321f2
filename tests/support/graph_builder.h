// GraphBuilder: writes small valid graphs the way capture does, a line a node, for tests. Keeps
// defined values, storages and first_write consistent; tests then break what they want to break.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::testing {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, lanes::GraphKind kind = lanes::GraphKind::train);

  // Entry values.
  lanes::ValueIndex input(std::vector<int64_t> sizes, lanes::DType = lanes::DType::float32);
  lanes::ValueIndex number_input(lanes::ValueKind kind = lanes::ValueKind::real);
  lanes::ValueIndex slot(uint32_t index, std::vector<int64_t> sizes,
                         lanes::DType = lanes::DType::float32);

  // A node with one tensor result of its own storage.
  lanes::ValueIndex compute(const std::string& op, std::vector<lanes::NamedArgument> arguments,
                            std::vector<int64_t> sizes, lanes::DType = lanes::DType::float32);
  // A node whose result is a view of `base` with these sizes (contiguous, offset 0).
  lanes::ValueIndex view(lanes::ValueIndex base, std::vector<int64_t> sizes);
  // A node with a number for a result.
  lanes::ValueIndex number(const std::string& op, std::vector<lanes::NamedArgument> arguments,
                           lanes::ValueKind kind);
  // A node that writes `target` in place and gives a result that nobody uses.
  void write(const std::string& op, lanes::ValueIndex target,
             std::vector<lanes::NamedArgument> more);
  void output(lanes::ValueIndex value) { graph_.outputs.push_back(value); }

  // The last node, to be adorned.
  lanes::Node& last() { return graph_.nodes.back(); }
  lanes::Graph& graph() { return graph_; }
  // Sets first_write and gives the graph away.
  lanes::Graph finish();

 private:
  lanes::ValueIndex add_tensor(uint32_t storage, std::vector<int64_t> sizes, lanes::DType dtype);
  uint32_t add_storage(lanes::StorageKind kind, uint32_t index, const std::vector<int64_t>& sizes,
                       lanes::DType dtype);
  lanes::Node& add_node(const std::string& op, std::vector<lanes::NamedArgument> arguments);

  lanes::Graph graph_;
};

// Positional arguments and keywords.
lanes::NamedArgument arg(lanes::ValueIndex value);
lanes::NamedArgument arg_int(int64_t value);
lanes::NamedArgument arg_real(double value);
lanes::NamedArgument arg_list(std::vector<lanes::Argument> elements);
lanes::NamedArgument keyword(std::string name, lanes::Argument argument);

// A linear layer trained with plain gradient descent: two inputs, two slots, a number input for the
// learning rate, scalar arithmetic, views, list arguments and results, writes at the end.
lanes::Graph training_graph();
// One that reads two slots and writes none; its output is a view.
lanes::Graph inference_graph();
// Every kind of argument, dtype and result list at least once.
lanes::Graph every_kind_graph();
// The image that all of these fit.
std::vector<lanes::ImageSlot> builder_image();

}  // namespace laneway::testing
