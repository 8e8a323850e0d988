#pragma once

#include "core/status.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "gen/op_table.h"

namespace lite {

// What every kernel may use: scratch memory that its SCRATCH function asked for, what its PREPARE function made, and
// threads.
struct Context {
  void* scratch = nullptr;
  const void* prepared = nullptr;  // null: nothing was prepared
  ThreadPool* pool = nullptr;      // null: run alone
};

// What a kernel is given: inputs, results whose shapes are set, and its attributes.
template <typename Attrs>
struct Call {
  const Tensor* in;
  int inputs;
  Tensor* out;
  const Attrs& attrs;
  Context& context;

  const Tensor& y() const { return out[0]; }
  // Input `i`, or null where it is left out.
  const Tensor* optional(int i) const { return i < inputs && in[i].present() ? &in[i] : nullptr; }
};

}  // namespace lite

// A kernel is the function <op>_<dtype>_<isa>: KERNEL(relu, f32, avx2) { ... }
#define KERNEL(op, dtype, isa) Status op##_##dtype##_##isa([[maybe_unused]] const Call<op##_attrs>& call)

// How many bytes of scratch the kernel wants for a call. Only shapes and attributes may be read, and what was prepared.
#define SCRATCH(op, dtype, isa) uint64_t op##_##dtype##_##isa##_scratch([[maybe_unused]] const Call<op##_attrs>& call)

// Makes once, of inputs that never change, what the kernel wants instead of them: packed weights. Inputs from 1 on are
// the constant ones; input 0 and the result have no bytes, and may have other sizes in every call. Returns how many
// bytes it makes; writes them to `to`, a boundary of 64 bytes, unless that is null. A kernel runs without as well.
#define PREPARE(op, dtype, isa) \
  uint64_t op##_##dtype##_##isa##_prepare([[maybe_unused]] const Call<op##_attrs>& call, [[maybe_unused]] void* to)

// Whether shapes, types and attributes of a call fit together, so that every kernel of the operator
// stays inside its tensors. Files are hostile: this runs before a kernel sees new shapes, and must
// itself trust nothing but 0 <= rank <= kMaxRank, 0 <= Ints.size <= kMaxRank and sizes >= 0.
#define CHECK(op) bool op##_check([[maybe_unused]] const Call<op##_attrs>& call)
