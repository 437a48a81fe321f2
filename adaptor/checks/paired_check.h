// paired_check: operators that believe what another one has left for them (a backward operator its
// forward, a solver its factorisation) and read beyond their tensors when it is something else.
// They are taken with the very results and arguments of their partner only. Some results are as
// large as a library wants them: nobody but the partner reads those. And the labels of CTC, which
// no operator looks at. Pure functions over a graph that has passed graph_check.
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

// ok when `node` is no such operator, or goes with its partner. The message says what is missing.
Status check_pairing(const lanes::Graph& graph, uint32_t node, const IndexTrace& trace);

// Whether only the library behind operator `op` knows how large its result `result` is; a graph
// declares it without elements.
bool is_library_sized(std::string_view op, size_t result);

// Whether `node` computes a CTC loss, whose labels are to be checked before it runs.
bool is_ctc_loss(const lanes::Node& node);

// ok when the labels that the lengths say are used are classes of log_probs; `values` as
// Graph::values.
Status check_ctc_labels(const lanes::Graph& graph, uint32_t node,
                        const std::vector<c10::IValue>& values);

}  // namespace laneway::adaptor
