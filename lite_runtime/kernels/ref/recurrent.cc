#include "kernels/recurrent.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"

namespace lite {
namespace {

bool is_shape(const Tensor& x, std::initializer_list<int> sizes) {
  if (x.rank() != static_cast<int>(sizes.size())) return false;
  int i = 0;
  for (int size : sizes) {
    if (x.shape[i++] != size) return false;
  }
  return true;
}

bool is_missing_or(const Tensor* x, std::initializer_list<int> sizes) { return x == nullptr || is_shape(*x, sizes); }

// x: [n,t,parts*h] with at least one step, w: [gates*h,h]
bool fits(const Tensor& x, const Tensor& w, int gates, int parts) {
  if (x.rank() != 3 || w.rank() != 2) return false;
  const int64_t h = w.dim(1);
  return x.dim(1) > 0 && w.dim(0) == gates * h && x.dim(2) == parts * h;
}

float sigmoid(float x) { return activate(Activation::sigmoid, x); }

// u = w h for one example: u [rows], w [rows,h]
void product(const float* w, const float* h, int64_t rows, int64_t size, float* u) {
  for (int64_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < size; ++j) sum += w[i * size + j] * h[j];
    u[i] = sum;
  }
}

// y += w^T u for one example
void add_transposed_product(const float* w, const float* u, int64_t rows, int64_t size, float* y) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < size; ++j) y[j] += w[i * size + j] * u[i];
  }
}

}  // namespace

CHECK(linear_recurrence) {
  if (!has_inputs(call, 4, 4)) return false;
  const Tensor &b = call.in[0], &d = call.in[1], &p = call.in[2], &w = call.in[3];
  if (b.rank() != 4 || p.rank() != 5 || w.rank() != 2 || call.y().shape != b.shape) return false;
  const int n = b.dim(0), t = b.dim(1), s = b.dim(2), h = b.dim(3), k = p.dim(3);
  return s > 0 && is_shape(d, {n, t, s, s, h}) && is_shape(p, {n, t, s, k, h}) && w.dim(1) == h &&
         w.dim(0) == static_cast<int64_t>(k) * h;
}
KERNEL(linear_recurrence, f32, ref) {
  const Tensor &b = call.in[0], &p = call.in[2];
  const float* w = call.in[3].f32();
  const int64_t n = b.dim(0), steps = b.dim(1), s = b.dim(2), h = b.dim(3), k = p.dim(3);
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t step = 0; step < steps; ++step) {
      const bool back = call.attrs.transposed != 0;
      const int64_t t = back ? steps - 1 - step : step, from = back ? t + 1 : t - 1, by = back ? from : t;
      float* y = call.y().f32() + (e * steps + t) * s * h;
      std::copy_n(b.f32() + (e * steps + t) * s * h, s * h, y);
      if (step == 0) continue;
      const float* last = call.y().f32() + (e * steps + from) * s * h;
      const float* d_t = call.in[1].f32() + (e * steps + by) * s * s * h;
      const float* p_t = p.f32() + (e * steps + by) * s * k * h;
      for (int64_t j = 0; j < s; ++j) {
        for (int64_t i = 0; i < s; ++i) {
          const int64_t to = back ? i : j, of = back ? j : i;
          for (int64_t c = 0; c < h; ++c) y[to * h + c] += d_t[(j * s + i) * h + c] * last[of * h + c];
        }
      }
      for (int64_t row = 0; row < k * h; ++row) {  // row of w; its gate is row / h
        float u = 0;
        if (back) {
          for (int64_t j = 0; j < s; ++j) u += p_t[j * k * h + row] * last[j * h + row % h];
          for (int64_t c = 0; c < h; ++c) y[c] += w[row * h + c] * u;
        } else {
          for (int64_t c = 0; c < h; ++c) u += w[row * h + c] * last[c];
          for (int64_t j = 0; j < s; ++j) y[j * h + row % h] += p_t[j * k * h + row] * u;
        }
      }
    }
  }
  return Status::kOk;
}

CHECK(lstm) {
  if (!has_inputs(call, 4, 4, DType::f32, 3)) return false;
  const Tensor &x = call.in[0], &w = call.in[1];
  if (!fits(x, w, 4, 4)) return false;
  const int n = x.dim(0), t = x.dim(1), h = w.dim(1);
  return is_shape(call.in[2], {n, h}) && is_shape(call.in[3], {n, h}) && is_shape(call.out[0], {n, t, h}) &&
         is_shape(call.out[1], {n, t, h}) && call.out[2].shape == x.shape;
}
KERNEL(lstm, f32, ref) {
  const Steps s = steps_of(call.out[0], call.attrs.reverse != 0);
  const float *x = call.in[0].f32(), *w = call.in[1].f32();
  float *hidden = call.out[0].f32(), *cell = call.out[1].f32(), *gates = call.out[2].f32();
  for (int64_t e = 0; e < s.n; ++e) {
    for (int64_t step = 0; step < s.t; ++step) {
      const float *h0 = s.before(step, e, hidden, call.in[2].f32()), *c0 = s.before(step, e, cell, call.in[3].f32());
      const int64_t at = s.at(step, e);
      float* a = gates + at * 4 * s.h;
      product(w, h0, 4 * s.h, s.h, a);
      for (int64_t j = 0; j < 4 * s.h; ++j) {
        const float sum = a[j] + x[at * 4 * s.h + j];
        a[j] = j / s.h == 2 ? std::tanh(sum) : sigmoid(sum);
      }
      for (int64_t j = 0; j < s.h; ++j) {
        const float c = a[s.h + j] * c0[j] + a[j] * a[2 * s.h + j];
        cell[at * s.h + j] = c;
        hidden[at * s.h + j] = a[3 * s.h + j] * std::tanh(c);
      }
    }
  }
  return Status::kOk;
}

CHECK(lstm_dx) {
  if (!has_inputs(call, 5, 7, DType::f32, 3)) return false;
  const Tensor &gates = call.in[0], &w = call.in[2];
  if (!fits(gates, w, 4, 4)) return false;
  const int n = gates.dim(0), t = gates.dim(1), h = w.dim(1);
  const Tensor* ggates = call.optional(6);
  return is_shape(call.in[1], {n, t, h}) && is_shape(call.in[3], {n, h}) && is_shape(call.in[4], {n, t, h}) &&
         is_missing_or(call.optional(5), {n, t, h}) && (ggates == nullptr || ggates->shape == gates.shape) &&
         call.out[0].shape == gates.shape && is_shape(call.out[1], {n, h}) && is_shape(call.out[2], {n, h});
}
KERNEL(lstm_dx, f32, ref) {
  const Steps s = steps_of(call.in[1], call.attrs.reverse != 0);
  const float *cell = call.in[1].f32(), *w = call.in[2].f32(), *g = call.in[4].f32();
  const float* gc = call.optional(5) != nullptr ? call.optional(5)->f32() : nullptr;
  const float* direct = call.optional(6) != nullptr ? call.optional(6)->f32() : nullptr;
  const int64_t h = s.h;
  for (int64_t e = 0; e < s.n; ++e) {
    float *dh = call.out[1].f32() + e * h, *dc = call.out[2].f32() + e * h;
    std::fill_n(dh, h, 0.0f);
    std::fill_n(dc, h, 0.0f);
    for (int64_t step = s.t - 1; step >= 0; --step) {
      const int64_t at = s.at(step, e);
      const float *a = call.in[0].f32() + at * 4 * h, *old = s.before(step, e, cell, call.in[3].f32());
      const float* more = direct != nullptr ? direct + at * 4 * h : nullptr;
      float* dx = call.out[0].f32() + at * 4 * h;
      for (int64_t j = 0; j < h; ++j) {
        const float i = a[j], f = a[h + j], fresh = a[2 * h + j], o = a[3 * h + j];
        const float bent = std::tanh(cell[at * h + j]), of_h = dh[j] + g[at * h + j];
        const float of_c = dc[j] + of_h * o * (1 - bent * bent) + (gc != nullptr ? gc[at * h + j] : 0);
        const float by_gate[4] = {of_c * fresh, of_c * old[j], of_c * i, of_h * bent};
        const float slope[4] = {i * (1 - i), f * (1 - f), 1 - fresh * fresh, o * (1 - o)};
        for (int k = 0; k < 4; ++k) {
          dx[k * h + j] = (by_gate[k] + (more != nullptr ? more[k * h + j] : 0)) * slope[k];
        }
        dh[j] = 0;
        dc[j] = of_c * f;
      }
      add_transposed_product(w, dx, 4 * h, h, dh);
    }
  }
  return Status::kOk;
}

CHECK(gru) {
  if (!has_inputs(call, 3, 4, DType::f32, 2)) return false;
  const Tensor &x = call.in[0], &w = call.in[1];
  if (!fits(x, w, 3, 3)) return false;
  const int n = x.dim(0), t = x.dim(1), h = w.dim(1);
  return is_shape(call.in[2], {n, h}) && is_missing_or(call.optional(3), {h}) && is_shape(call.out[0], {n, t, h}) &&
         call.out[1].rank() == 3 && fits(call.out[1], w, 3, 4) && call.out[1].dim(0) == n && call.out[1].dim(1) == t;
}
KERNEL(gru, f32, ref) {
  const Steps s = steps_of(call.out[0], call.attrs.reverse != 0);
  const float* b = call.optional(3) != nullptr ? call.optional(3)->f32() : nullptr;
  const int64_t h = s.h;
  for (int64_t e = 0; e < s.n; ++e) {
    for (int64_t step = 0; step < s.t; ++step) {
      const float* h0 = s.before(step, e, call.out[0].f32(), call.in[2].f32());
      const int64_t at = s.at(step, e);
      const float* x = call.in[0].f32() + at * 3 * h;
      float *y = call.out[0].f32() + at * h, *gates = call.out[1].f32() + at * 4 * h;
      product(call.in[1].f32(), h0, 2 * h, h, gates);  // r and z, then v where it stays
      product(call.in[1].f32() + 2 * h * h, h0, h, h, gates + 3 * h);
      for (int64_t j = 0; j < h; ++j) {
        const float r = sigmoid(x[j] + gates[j]), z = sigmoid(x[h + j] + gates[h + j]);
        const float v = gates[3 * h + j] + (b != nullptr ? b[j] : 0), fresh = std::tanh(x[2 * h + j] + r * v);
        gates[j] = r;
        gates[h + j] = z;
        gates[2 * h + j] = fresh;
        gates[3 * h + j] = v;
        y[j] = (1 - z) * fresh + z * h0[j];
      }
    }
  }
  return Status::kOk;
}

CHECK(gru_dx) {
  if (!has_inputs(call, 5, 6, DType::f32, 3)) return false;
  const Tensor &gates = call.in[0], &w = call.in[2];
  if (!fits(gates, w, 3, 4)) return false;
  const int n = gates.dim(0), t = gates.dim(1), h = w.dim(1);
  const Tensor *ggates = call.optional(5), &dx = call.out[0];
  return is_shape(call.in[1], {n, t, h}) && is_shape(call.in[3], {n, h}) && is_shape(call.in[4], {n, t, h}) &&
         (ggates == nullptr || ggates->shape == gates.shape) && fits(dx, w, 3, 3) && dx.dim(0) == n && dx.dim(1) == t &&
         is_shape(call.out[1], {n, t, h}) && is_shape(call.out[2], {n, h});
}
KERNEL(gru_dx, f32, ref) {
  const Steps s = steps_of(call.in[1], call.attrs.reverse != 0);
  const float *hidden = call.in[1].f32(), *w = call.in[2].f32(), *g = call.in[4].f32();
  const float* direct = call.optional(5) != nullptr ? call.optional(5)->f32() : nullptr;
  const int64_t h = s.h;
  for (int64_t e = 0; e < s.n; ++e) {
    float* dh = call.out[2].f32() + e * h;
    std::fill_n(dh, h, 0.0f);
    for (int64_t step = s.t - 1; step >= 0; --step) {
      const int64_t at = s.at(step, e);
      const float *a = call.in[0].f32() + at * 4 * h, *old = s.before(step, e, hidden, call.in[3].f32());
      float *dx = call.out[0].f32() + at * 3 * h, *dv = call.out[1].f32() + at * h;
      for (int64_t j = 0; j < h; ++j) {
        const float r = a[j], z = a[h + j], fresh = a[2 * h + j], v = a[3 * h + j];
        float more[4] = {};
        for (int k = 0; k < 4 && direct != nullptr; ++k) more[k] = direct[at * 4 * h + k * h + j];
        const float of_h = dh[j] + g[at * h + j];
        const float bent = (of_h * (1 - z) + more[2]) * (1 - fresh * fresh);
        dx[j] = (bent * v + more[0]) * r * (1 - r);
        dx[h + j] = (of_h * (old[j] - fresh) + more[1]) * z * (1 - z);
        dx[2 * h + j] = bent;
        dv[j] = bent * r + more[3];
        dh[j] = of_h * z;
      }
      add_transposed_product(w, dx, 2 * h, h, dh);
      add_transposed_product(w + 2 * h * h, dv, h, h, dh);
    }
  }
  return Status::kOk;
}

}  // namespace lite
