// Products and images of the reference interpreter.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/models/interpreter_ops.hpp"

namespace orrery::models::test {
namespace {

double entry(const Value& v, Place place, std::int64_t row, std::int64_t column, bool transposed) {
  place[place.size() - 2] = transposed ? column : row;
  place[place.size() - 1] = transposed ? row : column;
  // Only the batch part broadcasts.
  std::int64_t at = 0;
  const std::size_t skip = place.size() - v.dims.size();
  for (std::size_t i = 0; i < v.dims.size(); ++i) {
    const bool matrix = i + 2 >= v.dims.size();
    at = at * v.dims[i] + (!matrix && v.dims[i] == 1 ? 0 : place[skip + i]);
  }
  return v.data.at(static_cast<std::size_t>(at));
}

void matmul(const Step& s) {
  const bool ta = s.op.integer("trans_a", 0) != 0, tb = s.op.integer("trans_b", 0) != 0;
  const std::int64_t inner = s.x().dims[s.x().dims.size() - (ta ? 2 : 1)];
  std::size_t n = 0;
  for_each_place(s.y().dims, [&](const Place& p) {
    const std::int64_t row = p[p.size() - 2], column = p.back();
    double sum = s.has(2) ? s.x(2).data[static_cast<std::size_t>(column)] : 0;
    for (std::int64_t k = 0; k < inner; ++k) sum += entry(s.x(), p, row, k, ta) * entry(s.x(1), p, k, column, tb);
    s.y().data[n++] = sum;
  });
}

/// Rows of a grouped product are spread evenly over the groups, in order.
std::size_t group_of(std::int64_t row, std::int64_t rows, std::int64_t groups) {
  return static_cast<std::size_t>(row * groups / rows);
}

void grouped_matmul(const Step& s) {
  const bool turned = s.op.integer("trans_b", 0) != 0;
  const std::int64_t rows = s.x().dims[0], inner = s.x().dims[1], out = s.y().dims[1], groups = s.x(1).dims[0];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t n = 0; n < out; ++n) {
      const std::size_t own = group_of(r, rows, groups);
      double sum = s.op.integer("bias", 0) != 0
                       ? s.x(2).data[own * static_cast<std::size_t>(out) + static_cast<std::size_t>(n)]
                       : 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += s.x().data[static_cast<std::size_t>(r * inner + k)] *
               entry(s.x(1), {static_cast<std::int64_t>(own), 0, 0}, k, n, turned);
      s.y().data[static_cast<std::size_t>(r * out + n)] = sum;
    }
}

/// (x, dy) -> [groups, k, n], and [groups, 1, n] of a bias.
void grouped_weights(const Step& s) {
  const std::int64_t rows = s.x().dims[0], k = s.x().dims[1], n = s.x(1).dims[1], groups = s.y().dims[0];
  std::fill(s.y().data.begin(), s.y().data.end(), 0.0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        s.y().data[group_of(r, rows, groups) * static_cast<std::size_t>(k * n) + static_cast<std::size_t>(i * n + j)] +=
            s.x().data[static_cast<std::size_t>(r * k + i)] * s.x(1).data[static_cast<std::size_t>(r * n + j)];
  if (s.out.size() < 2) return;
  const Value& dy = s.x(static_cast<std::size_t>(s.op.integer("summed", 1)));
  const std::int64_t width = dy.dims[1];
  std::fill(s.y(1).data.begin(), s.y(1).data.end(), 0.0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < width; ++j)
      s.y(1).data[group_of(r, rows, groups) * static_cast<std::size_t>(width) + static_cast<std::size_t>(j)] +=
          dy.data[static_cast<std::size_t>(r * width + j)];
}

/// Probabilities of one query of one head; operands [batch, heads, tokens, dim].
struct Heads {
  const Step& s;
  std::int64_t batch = s.x().dims[0], heads = s.x().dims[1], kv_heads = s.x(1).dims[1], queries = s.x().dims[2],
               keys = s.x(1).dims[2], dim = s.x().dims[3], value_dim = s.x(2).dims[3];
  std::size_t row(const Value& v, std::int64_t b, std::int64_t h, std::int64_t t) const {
    const std::int64_t head = h * v.dims[1] / heads;
    return static_cast<std::size_t>(((b * v.dims[1] + head) * v.dims[2] + t) * v.dims[3]);
  }
  double dot(const Value& a, std::size_t at, const Value& b, std::size_t bt, std::int64_t n) const {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
      sum += a.data[at + static_cast<std::size_t>(i)] * b.data[bt + static_cast<std::size_t>(i)];
    return sum;
  }
  /// exp of the logit of a head that has no value; 0: there is none. Gradients have it after (q, k, v, o, sums, dy).
  double sink(std::int64_t h) const {
    if (s.op.integer("sinks", 0) == 0) return 0;
    return std::exp(s.x(s.op.kind == OpKind::attention ? 3 : 6).data[static_cast<std::size_t>(h)]);
  }
  std::vector<double> probabilities(std::int64_t b, std::int64_t h, std::int64_t t) const {
    std::vector<double> p;
    double sum = sink(h);
    const std::int64_t window = s.op.integer("window", 0);
    for (std::int64_t u = 0; u < keys; ++u) {
      const std::int64_t behind = t - (u - keys + queries);  // the query's own key is 0 behind it
      const bool seen = s.op.integer("causal", 0) == 0 || (behind >= 0 && (window == 0 || behind < window));
      p.push_back(seen ? std::exp(dot(s.x(), row(s.x(), b, h, t), s.x(1), row(s.x(1), b, h, u), dim) /
                                  std::sqrt(static_cast<double>(dim)))
                       : 0);
      sum += p.back();
    }
    for (double& v : p) v /= sum;
    return p;
  }
  void each(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < queries; ++t) visit(b, h, t);
  }
};

void attention(const Step& s) {
  const Heads a{s};
  std::fill(s.y().data.begin(), s.y().data.end(), 0.0);
  a.each([&](std::int64_t b, std::int64_t h, std::int64_t t) {
    const std::vector<double> p = a.probabilities(b, h, t);
    for (std::int64_t u = 0; u < a.keys; ++u)
      for (std::int64_t i = 0; i < a.value_dim; ++i)
        s.y().data[a.row(s.y(), b, h, t) + static_cast<std::size_t>(i)] +=
            p[static_cast<std::size_t>(u)] * s.x(2).data[a.row(s.x(2), b, h, u) + static_cast<std::size_t>(i)];
  });
}

/// (q, k, v, o, row sums, dy) -> (dq, dk, dv).
void attention_back(const Step& s) {
  const Heads a{s};
  const Value &o = s.x(3), &dy = s.x(5);
  for (Value* out : s.out) std::fill(out->data.begin(), out->data.end(), 0.0);
  a.each([&](std::int64_t b, std::int64_t h, std::int64_t t) {
    const std::vector<double> p = a.probabilities(b, h, t);
    const std::size_t q = a.row(s.x(), b, h, t), at = a.row(dy, b, h, t);
    const double delta = a.dot(dy, at, o, at, a.value_dim), root = 1 / std::sqrt(static_cast<double>(a.dim));
    if (s.out.size() > 3)  // the sink's probability, of a value of zeros
      s.y(3).data[static_cast<std::size_t>(h)] -= (1 - std::accumulate(p.begin(), p.end(), 0.0)) * delta;
    for (std::int64_t u = 0; u < a.keys; ++u) {
      const double weight = p[static_cast<std::size_t>(u)];
      const std::size_t k = a.row(s.x(1), b, h, u), v = a.row(s.x(2), b, h, u);
      const double ds = weight * (a.dot(dy, at, s.x(2), v, a.value_dim) - delta) * root;
      for (std::size_t i = 0; i < static_cast<std::size_t>(a.dim); ++i) {
        s.y(0).data[q + i] += ds * s.x(1).data[k + i];
        s.y(1).data[k + i] += ds * s.x().data[q + i];
      }
      for (std::size_t i = 0; i < static_cast<std::size_t>(a.value_dim); ++i)
        s.y(2).data[v + i] += weight * dy.data[at + i];
    }
  });
}

/// Visits every product of a convolution of x with w to y: (offset in x, offset in w, offset in y).
void convolve(const Step& s, const Value& x, const Value& w, const Value& y,
              const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  const std::int64_t stride = s.op.integer("stride", 1), pad = s.op.integer("pad", 0),
                     dilation = s.op.integer("dilation", 1), groups = s.op.integer("groups", 1);
  for_each_place(y.dims, [&](const Place& p) {
    for_each_place({w.dims[1], w.dims[2], w.dims[3]}, [&](const Place& tap) {
      const std::int64_t row = p[2] * stride - pad + tap[1] * dilation,
                         column = p[3] * stride - pad + tap[2] * dilation;
      if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) return;
      const std::int64_t channel = p[1] / (w.dims[0] / groups) * w.dims[1] + tap[0];
      visit(offset_in(x, {p[0], channel, row, column}), offset_in(w, {p[1], tap[0], tap[1], tap[2]}), offset_in(y, p));
    });
  });
}

void conv2d(const Step& s) {
  for_each_place(s.y().dims, [&](const Place& p) {
    s.y().data[offset_in(s.y(), p)] = s.has(2) ? s.x(2).data[static_cast<std::size_t>(p[1])] : 0;
  });
  convolve(s, s.x(), s.x(1), s.y(),
           [&](std::size_t x, std::size_t w, std::size_t y) { s.y().data[y] += s.x().data[x] * s.x(1).data[w]; });
}

/// Visits the window of every output of a pooling: (offset in x, offset in y).
void windows(const Step& s, const Value& x, const Value& y,
             const std::function<void(std::size_t, std::size_t)>& visit) {
  const std::int64_t kernel = s.op.integer("kernel", 2), stride = s.op.integer("stride", kernel),
                     pad = s.op.integer("pad", 0);
  for_each_place(y.dims, [&](const Place& p) {
    for_each_place({kernel, kernel}, [&](const Place& tap) {
      const std::int64_t row = p[2] * stride - pad + tap[0], column = p[3] * stride - pad + tap[1];
      if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) return;
      visit(offset_in(x, {p[0], p[1], row, column}), offset_in(y, p));
    });
  });
}

bool run_pools(const Step& s) {
  const auto area = static_cast<double>(s.op.integer("kernel", 2) * s.op.integer("kernel", 2));
  Value& out = s.y();
  switch (s.op.kind) {
    case OpKind::max_pool2d:
      std::fill(out.data.begin(), out.data.end(), -1e300);
      windows(s, s.x(), out, [&](std::size_t x, std::size_t y) { out.data[y] = std::max(out.data[y], s.x().data[x]); });
      return true;
    case OpKind::avg_pool2d:
      std::fill(out.data.begin(), out.data.end(), 0.0);
      windows(s, s.x(), out, [&](std::size_t x, std::size_t y) { out.data[y] += s.x().data[x] / area; });
      return true;
    case OpKind::max_pool2d_grad:  // (dy, x, y)
      std::fill(out.data.begin(), out.data.end(), 0.0);
      windows(s, s.x(1), s.x(2), [&](std::size_t x, std::size_t y) {
        if (s.x(1).data[x] == s.x(2).data[y]) out.data[x] += s.x().data[y];
      });
      return true;
    case OpKind::avg_pool2d_grad:
      std::fill(out.data.begin(), out.data.end(), 0.0);
      windows(s, out, s.x(), [&](std::size_t x, std::size_t y) { out.data[x] += s.x().data[y] / area; });
      return true;
    default:
      return false;
  }
}

/// Nearest neighbour: (image, size of the other side).
void upsample(const Step& s) {
  const bool back = s.op.kind == OpKind::upsample_grad;
  const Value &large = back ? s.x() : s.y(), &small = back ? s.y() : s.x();
  std::fill(s.y().data.begin(), s.y().data.end(), 0.0);
  for_each_place(large.dims, [&](const Place& p) {
    const Place q{p[0], p[1], p[2] * small.dims[2] / large.dims[2], p[3] * small.dims[3] / large.dims[3]};
    const std::size_t to = back ? offset_in(small, q) : offset_in(large, p);
    s.y().data[to] += back ? s.x().data[offset_in(large, p)] : s.x().data[offset_in(small, q)];
  });
}

}  // namespace

bool run_products(const Step& s) {
  switch (s.op.kind) {
    case OpKind::matmul:
      return matmul(s), true;
    case OpKind::grouped_matmul:
      return grouped_matmul(s), true;
    case OpKind::grouped_matmul_grad_weight:
      return grouped_weights(s), true;
    case OpKind::attention:
      return attention(s), true;
    case OpKind::attention_grad:
      return attention_back(s), true;
    default:
      return false;
  }
}

bool run_images(const Step& s) {
  switch (s.op.kind) {
    case OpKind::conv2d:
      return conv2d(s), true;
    case OpKind::conv2d_grad_input:  // (dy, w)
      std::fill(s.y().data.begin(), s.y().data.end(), 0.0);
      convolve(s, s.y(), s.x(1), s.x(),
               [&](std::size_t x, std::size_t w, std::size_t y) { s.y().data[x] += s.x().data[y] * s.x(1).data[w]; });
      return true;
    case OpKind::conv2d_grad_weight:  // (x, dy)
      std::fill(s.y().data.begin(), s.y().data.end(), 0.0);
      convolve(s, s.x(), s.y(), s.x(1),
               [&](std::size_t x, std::size_t w, std::size_t y) { s.y().data[w] += s.x().data[x] * s.x(1).data[y]; });
      return true;
    case OpKind::upsample:
    case OpKind::upsample_grad:
      return upsample(s), true;
    default:
      return run_pools(s);
  }
}

}  // namespace orrery::models::test
