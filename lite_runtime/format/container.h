#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "gen/model_generated.h"

// The outside of a model file (docs/model_file.md): index, segments, padding, trailer, hashes.

namespace lite {

constexpr size_t kSegmentAlignment = 64;

// The last bytes of a file, as they lie there.
struct Trailer {
  char magic[8];
  uint64_t index_size, file_size;
  uint8_t root[Sha256::kSize];
  uint8_t signer[32], signature[64];  // zeros: not signed
  uint8_t sha256[Sha256::kSize];      // of all bytes above
};
static_assert(sizeof(Trailer) == 184, "the layout of a file");

// The hash that stands for a whole file: of its sizes and its index, which holds the hashes of the segments.
void root_hash(const uint8_t* file, uint64_t file_size, uint64_t index_size, uint8_t hash[Sha256::kSize]);

// Writes a trailer without a signature behind an index and segments that are in place.
void write_trailer(uint8_t* file, size_t file_size, size_t index_size);

// Checks the trailer and the root hash, and says how long the index is.
Status check_trailer(const uint8_t* file, size_t file_size, size_t* index_size, Error& error);

// Checks that index, segments and trailer follow one another as they must, that what lies between them is zero,
// and the hash of every segment, those of large files on the pool's threads. The index must have passed the FlatBuffers
// verifier.
Status check_segments(const uint8_t* file, size_t file_size, size_t index_size, const format::Index& index,
                      ThreadPool* pool, Error& error);

// Whether `size` bytes are all zero.
bool all_zero(const uint8_t* bytes, size_t size);

}  // namespace lite
