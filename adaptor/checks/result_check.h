// result_check: whether the tensors that operators gave are what the graph declares, and copying
// them to where a client wants them. Pure functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <vector>

#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph_runner.h"

namespace laneway::adaptor {

// ok when every tensor among the results of `node` is a plain tensor on `device` inside its
// storage, with the dtype and the sizes that the graph declares, and defined unless it is among
// `unused`: operators leave out what they were told not to compute. Numbers are not looked at.
Status check_results(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values,
                     const std::vector<lanes::ValueIndex>& unused,
                     c10::Device device = c10::DeviceType::CPU);

// ok when every tensor among the results of `node` with more than one element lies as the graph
// declares: strides of dimensions of more than one element, offset in its storage. Of results that
// only a library sizes nothing is asked. Else other_layout.
Status check_layouts(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values);

// By storage: whether some node reaches into it by strides of its own (as_strided), so that it must
// lie as the graph declares.
std::vector<bool> strided_storages(const lanes::Graph& graph);

// ok when `tensor`, a view of a slot or an input that was evaluated at load, has exactly the place
// that `declared` says, `base` elements behind the start of its storage.
Status check_place(const at::Tensor& tensor, const lanes::Value& declared, int64_t base);

// What is said of a tensor of `bytes` bytes for which there is other room.
Error wrong_output_room(uint64_t bytes, uint64_t room);

// ok when a tensor or a number has `bytes` bytes as an output; invalid_argument else.
Status check_output_room(const c10::IValue& value, uint64_t bytes);

// Copies a tensor of the CPU's or a number out; never more than the output's bytes, and nothing at
// all when the result has another number of them. Throws nothing.
Status copy_out(const c10::IValue& value, const lanes::OutputView& output);

}  // namespace laneway::adaptor
