// prepare_vector_math: torch's operators sqrt, exp, log and some others call MKL's vector functions
// from every thread of a team. MKL of 2024 chooses the kernel of such a function in its first call
// in the process, and not safely: of threads that come at once one may run a kernel of low
// accuracy, with errors of a thousand units in the last place, once. (Known to PyTorch; MKL of 2025
// is said to be free of it.) So each function is called once by one thread, before a lane computes:
// else the first iteration in a process would now and then leave other bits than every other one.
#pragma once

namespace laneway::adaptor {

// Calls all of them. Thread-safe. Requires: the caller holds no TorchUse.
void prepare_vector_math();

}  // namespace laneway::adaptor
