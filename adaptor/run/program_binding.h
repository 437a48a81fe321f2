// program_binding: the part of making a program that each job needs for itself: views of its image
// and of inputs, the views of those that are evaluated once, and calls with these tensors and its
// generator. bind_program does all of it for a graph that another job has resolved; load_program
// (adaptor/run/graph_loader.h) uses the parts.
#pragma once

#include <cstddef>
#include <memory>

#include "adaptor/operators/operator_call.h"
#include "adaptor/run/graph_program.h"
#include "base/result.h"

namespace laneway::adaptor {

// The program of a job for a graph that was resolved for an equal image. Requires: the slots that
// the graph was checked against are the job's, its placement is the one that the job would give it,
// and the thread holds a TorchUse. invalid_graph when a view is another one than the graph
// declares.
Result<std::unique_ptr<const GraphProgram>> bind_program(
    std::shared_ptr<const ResolvedGraph> resolved, const JobParts& job);

// Gives the program its inputs, and values for all inputs and slots.
void place_static_values(GraphProgram& program);

// Runs a view of static values. False when its result is not a view after all; then its values are
// empty. invalid_graph when it is another one than the graph declares; throws what torch throws.
Result<bool> evaluate_view(GraphProgram& program, const OperatorCall& call, size_t node);

// Which slots the CPU's nodes may write, and whether the graph writes some on the device although
// other graphs of the job have them on the CPU.
void find_mirror_writes(GraphProgram& program);

}  // namespace laneway::adaptor
