#pragma once

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"
#include "kernels/vector/stretched.h"

// Elementwise loops for any instruction set; their formulas are in elementwise.inc.

namespace lite {

// Not inlined where it is called, and that is in several places: half the code.
#define KEEP_APART __attribute__((noinline))

constexpr int64_t kGrain = 1 << 12;  // elements that are worth a thread's while

// y[i] = f(x[i]) by vectors
template <class Isa, typename Attrs, typename F>
Status vunary(const Call<Attrs>& call, F f) {
  const float* x = call.in[0].f32();
  float* y = call.y().f32();
  parallel_for(call.context.pool, call.y().elements(), kGrain, [=](int64_t begin, int64_t end) KEEP_APART {
    over<Isa>(end - begin,
              [=](int64_t i, int lanes) { Isa::store(y + begin + i, f(Isa::load(x + begin + i, lanes)), lanes); });
  });
  return Status::kOk;
}

// store(y + i, f(a, b), lanes) for every element of y, with a and b stretched by the numpy rule
template <class Isa, typename T, typename Attrs, typename F, typename Store>
Status vbinary(const Call<Attrs>& call, F f, Store store) {
  T* y = call.y().template as<T>();
  const int64_t total = call.y().elements();
  if (total == 0) return Status::kOk;
  const Stretched<Isa, float> a(call.in[0], call.y().shape), b(call.in[1], call.y().shape);
  const int64_t block = block_of(kGrain, a, b);
  by_blocks(call.context.pool, total, block, kGrain, [=](int64_t begin, int64_t end) KEEP_APART {
    Room<float> room_a, room_b;
    for (int64_t at = begin; at < end; at += block) {
      const int64_t n = std::min(block, end - at);
      const float *from_a = a.at(at, n, &room_a), *from_b = b.at(at, n, &room_b);
      over<Isa>(n, [=](int64_t i, int lanes) {
        store(y + at + i, f(Isa::load(from_a + i, lanes), Isa::load(from_b + i, lanes)), lanes);
      });
    }
  });
  return Status::kOk;
}

// y = cond ? a : b, of elements of four bytes; false when they have another size
template <class Isa>
bool vwhere(const Call<where_attrs>& call) {
  const Ints& shape = call.y().shape;
  const int64_t total = call.y().elements();
  if (size_of(call.y().dtype) != sizeof(float) || total == 0) return false;
  const Stretched<Isa, uint8_t> cond(call.in[0], shape);
  const Stretched<Isa, float> a(call.in[1], shape), b(call.in[2], shape);
  float* y = call.y().f32();
  const int64_t block = block_of(kGrain, cond, a, b);
  by_blocks(call.context.pool, total, block, kGrain, [=](int64_t begin, int64_t end) KEEP_APART {
    Room<uint8_t> room_cond;
    Room<float> room_a, room_b;
    for (int64_t at = begin; at < end; at += block) {
      const int64_t n = std::min(block, end - at);
      const uint8_t* truths = cond.at(at, n, &room_cond);
      const float *from_a = a.at(at, n, &room_a), *from_b = b.at(at, n, &room_b);
      over<Isa>(n, [=](int64_t i, int lanes) {
        const auto chosen = Isa::load_truths(truths + i, lanes);
        Isa::store(y + at + i, Isa::select(chosen, Isa::load(from_a + i, lanes), Isa::load(from_b + i, lanes)), lanes);
      });
    }
  });
  return true;
}

}  // namespace lite
