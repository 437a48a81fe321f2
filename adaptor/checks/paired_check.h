// paired_check: checks operators that trust another operator's results (a backward operator those
// of its forward, a solver those of its factorisation) and that read beyond their tensors when
// these are others. Such an operator must get exactly the results and arguments of its partner. The
// size of some results is known only to a library: only the partner may read them. The labels of
// CTC, which no operator checks, are checked here too. Pure functions over a graph that has passed
// graph_check.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "adaptor/checks/index_trace.h"
#include "base/result.h"
#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// ok when `node` is no such operator, or has its partner's results and arguments. The message names
// the one that is missing.
Status check_pairing(const lanes::Graph& graph, uint32_t node, const IndexTrace& trace);

// Whether only the library behind operator `op` knows the size of its result `result`; a graph
// declares it without elements.
bool is_library_sized(std::string_view op, size_t result);

// Whether `node` computes a CTC loss, with labels that must be checked before it runs.
bool is_ctc_loss(const lanes::Node& node);

// ok when the labels within the given lengths are classes of log_probs; `values` as Graph::values.
Status check_ctc_labels(const lanes::Graph& graph, uint32_t node,
                        const std::vector<c10::IValue>& values);

}  // namespace laneway::adaptor
