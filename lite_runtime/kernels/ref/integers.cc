#include <cmath>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

// The remainder with the sign of a, or of b.
template <typename T>
T remainder(T a, T b, bool truncated) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    if (truncated) return rest;
    return rest == 0 ? std::copysign(rest, b) : (rest < 0) != (b < 0) ? rest + b : rest;
  } else {
    if (b == 0 || b == -1) return 0;
    const T rest = a % b;
    return !truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

template <typename T>
Status mod_of(const Call<mod_attrs>& call) {
  return binary<T, T>(call, [&](T a, T b) { return remainder(a, b, call.attrs.truncated != 0); });
}

template <typename T>
T joined(T a, T b, Bits kind) {
  using Unsigned = std::make_unsigned_t<T>;
  const bool inside = b >= 0 && b < static_cast<T>(8 * sizeof(T));
  switch (kind) {
    case Bits::conjunction:
      return a & b;
    case Bits::disjunction:
      return a | b;
    case Bits::difference:
      return a ^ b;
    case Bits::left:
      return inside ? static_cast<T>(static_cast<Unsigned>(a) << b) : 0;
    case Bits::right:
      return inside ? a >> b : a < 0 ? -1 : 0;
  }
  return 0;
}

template <typename T>
Status bitwise_of(const Call<bitwise_attrs>& call) {
  return binary<T, T>(call, [&](T a, T b) { return joined(a, b, call.attrs.kind); });
}

}  // namespace

CHECK(mod) { return check_binary(call); }
KERNEL(mod, f32, ref) { return mod_of<float>(call); }
KERNEL(mod, i32, ref) { return mod_of<int32_t>(call); }
KERNEL(mod, i64, ref) { return mod_of<int64_t>(call); }

CHECK(bitwise) { return check_binary(call); }
KERNEL(bitwise, i32, ref) { return bitwise_of<int32_t>(call); }
KERNEL(bitwise, i64, ref) { return bitwise_of<int64_t>(call); }

}  // namespace lite
