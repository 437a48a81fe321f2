// Two operators of Laneway, because torch has none: one reads the state of the job's generator, one
// restores it. Activation checkpointing needs them: the recomputation of a layer in the backward
// pass draws the numbers of the forward pass again, and the generator continues where it was.
//
//   laneway::random_state(*, Generator? generator=None, Device? device=None) -> Tensor
//     a new uint8 tensor with the bytes of torch.get_rng_state(), on the CPU unless a device is
//     given
//   laneway::restore_random_state(Tensor state, *, Generator? generator=None) -> ()
//     throws c10::Error for bytes that are no state, with the generator as it was; waits for a
//     state that is not on the CPU. A state of zeros, which no generator has, leaves the generator
//     as it is: a submission whose draws follow those of the one before it
//
// Like every operator with a generator they get the job's own; an iteration with such an operator
// rewinds it when the iteration is abandoned.
#pragma once

namespace laneway::adaptor {

// Registers the operators with torch's dispatcher, once per process. Thread-safe.
void register_random_operators();

}  // namespace laneway::adaptor
