// SHA-256 in plain C++, and the choice of the processor's instructions where there are some.

#include "core/sha256.h"

#include <algorithm>
#include <cstring>

namespace lite {

const uint32_t kSha256Constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

namespace {

uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t big_endian(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

void blocks_here(uint32_t state[8], const uint8_t* bytes, size_t blocks) {
#if defined(__x86_64__)
  if (sha256_has_instructions()) return sha256_blocks_x86(state, bytes, blocks);
#endif
  sha256_blocks(state, bytes, blocks);
}

}  // namespace

void sha256_blocks(uint32_t state[8], const uint8_t* bytes, size_t blocks) {
  for (; blocks > 0; --blocks, bytes += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
      const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Constants[i] + w[i];
      const uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

void Sha256::update(const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const size_t kept = size_ % 64;
  size_ += size;
  if (kept > 0) {
    const size_t part = std::min(size, 64 - kept);
    std::memcpy(block_ + kept, bytes, part);
    bytes += part, size -= part;
    if (kept + part < 64) return;
    blocks_here(state_, block_, 1);
  }
  blocks_here(state_, bytes, size / 64);
  if (size % 64 > 0) std::memcpy(block_, bytes + size / 64 * 64, size % 64);
}

void Sha256::finish(uint8_t hash[kSize]) {
  const uint64_t bits = size_ * 8;
  const size_t zeros = (size_ % 64 < 56 ? 56 : 120) - size_ % 64;
  uint8_t tail[72] = {0x80};
  for (int i = 0; i < 8; ++i) tail[zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(tail, zeros + 8);
  for (int i = 0; i < 32; ++i) hash[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
}

}  // namespace lite
