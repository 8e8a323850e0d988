// The frame of a model file: hashes, places, padding (docs/model_file.md).

#include "format/container.h"

#include <atomic>
#include <cstddef>
#include <cstring>

namespace lite {
namespace {

constexpr char kMagic[] = "MSPNTAIL";
constexpr char kRootLabel[] = "mindspan model root 1";  // hashed with the zero byte that ends it
constexpr size_t kMaxIndexSize = size_t{1} << 30;       // FlatBuffers cannot address more than 2^31

constexpr size_t kLarge = size_t{1} << 20;  // files from here on are hashed by all threads

using ull = unsigned long long;

size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

void trailer_hash(const Trailer& trailer, uint8_t hash[Sha256::kSize]) {
  Sha256::of(&trailer, offsetof(Trailer, sha256), hash);
}

// The first segment whose hash is another one than the index says, or their number. Their places are in the file.
size_t first_damaged(const uint8_t* file, const format::Index& index, ThreadPool* pool) {
  const int64_t count = index.segments() ? index.segments()->size() : 0;
  std::atomic<int64_t> first{count};
  parallel_for(pool, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const format::Segment& segment = *index.segments()->Get(static_cast<uint32_t>(i));
      uint8_t hash[Sha256::kSize];
      Sha256::of(file + segment.offset(), segment.size(), hash);
      if (std::memcmp(hash, segment.sha256()->data(), sizeof hash) == 0) continue;
      int64_t known = first.load();
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
    }
  });
  return static_cast<size_t>(first.load());
}

}  // namespace

void root_hash(const uint8_t* file, uint64_t file_size, uint64_t index_size, uint8_t hash[Sha256::kSize]) {
  Sha256 sha;
  sha.update(kRootLabel, sizeof kRootLabel);
  sha.update(&file_size, sizeof file_size);
  sha.update(&index_size, sizeof index_size);
  sha.update(file, index_size);
  sha.finish(hash);
}

void write_trailer(uint8_t* file, size_t file_size, size_t index_size) {
  Trailer trailer = {};
  std::memcpy(trailer.magic, kMagic, sizeof trailer.magic);
  trailer.index_size = index_size;
  trailer.file_size = file_size;
  root_hash(file, file_size, index_size, trailer.root);
  trailer_hash(trailer, trailer.sha256);
  std::memcpy(file + file_size - sizeof trailer, &trailer, sizeof trailer);
}

Status check_trailer(const uint8_t* file, size_t file_size, size_t* index_size, Error& error) {
  Trailer trailer;
  uint8_t hash[Sha256::kSize];
  if (file_size < sizeof trailer + 8) {
    return error.set(Status::kBadFile, "file of %zu bytes: too short for a model", file_size);
  }
  std::memcpy(&trailer, file + file_size - sizeof trailer, sizeof trailer);
  if (std::memcmp(trailer.magic, kMagic, sizeof trailer.magic) != 0) {
    return error.set(Status::kBadFile, "trailer: no %s %zu bytes before the end; not a whole model file", kMagic,
                     sizeof trailer);
  }
  trailer_hash(trailer, hash);
  if (std::memcmp(hash, trailer.sha256, sizeof hash) != 0) {
    return error.set(Status::kBadFile, "trailer: damaged, its hash does not match");
  }
  if (trailer.file_size != file_size) {
    return error.set(Status::kBadFile, "trailer: says %llu bytes, the file has %zu",
                     static_cast<ull>(trailer.file_size), file_size);
  }
  if (trailer.index_size < 8 || trailer.index_size > file_size - sizeof trailer || trailer.index_size > kMaxIndexSize) {
    return error.set(Status::kBadFile, "trailer: index of %llu bytes in a file of %zu",
                     static_cast<ull>(trailer.index_size), file_size);
  }
  if (all_zero(trailer.signer, sizeof trailer.signer) != all_zero(trailer.signature, sizeof trailer.signature)) {
    return error.set(Status::kBadFile, "trailer: a key or a signature, but not both");
  }
  root_hash(file, file_size, trailer.index_size, hash);
  if (std::memcmp(hash, trailer.root, sizeof hash) != 0) {
    return error.set(Status::kBadFile, "index: damaged, the root hash does not match");
  }
  *index_size = trailer.index_size;
  return Status::kOk;
}

Status check_segments(const uint8_t* file, size_t file_size, size_t index_size, const format::Index& index,
                      ThreadPool* pool, Error& error) {
  const size_t trailer_at = file_size - sizeof(Trailer);
  const size_t count = index.segments() ? index.segments()->size() : 0;
  size_t end = index_size;
  for (size_t i = 0; i < count; ++i) {
    const format::Segment& segment = *index.segments()->Get(static_cast<uint32_t>(i));
    const size_t begin = round_up(end, kSegmentAlignment);
    if (segment.offset() != begin || begin > trailer_at || segment.size() > trailer_at - begin) {
      return error.set(Status::kBadFile, "segment %zu: [%llu, +%llu); want it at %zu and before the trailer at %zu", i,
                       static_cast<ull>(segment.offset()), static_cast<ull>(segment.size()), begin, trailer_at);
    }
    if (!all_zero(file + end, begin - end)) {
      return error.set(Status::kBadFile, "padding before segment %zu: want zeros", i);
    }
    end = begin + segment.size();
  }
  if (round_up(end, 8) != trailer_at || !all_zero(file + end, trailer_at - end)) {
    return error.set(Status::kBadFile, "trailer at %zu: want it at %zu, zeros before it", trailer_at, round_up(end, 8));
  }
  const size_t damaged = first_damaged(file, index, file_size < kLarge ? nullptr : pool);
  if (damaged == count) return Status::kOk;
  return error.set(Status::kBadFile, "segment %zu: damaged, its hash does not match", damaged);
}

bool all_zero(const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

}  // namespace lite
