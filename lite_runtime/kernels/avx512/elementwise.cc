#include "kernels/vector/elementwise.h"

#include "kernels/avx512/vector.h"

#define ISA avx512
namespace {
using Isa = lite::Avx512;
}
#include "kernels/vector/elementwise.inc"
