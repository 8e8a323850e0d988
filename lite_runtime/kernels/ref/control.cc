#include "kernels/kernels.h"

// Control flow has no kernels: a session runs it itself (exec/machine.h), and checks its nodes against their graphs
// (exec/routine_fit.cc).

namespace lite {

#define NO_KERNEL(op) \
  CHECK(op) { return false; }

NO_KERNEL(cond)
NO_KERNEL(while_loop)
NO_KERNEL(call)
NO_KERNEL(empty_tape)
NO_KERNEL(push)
NO_KERNEL(pop)
NO_KERNEL(bind_sizes)
NO_KERNEL(with_gradient)  // taken away before a graph runs

}  // namespace lite
