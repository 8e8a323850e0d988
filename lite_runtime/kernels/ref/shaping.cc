#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/half.h"
#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

// Most of these only move elements: they work on bytes and do not care what the elements are.

namespace lite {
namespace {

void clear(const Tensor& y) {
  if (y.size_bytes() > 0) std::memset(y.data, 0, y.size_bytes());
}

}  // namespace

CHECK(reshape) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && call.y().shape == call.attrs.shape &&
         call.in[0].elements() == call.y().elements();
}
KERNEL(reshape, any, ref) { return copy_all(call); }

CHECK(broadcast_to) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && call.y().shape == call.attrs.shape &&
         stretches_to(call.in[0].shape, call.y().shape);
}
KERNEL(broadcast_to, any, ref) {
  const Tensor &x = call.in[0], &y = call.y();
  const Strides from = strides_of(x.shape), to = strides_of(y.shape);
  const int extra = y.rank() - x.rank();
  Walk walk;
  for (int i = 0; i < y.rank(); ++i) {
    const bool stretched = i < extra || x.shape[i - extra] == 1;
    walk.add(y.shape[i], stretched ? 0 : from[i - extra], to[i]);
  }
  if (y.elements() > 0) move(walk, x, 0, y, 0);
  return Status::kOk;
}

CHECK(transpose) {
  const Tensor &x = call.in[0], &y = call.y();
  const Ints& perm = call.attrs.perm;
  bool taken[kMaxRank] = {};
  if (call.inputs != 1 || x.dtype != y.dtype || perm.size != x.rank() || y.rank() != x.rank()) return false;
  for (int i = 0; i < perm.size; ++i) {
    if (!is_axis(perm[i], x) || taken[perm[i]] || y.shape[i] != x.shape[perm[i]]) return false;
    taken[perm[i]] = true;
  }
  return true;
}
KERNEL(transpose, any, ref) {
  const Tensor &x = call.in[0], &y = call.y();
  const Strides from = strides_of(x.shape), to = strides_of(y.shape);
  Walk walk;
  for (int i = 0; i < y.rank(); ++i) walk.add(y.shape[i], from[call.attrs.perm[i]], to[i]);
  if (y.elements() > 0) move(walk, x, 0, y, 0);
  return Status::kOk;
}

CHECK(concat) {
  const Tensor& y = call.y();
  const int axis = call.attrs.axis;
  if (call.inputs < 1 || !is_axis(axis, y)) return false;
  int64_t total = 0;
  for (int i = 0; i < call.inputs; ++i) {
    const Tensor& x = call.in[i];
    if (x.dtype != y.dtype || x.rank() != y.rank()) return false;
    for (int k = 0; k < y.rank(); ++k) {
      if (k != axis && x.shape[k] != y.shape[k]) return false;
    }
    total += x.shape[axis];
  }
  return total == y.shape[axis];
}
KERNEL(concat, any, ref) {
  const Tensor& y = call.y();
  const int axis = call.attrs.axis;
  const int64_t outer = product(y.shape, 0, axis), inner = product(y.shape, axis + 1, y.rank());
  int64_t begin = 0;
  for (int i = 0; i < call.inputs; ++i) {
    const int64_t part = call.in[i].shape[axis] * inner;
    Walk walk;
    walk.add(outer, part, y.shape[axis] * inner);
    walk.add(part, 1, 1);
    if (outer * part > 0) move(walk, call.in[i], 0, y, begin);
    begin += part;
  }
  return Status::kOk;
}

namespace {

// Whether `part` is the shape of what begin, end and step take of `whole`.
template <typename Attrs>
bool slices(const Ints& whole, const Ints& part, const Attrs& a) {
  const int rank = whole.size;
  if (part.size != rank || a.begin.size != rank || a.end.size != rank || a.step.size != rank) return false;
  for (int i = 0; i < rank; ++i) {
    const int64_t begin = a.begin[i], end = a.end[i], step = a.step[i];
    if (step == 0) return false;
    const int64_t length = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step;
    const int64_t n = std::max<int64_t>((length + stride - 1) / stride, 0);
    if (n != part[i]) return false;
    if (n > 0 && (begin < 0 || begin >= whole[i] || begin + (n - 1) * step < 0 || begin + (n - 1) * step >= whole[i])) {
      return false;
    }
  }
  return true;
}

// The walk from the elements of `part` to those of `whole`, which starts at `at`.
template <typename Attrs>
Walk slice_walk(const Ints& whole, const Ints& part, const Attrs& a, int64_t* at) {
  const Strides from = strides_of(part), to = strides_of(whole);
  Walk walk;
  *at = 0;
  for (int i = 0; i < whole.size; ++i) {
    *at += a.begin[i] * to[i];
    walk.add(part[i], from[i], a.step[i] * to[i]);
  }
  return walk;
}

}  // namespace

CHECK(slice) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && slices(call.in[0].shape, call.y().shape, call.attrs);
}
KERNEL(slice, any, ref) {
  int64_t at;
  Walk walk = slice_walk(call.in[0].shape, call.y().shape, call.attrs, &at);
  std::swap(walk.from, walk.to);
  if (call.y().elements() > 0) move(walk, call.in[0], at, call.y(), 0);
  return Status::kOk;
}

CHECK(slice_dx) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && call.y().shape == call.attrs.shape &&
         slices(call.y().shape, call.in[0].shape, call.attrs);
}
KERNEL(slice_dx, any, ref) {
  int64_t at;
  const Walk walk = slice_walk(call.y().shape, call.in[0].shape, call.attrs, &at);
  clear(call.y());
  if (call.in[0].elements() > 0) move(walk, call.in[0], 0, call.y(), at);
  return Status::kOk;
}

namespace {

// Whether `padded` is `whole` with the attributes' widths around it.
template <typename Attrs>
bool pads(const Ints& whole, const Ints& padded, const Attrs& a) {
  if (padded.size != whole.size || a.before.size != whole.size || a.after.size != whole.size) return false;
  for (int i = 0; i < whole.size; ++i) {
    const int64_t before = a.before[i], after = a.after[i], widest = std::max(before, after);
    if (before < 0 || after < 0 || before + whole[i] + after != padded[i]) return false;
    if (widest > 0 && a.mode == PadMode::reflect && widest >= whole[i]) return false;
    if (widest > 0 && a.mode == PadMode::edge && whole[i] == 0) return false;
  }
  return true;
}

// The element of the whole tensor that element `index` of the padded one is a copy of, or -1.
template <typename Attrs>
int64_t copy_of(const Ints& whole, const Ints& padded, const Attrs& a, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = whole.size - 1; i >= 0; --i) {
    const int64_t last = whole[i] - 1;
    int64_t at = index % padded[i] - a.before[i];
    index /= padded[i];
    if (a.mode == PadMode::reflect) at = at < 0 ? -at : at > last ? 2 * last - at : at;
    if (a.mode == PadMode::edge) at = std::clamp<int64_t>(at, 0, last);
    if (at < 0 || at > last) return -1;
    offset += at * stride;
    stride *= whole[i];
  }
  return offset;
}

}  // namespace

// Conversions between element types: see the reference of cast.
namespace {

struct Truth {
  uint8_t byte;
};

template <typename T, typename F>
T limited(F x) {  // both limits of T are compared as F, where the upper one may be rounded up
  if (x != x) return 0;
  if (x <= static_cast<F>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (x >= static_cast<F>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}

template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_same_v<From, Half>) {
    return convert<To>(to_float(x));
  } else if constexpr (std::is_same_v<From, Truth>) {
    return convert<To>(static_cast<int32_t>(x.byte != 0));
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {x != 0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return limited<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// f(a value of the C++ type of `dtype`)
template <typename F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::none:
    case DType::tape:
      return;
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(Half{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::boolean:
      return f(Truth{});
    case DType::f64:
      return f(double{});
  }
}

}  // namespace

CHECK(cast) {
  const DType to = call.attrs.to == Element::i16 ? DType::i16 : static_cast<DType>(static_cast<int>(call.attrs.to) + 1);
  return call.inputs == 1 && same_shape(call.in[0], call.y()) && call.in[0].present() && call.y().present() &&
         to == call.y().dtype;
}
KERNEL(cast, any, ref) {
  const int64_t n = call.y().elements();
  with_type(call.in[0].dtype, [&](auto from) {
    with_type(call.y().dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* x = call.in[0].as<From>();
      To* y = call.y().as<To>();
      for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
    });
  });
  return Status::kOk;
}

CHECK(pad) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && pads(call.in[0].shape, call.y().shape, call.attrs);
}
KERNEL(pad, any, ref) {
  const Tensor &x = call.in[0], &y = call.y();
  const int64_t n = y.elements();
  if (call.attrs.mode == PadMode::constant) {
    with_type(y.dtype, [&](auto element) {
      using T = decltype(element);
      std::fill_n(y.as<T>(), n, convert<T>(call.attrs.value));
    });
    const Strides from = strides_of(x.shape), to = strides_of(y.shape);
    Walk walk;
    int64_t at = 0;
    for (int i = 0; i < x.rank(); ++i) {
      at += call.attrs.before[i] * to[i];
      walk.add(x.shape[i], from[i], to[i]);
    }
    if (x.elements() > 0) move(walk, x, 0, y, at);
    return Status::kOk;
  }
  with_element(size_of(y.dtype), [&](auto element) {
    using T = decltype(element);
    for (int64_t i = 0; i < n; ++i) y.as<T>()[i] = x.as<T>()[copy_of(x.shape, y.shape, call.attrs, i)];
  });
  return Status::kOk;
}

CHECK(pad_dx) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && pads(call.y().shape, call.in[0].shape, call.attrs);
}
KERNEL(pad_dx, f32, ref) {
  const Tensor &g = call.in[0], &y = call.y();
  const int64_t n = g.elements();
  clear(y);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = copy_of(y.shape, g.shape, call.attrs, i);
    if (at >= 0) y.f32()[at] += g.f32()[i];
  }
  return Status::kOk;
}

}  // namespace lite
