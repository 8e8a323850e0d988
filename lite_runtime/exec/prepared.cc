// What kernels made of constant weights or of attributes, by weight, kernel and attributes.

#include "exec/prepared.h"

#include <cstring>

#include "core/memory.h"

namespace lite {
namespace {

constexpr size_t kMostGrowth = 8, kLeast = size_t{1} << 20;  // bytes: so many times the model's, or this
constexpr int kMostSteps = 16;                               // that a list is searched

}  // namespace

struct Prepared::Item {
  const Kernel* kernel;
  Item* next;
  Array<unsigned char> attrs;
  Array<const void*> weights;  // where they lie
  Ints shape;                  // of the first one: the same bytes may be shown as several
  unsigned char* bytes = nullptr;

  // `from`: the first tensor that is a weight.
  bool is(const Kernel& of, const Tensor* from, const void* with, size_t attrs_size) const {
    if (kernel != &of || attrs.size() != attrs_size || std::memcmp(attrs.data(), with, attrs_size) != 0) return false;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != from[i].data) return false;
    }
    return weights.size() == 0 || shape == from[0].shape;
  }
};

Prepared::~Prepared() {
  for (Item* item : items_) {
    while (item != nullptr) {
      Item* next = item->next;
      destroy(item);
      item = next;
    }
  }
}

bool Prepared::allocate(size_t weights, size_t model_size) {
  most_ = model_size < SIZE_MAX / kMostGrowth ? kMostGrowth * model_size : SIZE_MAX;
  if (most_ < kLeast) most_ = kLeast;
  return items_.allocate(weights + 1);
}

const void* Prepared::find(const Kernel& kernel, uint32_t weight, int first, const Tensor* in, int inputs, Tensor* out,
                           const void* attrs, size_t attrs_size, bool may_make) {
  int steps = 0;
  for (Item* item = items_[weight]; item != nullptr && steps < kMostSteps; item = item->next, ++steps) {
    if (item->is(kernel, in + first, attrs, attrs_size)) return item->bytes;
  }
  Item* item = may_make ? make(kernel, first, in, inputs, out, attrs, attrs_size) : nullptr;
  if (item == nullptr) return nullptr;
  item->next = items_[weight];
  items_[weight] = item;
  return item->bytes;
}

const void* Prepared::find_of_attrs(const Kernel& kernel, const Tensor* in, Tensor* out, const void* attrs,
                                    size_t attrs_size, bool may_make) {
  uint32_t hash = 2166136261u;  // Fowler, Noll and Vo's: lists stay short
  for (size_t i = 0; i < attrs_size; ++i) hash = (hash ^ static_cast<const unsigned char*>(attrs)[i]) * 16777619u;
  const uint32_t list = hash % static_cast<uint32_t>(items_.size());
  return find(kernel, list, 1, in, 1, out, attrs, attrs_size, may_make);
}

Prepared::Item* Prepared::make(const Kernel& kernel, int first, const Tensor* in, int inputs, Tensor* out,
                               const void* attrs, size_t attrs_size) {
  const uint64_t size = kernel.prepare(in, inputs, out, attrs, nullptr);
  if (size > most_ - size_) return nullptr;
  Item* item = create<Item>();
  if (item == nullptr) return nullptr;
  if (item->attrs.allocate(attrs_size) && item->weights.allocate(static_cast<size_t>(inputs - first))) {
    item->bytes = bytes_.take(Arena::round_up(static_cast<size_t>(size)));
  }
  if (item->bytes == nullptr) {
    destroy(item);
    return nullptr;
  }
  item->kernel = &kernel;
  std::memcpy(item->attrs.data(), attrs, attrs_size);
  for (size_t i = 0; i < item->weights.size(); ++i) item->weights[i] = in[first + static_cast<int>(i)].data;
  if (first < inputs) item->shape = in[first].shape;
  kernel.prepare(in, inputs, out, attrs, item->bytes);
  size_ += size;
  return item;
}

}  // namespace lite
