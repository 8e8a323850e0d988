#include "kernels/vector/fused.h"

#include "kernels/neon/vector.h"

#define ISA neon
namespace {
using Isa = lite::Neon;
}
#include "kernels/vector/fused.inc"
