#include <algorithm>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

// Elements and parts at places that are data: index tensors are checked while they are read.

namespace lite {
namespace {

// `index` counted from the front of an axis, or -1 where it lies outside.
int64_t placed(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

// f(offset in x, number of the index) for each element of indices that replace the one along `axis`
template <typename F>
Status each_element(const Tensor& x, const Tensor& indices, int axis, F f) {
  const Strides stride = strides_of(x.shape);
  Walk walk;
  for (int i = 0; i < x.rank(); ++i) walk.add(indices.shape[i], i == axis ? 0 : stride[i], 0);
  const int32_t* index = indices.i32();
  Status status = Status::kOk;
  int64_t n = 0;
  for_each(walk, [&](int64_t base, int64_t) {
    const int64_t at = placed(index[n], x.shape[axis]);
    if (at < 0) status = Status::kBadIndex;
    if (status == Status::kOk) f(base + at * stride[axis], n);
    ++n;
  });
  return status;
}

// f(offset in x, number of the part) for each tuple of indices; parts are as long as `part`
template <typename F>
Status each_part(const Tensor& x, const Tensor& indices, int batch, int64_t part, F f) {
  const int depth = indices.dim(-1);
  const int64_t tuples = indices.elements() / depth, per_batch = product(indices.shape, batch, indices.rank() - 1);
  const int64_t whole = product(x.shape, batch, x.rank());
  const int32_t* index = indices.i32();
  for (int64_t n = 0; n < tuples; ++n, index += depth) {
    int64_t at = 0;
    for (int k = 0; k < depth; ++k) {
      const int64_t own = placed(index[k], x.shape[batch + k]);
      if (own < 0) return Status::kBadIndex;
      at = at * x.shape[batch + k] + own;
    }
    f(n / per_batch * whole + at * part, n);
  }
  return Status::kOk;
}

// to[i] = from[i], or both joined
template <typename T>
void join(T* to, const T* from, int64_t n, Reduction reduction) {
  using Sum = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>;
  using U = typename Sum::type;  // integers wrap around
  for (int64_t i = 0; i < n; ++i) {
    const T a = to[i], b = from[i];
    switch (reduction) {
      case Reduction::none:
        to[i] = b;
        break;
      case Reduction::add:
        to[i] = static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
        break;
      case Reduction::mul:
        to[i] = static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
        break;
      case Reduction::maximum:
        to[i] = a > b || a != a ? a : b;
        break;
      case Reduction::minimum:
        to[i] = a < b || a != a ? a : b;
        break;
    }
  }
}

// y[at..] = the n elements of `updates` from `from` on, or both joined
void write(const Tensor& y, int64_t at, const Tensor& updates, int64_t from, int64_t n, Reduction reduction) {
  if (reduction == Reduction::none) {
    const size_t size = size_of(y.dtype);
    std::memcpy(y.as<char>() + at * size, updates.as<char>() + from * size, n * size);
    return;
  }
  const auto typed = [&](auto element) {
    using T = decltype(element);
    join(y.as<T>() + at, updates.as<T>() + from, n, reduction);
  };
  switch (y.dtype) {
    case DType::f32:
      return typed(float{});
    case DType::f64:
      return typed(double{});
    case DType::i32:
      return typed(int32_t{});
    case DType::i64:
      return typed(int64_t{});
    default:
      return;
  }
}

// Whether indices go with x: of its rank, and no larger but along the axis.
bool fits(const Tensor& x, const Tensor& indices, int axis) {
  if (!is_axis(axis, x) || indices.dtype != DType::i32 || indices.rank() != x.rank()) return false;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis && indices.shape[i] > x.shape[i]) return false;
  }
  return true;
}

// Whether `parts` is what tuples of indices take of x.
bool fits_parts(const Tensor& x, const Tensor& indices, const Tensor& parts, int batch) {
  const int rank = indices.rank();
  if (batch < 0 || rank <= batch || indices.dtype != DType::i32 || x.dtype != parts.dtype) return false;
  const int depth = indices.dim(-1);
  if (depth < 1 || depth > x.rank() - batch || rank - 1 + x.rank() - batch - depth > kMaxRank) return false;
  Ints want;
  for (int i = 0; i < rank - 1; ++i) {
    if (i < batch && indices.shape[i] != x.shape[i]) return false;
    want.data[want.size++] = indices.shape[i];
  }
  for (int i = batch + depth; i < x.rank(); ++i) want.data[want.size++] = x.shape[i];
  return parts.shape == want;
}

bool can_join(const Tensor& x, Reduction reduction) {
  return reduction == Reduction::none || x.dtype == DType::f32 || x.dtype == DType::f64 || x.dtype == DType::i32 ||
         x.dtype == DType::i64;
}

int64_t part_of(const Tensor& x, const Tensor& indices, int batch) {
  return product(x.shape, batch + indices.dim(-1), x.rank());
}

}  // namespace

CHECK(gather_elements) {
  return call.inputs == 2 && call.in[0].dtype == call.y().dtype && fits(call.in[0], call.in[1], call.attrs.axis) &&
         same_shape(call.in[1], call.y());
}
KERNEL(gather_elements, any, ref) {
  const Tensor &x = call.in[0], &y = call.y();
  Status status = Status::kOk;
  with_element(size_of(y.dtype), [&](auto element) {
    using T = decltype(element);
    status = each_element(x, call.in[1], call.attrs.axis, [&](int64_t at, int64_t n) { y.as<T>()[n] = x.as<T>()[at]; });
  });
  return status;
}

CHECK(scatter_elements) {
  const Tensor& x = call.in[0];
  return call.inputs == 3 && fits(x, call.in[1], call.attrs.axis) && same_shape(call.in[1], call.in[2]) &&
         same_shape(x, call.y()) && x.dtype == call.y().dtype && x.dtype == call.in[2].dtype &&
         can_join(x, call.attrs.reduction);
}
KERNEL(scatter_elements, any, ref) {
  copy_all(call);
  return each_element(call.y(), call.in[1], call.attrs.axis,
                      [&](int64_t at, int64_t n) { write(call.y(), at, call.in[2], n, 1, call.attrs.reduction); });
}

CHECK(gather_nd) { return call.inputs == 2 && fits_parts(call.in[0], call.in[1], call.y(), call.attrs.batch_dims); }
KERNEL(gather_nd, any, ref) {
  const int batch = call.attrs.batch_dims;
  const int64_t part = part_of(call.in[0], call.in[1], batch);
  const size_t bytes = part * size_of(call.y().dtype), size = size_of(call.y().dtype);
  return each_part(call.in[0], call.in[1], batch, part, [&](int64_t at, int64_t n) {
    std::memcpy(call.y().as<char>() + n * bytes, call.in[0].as<char>() + at * size, bytes);
  });
}

CHECK(scatter_nd) {
  const Tensor& x = call.in[0];
  return call.inputs == 3 && fits_parts(x, call.in[1], call.in[2], call.attrs.batch_dims) && same_shape(x, call.y()) &&
         x.dtype == call.y().dtype && can_join(x, call.attrs.reduction);
}
KERNEL(scatter_nd, any, ref) {
  copy_all(call);
  const int64_t part = part_of(call.y(), call.in[1], call.attrs.batch_dims);
  return each_part(call.y(), call.in[1], call.attrs.batch_dims, part, [&](int64_t at, int64_t n) {
    write(call.y(), at, call.in[2], n * part, part, call.attrs.reduction);
  });
}

}  // namespace lite
