// SHA-256 by the SHA extensions of x86-64: a file is hashed whole when it is opened, and this is
// several times faster than plain C++.
#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <atomic>

#include "core/sha256.h"

namespace lite {

bool sha256_has_instructions() {
  constexpr int kUnknown = -1;
  static std::atomic<int> known{kUnknown};  // to ask takes long where a hypervisor answers; all threads find the same
  int has = known.load(std::memory_order_relaxed);
  if (has == kUnknown) {
    unsigned a, b, c, d;
    has = __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
    known.store(has, std::memory_order_relaxed);
  }
  return has != 0;
}

__attribute__((target("sha,sse4.1"))) void sha256_blocks_x86(uint32_t state[8], const uint8_t* bytes, size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  // The instructions want the eight words as (a, b, e, f) and (c, d, g, h), highest first.
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);

  for (; blocks > 0; --blocks, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];  // the last sixteen words of the schedule
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i), big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4], before_last = w[(i + 2) % 4], next = w[(i + 1) % 4];
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, before_last, 4));
        now = _mm_sha256msg2_epu32(sum, last);
      }
      const __m128i k = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kSha256Constants) + i);
      const __m128i wk = _mm_add_epi32(now, k);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace lite

#endif
