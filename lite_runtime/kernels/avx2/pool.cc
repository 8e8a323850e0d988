#include "kernels/vector/pool.h"

#include <cstring>

#include "kernels/avx2/vector.h"
#include "kernels/kernels.h"

namespace lite {
namespace {

struct Bytes {
  using V = __m256i;
  static constexpr int kLanes = 32;

  static V load(const int8_t* p, int n) {
    if (n == kLanes) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    int8_t some[kLanes] = {};
    std::memcpy(some, p, static_cast<size_t>(n));
    return load(some, kLanes);
  }
  static void store(int8_t* p, V v, int n) {
    if (n == kLanes) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
    int8_t some[kLanes];
    store(some, v, kLanes);
    std::memcpy(p, some, static_cast<size_t>(n));
  }
  static V all(int8_t x) { return _mm256_set1_epi8(x); }
  static V max(V a, V b) { return _mm256_max_epi8(a, b); }
};

}  // namespace

KERNEL(max_pool2d, f32, avx2) { return vector_max_pool2d<Avx2, float>(call); }
KERNEL(max_pool2d, i8, avx2) { return vector_max_pool2d<Bytes, int8_t>(call); }
KERNEL(max_pool2d_dx, f32, avx2) { return vector_max_pool2d_dx<Avx2>(call); }
KERNEL(avg_pool2d, f32, avx2) { return vector_avg_pool2d<Avx2>(call); }
KERNEL(avg_pool2d_dx, f32, avx2) { return vector_avg_pool2d_dx<Avx2>(call); }

}  // namespace lite
