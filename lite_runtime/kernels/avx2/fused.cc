#include "kernels/vector/fused.h"

#include "kernels/avx2/vector.h"

#define ISA avx2
namespace {
using Isa = lite::Avx2;
}
#include "kernels/vector/fused.inc"
