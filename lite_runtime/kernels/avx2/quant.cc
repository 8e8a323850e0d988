#include "kernels/avx2/fixed_point.h"
#include "kernels/kernels.h"
#include "kernels/quantized_elements.h"

namespace lite {
namespace {

// Eight int8 numbers as int32.
__m256i load_eight(const int8_t* from) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

void store_sixteen(int8_t* to, __m256i a, __m256i b) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), to_int8(a, b));
}

// round(x / scale) + zero_point within int8; halves away from zero, NaN becomes the lowest.
class Quantize {
 public:
  Quantize(float scale, int zero_point)
      : scale_(_mm256_set1_ps(scale)), zero_(_mm256_set1_ps(static_cast<float>(zero_point))) {}

  __m256i operator()(const float* from) const {
    const __m256 sign = _mm256_set1_ps(-0.0f), x = _mm256_div_ps(_mm256_loadu_ps(from), scale_);
    const __m256 size = _mm256_andnot_ps(sign, x), whole = _mm256_floor_ps(size);
    const __m256 up = _mm256_cmp_ps(_mm256_sub_ps(size, whole), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
    const __m256 rounded = _mm256_add_ps(whole, _mm256_and_ps(up, _mm256_set1_ps(1.0f)));
    const __m256 q = _mm256_add_ps(_mm256_or_ps(rounded, _mm256_and_ps(x, sign)), zero_);
    const __m256 low = _mm256_set1_ps(kLowest), high = _mm256_set1_ps(kHighest);
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(q, low), high));  // max(NaN, low) is low
  }

 private:
  __m256 scale_, zero_;
};

}  // namespace

KERNEL(quantize, f32, avx2) {
  const Quantize quantize(call.attrs.scale, call.attrs.zero_point);
  const float* x = call.in[0].f32();
  int8_t* y = call.y().i8();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 16 <= end; i += 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), to_int8(quantize(x + i), quantize(x + i + 8)));
    }
    if (i == end) return;
    float last[16] = {};
    int8_t bytes[16];
    std::copy(x + i, x + end, last);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), to_int8(quantize(last), quantize(last + 8)));
    std::copy(bytes, bytes + (end - i), y + i);
  });
  return Status::kOk;
}

KERNEL(dequantize, i8, avx2) {
  const float scale = call.attrs.scale;
  const int zero = call.attrs.zero_point;
  const int8_t* x = call.in[0].i8();
  float* y = call.y().f32();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const __m256i moved = _mm256_sub_epi32(load_eight(x + i), _mm256_set1_epi32(zero));
      _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_cvtepi32_ps(moved), _mm256_set1_ps(scale)));
    }
    for (; i < end; ++i) y[i] = static_cast<float>(x[i] - zero) * scale;
  });
  return Status::kOk;
}

KERNEL(quantized_add, i8, avx2) {
  const auto& attrs = call.attrs;
  const Scale scale_a = Scale::of(attrs.a_multiplier, attrs.a_shift);
  const Scale scale_b = Scale::of(attrs.b_multiplier, attrs.b_shift);
  const Scale scale_y = Scale::of(attrs.y_multiplier, attrs.y_shift);
  const Bound bound(stored_of(attrs));
  const __m256i zero_a = _mm256_set1_epi32(attrs.a_zero), zero_b = _mm256_set1_epi32(attrs.b_zero);
  const __m128i fine = _mm_cvtsi32_si128(attrs.left_shift);
  const auto eight = [&](const int8_t* from_a, const int8_t* from_b) {
    const __m256i fine_a = scale_a(_mm256_sll_epi32(_mm256_sub_epi32(load_eight(from_a), zero_a), fine));
    const __m256i fine_b = scale_b(_mm256_sll_epi32(_mm256_sub_epi32(load_eight(from_b), zero_b), fine));
    return bound(scale_y(_mm256_add_epi32(fine_a, fine_b)));
  };
  return binary_rows<16>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    store_sixteen(to, eight(from_a, from_b), eight(from_a + 8, from_b + 8));
  });
}

KERNEL(quantized_mul, i8, avx2) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  const __m256i zero_a = _mm256_set1_epi32(attrs.a_zero), zero_b = _mm256_set1_epi32(attrs.b_zero);
  const auto eight = [&](const int8_t* from_a, const int8_t* from_b) {
    const __m256i a = _mm256_sub_epi32(load_eight(from_a), zero_a), b = _mm256_sub_epi32(load_eight(from_b), zero_b);
    return bound(scale(_mm256_mullo_epi32(a, b)));
  };
  return binary_rows<16>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    store_sixteen(to, eight(from_a, from_b), eight(from_a + 8, from_b + 8));
  });
}

KERNEL(quantized_mean, i8, avx2) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  const __m256i zero = _mm256_set1_epi32(attrs.x_zero);
  return mean_columns(call, quantized_mean_i8_ref, [&](const int8_t* x, int64_t count, int64_t inner, int8_t* y) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t m = 0; m < count; ++m) sum = _mm256_add_epi32(sum, _mm256_sub_epi32(load_eight(x + m * inner), zero));
    const __m256i mean = bound(scale(sum));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), to_int8(mean, mean));
  });
}

// The table is 16 rows of 16 numbers. A shuffle gives 0 where bit 7 of its index is set: so do all rows but one.
KERNEL(quantized_lookup, i8, avx2) {
  __m256i rows[16];
  for (int r = 0; r < 16; ++r) {
    rows[r] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(call.in[1].i8()) + r));
  }
  const __m256i sixteen = _mm256_set1_epi8(16), high = _mm256_set1_epi8(0x70);
  return unary_rows<32>(call, [&](const int8_t* x, int8_t* y) {
    __m256i index = _mm256_xor_si256(load(x), _mm256_set1_epi8(-128)), found = _mm256_setzero_si256();
    for (const __m256i& row : rows) {
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(row, _mm256_adds_epu8(index, high)));
      index = _mm256_sub_epi8(index, sixteen);
    }
    store(y, found);
  });
}

}  // namespace lite
