#pragma once

#include "core/array.h"
#include "exec/region.h"
#include "kernels/kernels.h"

namespace lite {

// What kernels made once of weights that never change, or of attributes, for a session: nodes with the same kernel,
// weights and attributes share it, in whatever entry they stand. Addresses stay.
class Prepared {
 public:
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared();

  // Room for a model of `weights` weights that has `model_size` bytes, which bounds what may be made. False: no memory.
  [[nodiscard]] bool allocate(size_t weights, size_t model_size);

  // What `kernel` makes of a call whose inputs from `first` on are weights, the first of them number `weight`. Null
  // where it is not there yet and either `may_make` is false, or there is no room: the kernel then runs without.
  const void* find(const Kernel& kernel, uint32_t weight, int first, const Tensor* in, int inputs, Tensor* out,
                   const void* attrs, size_t attrs_size, bool may_make);

  // The same of a kernel that makes it of its attributes.
  const void* find_of_attrs(const Kernel& kernel, const Tensor* in, Tensor* out, const void* attrs, size_t attrs_size,
                            bool may_make);

  size_t size() const { return size_; }  // bytes in all

 private:
  struct Item;
  Item* make(const Kernel& kernel, int first, const Tensor* in, int inputs, Tensor* out, const void* attrs,
             size_t attrs_size);

  Array<Item*> items_;  // lists by weight; what is made of attributes is in any of them, and in one more
  Region bytes_;        // of all of them, side by side: large pages hold many
  size_t size_ = 0, most_ = 0;
};

}  // namespace lite
