// result_check: compares the results of operators with the graph's declarations, and copies outputs
// to the client's memory. Pure functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <vector>

#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

// ok when every tensor among the results of `node` is a plain tensor on `device` inside its
// storage, with the dtype and the sizes that the graph declares, and defined unless it is among
// `unused`: operators leave out results that they were told not to compute. Numbers are not
// checked. other_layout for another dtype or other sizes, invalid_graph for all else.
Status check_results(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values,
                     const std::vector<lanes::ValueIndex>& unused,
                     c10::Device device = c10::DeviceType::CPU);

// ok when every tensor among the results of `node` with more than one element lies as the graph
// declares: strides of dimensions of more than one element, offset in its storage. Results with a
// size that only a library knows are not checked. Otherwise other_layout.
Status check_layouts(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values);

// By storage: whether a node accesses it by strides of its own (as_strided), so that its layout
// must be the declared one.
std::vector<bool> strided_storages(const lanes::Graph& graph);

// ok when `tensor`, a view of a slot or an input that was evaluated at load, lies exactly at the
// place of `declared`, `base` elements behind the start of its storage.
Status check_place(const at::Tensor& tensor, const lanes::Value& declared, int64_t base);

// ok when a tensor or a number has `bytes` bytes as an output; else invalid_argument.
Status check_output_room(const c10::IValue& value, uint64_t bytes);

// Copies a CPU tensor or a number to the output's place. Copies nothing when the result has another
// number of bytes than the output. Throws nothing.
Status copy_out(const c10::IValue& value, const lanes::OutputView& output);

}  // namespace laneway::adaptor
