// Reductions, normalisations and movement of the reference interpreter.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/models/interpreter_ops.hpp"

namespace orrery::models::test {
namespace {

constexpr double kEpsilon = 1e-5;

void reduce(const Step& s) {
  std::vector<bool> gone(s.x().dims.size(), false);
  for (const std::int64_t axis : s.list("axes"))
    gone[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(gone.size()) : axis)] = true;
  Value kept = s.x();
  for (std::size_t i = 0; i < gone.size(); ++i)
    if (gone[i]) kept.dims[i] = 1;
  const bool largest = s.op.kind == OpKind::reduce_max;
  kept.data.assign(static_cast<std::size_t>(count_of(kept.dims)), largest ? -1e300 : 0);
  for_each_place(s.x().dims, [&](const Place& place) {
    double& to = kept.data[offset_in(kept, place)];
    const double from = s.x().data[offset_in(s.x(), place)];
    to = largest ? std::max(to, from) : to + from;
  });
  const double n = static_cast<double>(s.x().data.size()) / static_cast<double>(kept.data.size());
  if (s.op.kind == OpKind::reduce_mean)
    for (double& v : kept.data) v /= n;
  s.y().data = kept.data;
}

/// Which statistics an element belongs to, and which affine parameters.
struct Norm {
  std::function<std::size_t(const Place&)> group, channel;
};
Norm norm_of(const Step& s, const Value& x) {
  const std::vector<std::int64_t> dims = x.dims;
  const auto row = [dims](const Place& p) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i + 1 < dims.size(); ++i) at = at * dims[i] + p[i];
    return static_cast<std::size_t>(at);
  };
  const auto second = [](const Place& p) { return static_cast<std::size_t>(p[1]); };
  if (s.op.kind == OpKind::batch_norm || s.op.kind == OpKind::batch_norm_grad) return {second, second};
  if (s.op.kind == OpKind::group_norm || s.op.kind == OpKind::group_norm_grad) {
    const std::int64_t groups = s.op.integer("groups", 32), each = dims[1] / groups;
    return {[groups, each](const Place& p) { return static_cast<std::size_t>(p[0] * groups + p[1] / each); }, second};
  }
  return {row, [](const Place& p) { return static_cast<std::size_t>(p.back()); }};
}

void normalise(const Step& s) {
  const Norm norm = norm_of(s, s.x());
  const bool centred = s.op.kind != OpKind::rms_norm;
  std::map<std::size_t, std::array<double, 3>> sums;  // count, sum, squares
  for_each_place(s.x().dims, [&](const Place& p) {
    auto& [n, sum, squares] = sums[norm.group(p)];
    const double v = s.x().data[offset_in(s.x(), p)];
    n += 1, sum += v, squares += v * v;
  });
  std::map<std::size_t, std::pair<double, double>> stats;
  for (const auto& [group, all] : sums) {
    const double mean = centred ? all[1] / all[0] : 0;
    stats[group] = {mean, 1 / std::sqrt(all[2] / all[0] - mean * mean + kEpsilon)};
  }
  for_each_place(s.x().dims, [&](const Place& p) {
    const std::size_t at = offset_in(s.x(), p), c = norm.channel(p);
    const auto [mean, rstd] = stats[norm.group(p)];
    s.y().data[at] = (s.x().data[at] - mean) * rstd * (s.has(1) ? s.x(1).data[c] : 1) + (s.has(2) ? s.x(2).data[c] : 0);
  });
  for (const auto& [group, stat] : stats) {
    if (s.out.size() > 1) s.y(1).data[group] = centred ? stat.first : stat.second;
    if (s.out.size() > 2) s.y(2).data[group] = stat.second;
  }
}

/// (dy, x, mean, rstd, weight) -> (dx, dweight, dbias): with h = (x - mean) rstd and g = dy weight,
/// dx = rstd (g - mean(g) - h mean(g h)); without a mean the middle term is missing.
void normalise_back(const Step& s) {
  const Value &dy = s.x(0), &x = s.x(1);
  const Norm norm = norm_of(s, x);
  const bool centred = s.op.kind != OpKind::rms_norm_grad;
  const std::size_t weight = centred ? 4 : 3;
  const Value& rstd = s.x(centred ? 3 : 2);
  const auto hat = [&](std::size_t at, std::size_t g) {
    return (x.data[at] - (centred ? s.x(2).data[g] : 0)) * rstd.data[g];
  };
  const auto slope = [&](std::size_t at, std::size_t c) {
    return dy.data[at] * (s.has(weight) ? s.x(weight).data[c] : 1);
  };
  std::map<std::size_t, std::array<double, 3>> sums;
  for (Value* out : s.out) std::fill(out->data.begin(), out->data.end(), 0.0);
  for_each_place(x.dims, [&](const Place& p) {
    const std::size_t at = offset_in(x, p), g = norm.group(p), c = norm.channel(p);
    auto& [n, sum, product] = sums[g];
    n += 1, sum += slope(at, c), product += slope(at, c) * hat(at, g);
    if (s.out.size() > 1) s.y(1).data[c] += dy.data[at] * hat(at, g);
    if (s.out.size() > 2) s.y(2).data[c] += dy.data[at];
  });
  for_each_place(x.dims, [&](const Place& p) {
    const std::size_t at = offset_in(x, p), g = norm.group(p), c = norm.channel(p);
    const auto& [n, sum, product] = sums[g];
    s.y().data[at] = rstd.data[g] * (slope(at, c) - (centred ? sum / n : 0) - hat(at, g) * product / n);
  });
}

/// Calls with (first element, width) of every row.
void rows(const Value& x, const std::function<void(std::size_t, std::size_t)>& visit) {
  const auto width = static_cast<std::size_t>(x.dims.back());
  for (std::size_t row = 0; row * width < x.data.size(); ++row) visit(row * width, width);
}

void softmax_row(const Value& x, std::size_t first, std::size_t width, std::vector<double>& out) {
  double sum = 0;
  out.resize(width);
  for (std::size_t i = 0; i < width; ++i) sum += out[i] = std::exp(x.data[first + i]);
  for (double& v : out) v /= sum;
}

bool is_log(const Step& s) {
  return s.op.integer("log", 0) != 0 || s.op.text("of") == "log_probabilities";
}

void cross_entropy(const Step& s) {
  double total = 0;
  std::vector<double> p;
  rows(s.x(), [&](std::size_t first, std::size_t width) {
    softmax_row(s.x(), first, width, p);
    const auto label = static_cast<std::size_t>(s.x(1).data[first / width]);
    total -= is_log(s) ? s.x().data[first + label] : std::log(p[label]);
  });
  s.y().data[0] = total / static_cast<double>(s.x(1).data.size());
}

void cross_entropy_back(const Step& s) {
  std::vector<double> p;
  rows(s.x(), [&](std::size_t first, std::size_t width) {
    softmax_row(s.x(), first, width, p);
    if (is_log(s)) std::fill(p.begin(), p.end(), 0.0);
    p[static_cast<std::size_t>(s.x(1).data[first / width])] -= 1;
    for (std::size_t i = 0; i < width; ++i)
      s.y().data[first + i] = p[i] * s.x(2).data[0] / static_cast<double>(s.x(1).data.size());
  });
}

/// Along the leading axis of the first operand: rows picked, or rows added to.
void rows_by_index(const Step& s, const Value& source, const Value& ids, Value& to, bool add) {
  const std::size_t width = (add ? source.data.size() : to.data.size()) / ids.data.size();
  for (std::size_t i = 0; i < ids.data.size(); ++i)
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t far = static_cast<std::size_t>(ids.data[i]) * width + j, near = i * width + j;
      if (add)
        to.data.at(far) += source.data.at(near);
      else
        to.data.at(near) = source.data.at(far);
    }
  static_cast<void>(s);
}

std::vector<std::int64_t> starts(const Step& s, std::string_view name, const Bindings& bindings) {
  std::vector<std::int64_t> all(s.y().dims.size(), 0);
  const Attribute* attribute = s.op.find(name);
  if (attribute == nullptr) return all;
  if (const auto* list = std::get_if<std::vector<SymExpr>>(attribute))
    for (std::size_t i = 0; i < list->size(); ++i) all[i] = (*list)[i].eval(bindings);
  else
    all[static_cast<std::size_t>(s.op.integer("axis", 0))] = s.op.expr(name, 0).eval(bindings);
  return all;
}

Place plus(Place a, const std::vector<std::int64_t>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

void concat(const Step& s) {
  std::vector<std::int64_t> start(s.y().dims.size(), 0);
  const auto axis = static_cast<std::size_t>(s.op.integer("axis", 0));
  for (const Value* part : s.in) {
    for_each_place(part->dims, [&](const Place& p) {
      s.y().data[offset_in(s.y(), plus(p, start))] = part->data[offset_in(*part, p)];
    });
    start[axis] += part->dims[axis];
  }
}

/// Pairs of neighbours turn by an angle of their row; backward turns them back.
void rope(const Step& s) {
  const double sign = s.op.kind == OpKind::rope ? 1 : -1;
  rows(s.x(), [&](std::size_t first, std::size_t width) {
    for (std::size_t i = 0; i + 1 < width; i += 2) {
      const double angle = sign * static_cast<double>(first / width + i), a = s.x().data[first + i],
                   b = s.x().data[first + i + 1];
      s.y().data[first + i] = a * std::cos(angle) - b * std::sin(angle);
      s.y().data[first + i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
  });
}

}  // namespace

bool run_rows(const Step& s) {
  switch (s.op.kind) {
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
      return reduce(s), true;
    case OpKind::layer_norm:
    case OpKind::rms_norm:
    case OpKind::batch_norm:
    case OpKind::group_norm:
      return normalise(s), true;
    case OpKind::layer_norm_grad:
    case OpKind::rms_norm_grad:
    case OpKind::batch_norm_grad:
    case OpKind::group_norm_grad:
      return normalise_back(s), true;
    case OpKind::softmax: {
      std::vector<double> p;
      rows(s.x(), [&](std::size_t first, std::size_t width) {
        softmax_row(s.x(), first, width, p);
        if (is_log(s))
          for (double& v : p) v = std::log(v);
        std::copy(p.begin(), p.end(), s.y().data.begin() + static_cast<std::ptrdiff_t>(first));
      });
      return true;
    }
    case OpKind::softmax_grad:  // (dy, y): y (dy - sum(dy y)); of a log softmax dy - e^y sum(dy)
      rows(s.x(), [&](std::size_t first, std::size_t width) {
        double sum = 0;
        if (is_log(s)) {
          for (std::size_t i = first; i < first + width; ++i) sum += s.x().data[i];
          for (std::size_t i = first; i < first + width; ++i)
            s.y().data[i] = s.x().data[i] - std::exp(s.x(1).data[i]) * sum;
          return;
        }
        for (std::size_t i = first; i < first + width; ++i) sum += s.x().data[i] * s.x(1).data[i];
        for (std::size_t i = first; i < first + width; ++i) s.y().data[i] = s.x(1).data[i] * (s.x().data[i] - sum);
      });
      return true;
    case OpKind::cross_entropy:
      return cross_entropy(s), true;
    case OpKind::cross_entropy_grad:
      return cross_entropy_back(s), true;
    default:
      return false;
  }
}

bool run_movement(const Step& s, const Bindings& bindings) {
  switch (s.op.kind) {
    case OpKind::reshape:
      s.y().data = s.x().data;
      return true;
    case OpKind::transpose: {
      const std::vector<std::int64_t> perm = s.list("perm");
      for_each_place(s.y().dims, [&](const Place& to) {
        Place from(to.size());
        for (std::size_t i = 0; i < to.size(); ++i) from[static_cast<std::size_t>(perm[i])] = to[i];
        s.y().data[offset_in(s.y(), to)] = s.x().data[offset_in(s.x(), from)];
      });
      return true;
    }
    case OpKind::slice: {
      const std::vector<std::int64_t> start = starts(s, "start", bindings);
      for_each_place(s.y().dims, [&](const Place& p) {
        s.y().data[offset_in(s.y(), p)] = s.x().data[offset_in(s.x(), plus(p, start))];
      });
      return true;
    }
    case OpKind::pad: {
      const std::vector<std::int64_t> start = starts(s, "before", bindings);
      for_each_place(s.x().dims, [&](const Place& p) {
        s.y().data[offset_in(s.y(), plus(p, start))] = s.x().data[offset_in(s.x(), p)];
      });
      return true;
    }
    case OpKind::expand:
      s.map([](const std::vector<double>& v) { return v[0]; });
      return true;
    case OpKind::concat:
      return concat(s), true;
    case OpKind::gather:
    case OpKind::embedding:
      return rows_by_index(s, s.x(), s.x(1), s.y(), false), true;
    case OpKind::scatter_add:
      s.y().data = s.x().data;
      return rows_by_index(s, s.x(1), s.x(2), s.y(), true), true;
    case OpKind::embedding_grad:
      return rows_by_index(s, s.x(), s.x(1), s.y(), true), true;
    case OpKind::rope:
    case OpKind::rope_grad:
      return rope(s), true;
    default:
      return false;
  }
}

}  // namespace orrery::models::test
