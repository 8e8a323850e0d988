#pragma once

#include <cstddef>
#include <cstdint>

namespace lite {

// The SHA-256 hash of bytes that arrive in pieces (FIPS 180-4).
class Sha256 {
 public:
  static constexpr size_t kSize = 32;

  void update(const void* bytes, size_t size);
  void finish(uint8_t hash[kSize]);

  static void of(const void* bytes, size_t size, uint8_t hash[kSize]) {
    Sha256 sha;
    sha.update(bytes, size);
    sha.finish(hash);
  }

 private:
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[64] = {};  // bytes that do not fill a block yet
  uint64_t size_ = 0;       // bytes so far
};

// Mixes whole blocks of 64 bytes into `state`: in plain C++, and with the processor's own instructions.
void sha256_blocks(uint32_t state[8], const uint8_t* bytes, size_t blocks);
#if defined(__x86_64__)
bool sha256_has_instructions();
void sha256_blocks_x86(uint32_t state[8], const uint8_t* bytes, size_t blocks);
#endif

extern const uint32_t kSha256Constants[64];

}  // namespace lite
