#pragma once

// Squares of results of 3x3 convolutions, as Winograd's way computes them (Winograd 1980; Lavin and Gray 2016): what is
// done to a line of an image, of weights and of products, whose points are then multiplied one by one.

namespace lite {

// body(i) for i below N, lines of a square: one after the other in code where registers hold the square, so that it
// stays there; else in a loop.
template <class Squares, int N, typename Body>
inline void for_lines(Body body) {
  if constexpr (Squares::kSeen <= 4) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) body(i);
  } else {
#pragma GCC unroll 1
    for (int i = 0; i < N; ++i) body(i);
  }
}

// F(2x2, 3x3), by the points 0, 1, -1 and infinity: 16 multiplications for 4 results. Numbers are added and halved
// alone, so errors grow little.
template <class Isa>
struct SmallSquares {
  using V = typename Isa::V;
  static constexpr int kResults = 2, kSeen = 4;  // results of a line, and the pixels that they see

  static void image(const V (&d)[4], V (&to)[4]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }
  static void weights(const V (&g)[3], V (&to)[4]) {
    const V outer = (g[0] + g[2]) * 0.5f, inner = g[1] * 0.5f;
    to[0] = g[0];
    to[1] = outer + inner;
    to[2] = outer - inner;
    to[3] = g[2];
  }
  static void results(const V (&m)[4], V (&to)[2]) {
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
  }
};

// F(4x4, 3x3): 36 multiplications for 16 results. Of points that come in pairs, a = sqrt(1/2) and 1 / a have the
// smallest errors, by half those of 1 and 2 (Barabasz et al. 2018 compare such points): 0, a, -a, 1 / a, -1 / a and
// infinity.
template <class Isa>
struct LargeSquares {
  using V = typename Isa::V;
  static constexpr int kResults = 4, kSeen = 6;

  static void image(const V (&d)[6], V (&to)[6]) {
    to[0] = Isa::fma(d[2], Isa::all(-2.5f), d[0] + d[4]);
    pair(Isa::fma(d[2], Isa::all(-2.0f), d[4]), Isa::fma(d[1], Isa::all(-2.0f), d[3]), kA, to[1], to[2]);
    pair(Isa::fma(d[2], Isa::all(-0.5f), d[4]), Isa::fma(d[1], Isa::all(-0.5f), d[3]), 2 * kA, to[3], to[4]);
    to[5] = Isa::fma(d[3], Isa::all(-2.5f), d[1] + d[5]);
  }
  static void weights(const V (&g)[3], V (&to)[6]) {
    to[0] = g[0];
    pair((g[0] + g[2] * 0.5f) * (-2 / 3.0f), g[1], -2 / 3.0f * kA, to[1], to[2]);
    pair((g[0] + g[2] * 2.0f) * (1 / 6.0f), g[1], 1 / 3.0f * kA, to[3], to[4]);
    to[5] = g[2];
  }
  static void results(const V (&m)[6], V (&to)[4]) {
    const V even = m[1] + m[2], odd = m[1] - m[2], even2 = m[3] + m[4], odd2 = m[3] - m[4];
    to[0] = m[0] + even + even2;
    to[1] = Isa::fma(odd2, Isa::all(2 * kA), odd * kA);
    to[2] = Isa::fma(even2, Isa::all(2.0f), even * 0.5f);
    to[3] = Isa::fma(odd2, Isa::all(4 * kA), Isa::fma(odd, Isa::all(0.5f * kA), m[5]));
  }

 private:
  static constexpr float kA = 0.70710678f;

  // even + x odd and even - x odd.
  static void pair(V even, V odd, float x, V& plus, V& minus) {
    plus = Isa::fma(odd, Isa::all(x), even);
    minus = Isa::fma(odd, Isa::all(-x), even);
  }
};

}  // namespace lite
