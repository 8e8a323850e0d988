#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

struct Words {
  uint32_t data[4];
};

// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011): 128 random bits for a counter and a key.
Words philox(uint64_t counter, uint32_t key0, uint32_t key1) {
  Words x = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x.data[0], b = uint64_t{0xCD9E8D57} * x.data[2];
    x = {{static_cast<uint32_t>(b >> 32) ^ x.data[1] ^ key0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ x.data[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

}  // namespace

CHECK(random_uniform) {
  const Tensor& key = call.in[0];
  return call.inputs == 1 && key.dtype == DType::i32 && key.rank() == 1 && key.shape[0] == 2 &&
         call.y().dtype == DType::f32 && call.y().shape == call.attrs.shape;
}
KERNEL(random_uniform, i32, ref) {
  const uint32_t* key = call.in[0].as<uint32_t>();
  float* y = call.y().f32();
  const int64_t n = call.y().elements();
  Words words = {};
  for (int64_t i = 0; i < n; ++i) {
    if (i % 4 == 0) words = philox(static_cast<uint64_t>(i / 4), key[0], key[1]);
    y[i] = static_cast<float>(words.data[i % 4] >> 8) * (1.0f / (1 << 24));
  }
  return Status::kOk;
}

}  // namespace lite
