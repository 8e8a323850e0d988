#include "kernels/vector/elementwise.h"

#include "kernels/wasm/vector.h"

#define ISA wasm
namespace {
using Isa = lite::Wasm;
}
#include "kernels/vector/elementwise.inc"
