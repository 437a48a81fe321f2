// Generator: traces of jobs from a seed, in the format `laneway`, shaped as the one of Salus (Yu
// and Chowdhury, "Salus: Fine-Grained GPU Sharing Primitives for Deep Learning Applications", MLSys
// 2020): trainings of the models of its profiles, lengths lognormal with a median of 80 s, all
// submitted at whole seconds in the first twentieth of what they take one after the other. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace laneway::simulator {

// The text of the file; the same for equal arguments. Requires: `jobs` is above 0.
std::string generated_trace(uint64_t jobs, uint64_t seed);

}  // namespace laneway::simulator
