#include "models/graph/graph_lowering.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "hw/base/kernel_builders.hpp"

namespace orrery::models {
std::int64_t causal_pairs(std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const std::int64_t all = queries * (keys - queries) + queries * (queries + 1) / 2;
  if (window == 0) return all;
  // The query in place p lacks max(0, p - window) keys; p goes from keys - queries + 1 to keys.
  const std::int64_t last = std::max<std::int64_t>(0, keys - window);
  const std::int64_t before = std::max<std::int64_t>(0, keys - queries - window);
  return all - (last * (last + 1) - before * (before + 1)) / 2;
}

namespace {

std::int64_t value(const SymExpr& expression) {
  return *expression.constant();
}

/// Product of the sizes from `begin` to `end`.
std::int64_t count(const std::vector<std::int64_t>& dims, std::size_t begin, std::size_t end) {
  return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                         dims.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

/// Shapes of one op under bindings.
struct Sizes {
  const OpGraph& graph;
  const OpNode& op;
  const Bindings& bindings;
  std::vector<std::int64_t> input(std::size_t slot) const { return sizes(graph, op.inputs[slot], bindings); }
  std::vector<std::int64_t> output(std::size_t place = 0) const { return sizes(graph, op.outputs[place], bindings); }
  std::int64_t expr(std::string_view name, std::int64_t fallback) const {
    return op.expr(name, fallback).eval(bindings);
  }
};

hw::Gemm matmul_shape(const Sizes& s) {
  std::vector<std::int64_t> a = s.input(0), b = s.input(1);
  const std::vector<std::int64_t> out = s.output();
  const std::int64_t k = s.op.integer("trans_a", 0) != 0 ? a[a.size() - 2] : a.back();
  hw::Gemm gemm{out[out.size() - 2], out.back(), k, count(out, 0, out.size() - 2)};
  if (count(b, 0, b.size() - 2) == 1) {  // one matrix of weights for all: the batch is rows
    gemm.m *= gemm.batch;
    gemm.batch = 1;
  }
  if (is_complex(s.graph.tensor(s.op.inputs[0]).type)) gemm.batch *= 4;
  return gemm;
}

/// Operands [.., heads, tokens, dim]; everything before the heads is the batch.
hw::KernelShape attention_shape(const Sizes& s) {
  const std::vector<std::int64_t> q = s.input(0), k = s.input(1), v = s.input(2);
  const std::size_t rank = q.size();
  const std::int64_t heads = q[rank - 3], kv_heads = k[rank - 3], batch = count(q, 0, rank - 3);
  const std::int64_t queries = q[rank - 2], keys = k[rank - 2];
  const bool causal = s.op.integer("causal", 0) != 0;
  const std::int64_t window = causal ? s.op.integer("window", 0) : 0;
  const std::int64_t seen = window > 0 ? std::min(keys, queries + window - 1) : keys;
  if (queries == 1) {
    hw::AttentionDecode decode;
    decode.sequences = batch;
    decode.context_tokens = batch * seen;
    decode.heads = heads;
    decode.kv_heads = kv_heads;
    decode.head_dim = q.back();
    decode.value_dim = v.back();
    return decode;
  }
  hw::AttentionPrefill prefill;
  prefill.sequences = batch;
  prefill.q_tokens = batch * queries;
  prefill.kv_tokens = batch * seen;
  prefill.pairs = batch * (causal ? causal_pairs(queries, keys, window) : queries * keys);
  prefill.q_tiles = batch * ((queries + 127) / 128);
  prefill.heads = heads;
  prefill.kv_heads = kv_heads;
  prefill.head_dim = q.back();
  prefill.value_dim = v.back();
  prefill.causal = causal;
  prefill.window = window;
  return prefill;
}

hw::Conv conv_shape(const Sizes& s) {
  const std::vector<std::int64_t> x = s.input(0), w = s.input(1);
  hw::Conv conv;
  conv.batch = x[0];
  conv.in_channels = x[1];
  conv.height = x[2];
  conv.width = x[3];
  conv.out_channels = w[0];
  conv.kernel_height = static_cast<std::int32_t>(w[2]);
  conv.kernel_width = static_cast<std::int32_t>(w[3]);
  conv.stride = static_cast<std::int32_t>(s.op.integer("stride", 1));
  const std::int64_t pad = s.op.integer("pad", 0), pad_w = s.op.integer("pad_w", pad);
  if (pad == pad_w) {
    conv.pad = static_cast<std::int32_t>(pad);
  } else {  // a kernel pads both sides alike: here the image comes padded
    conv.height += 2 * pad;
    conv.width += 2 * pad_w;
  }
  conv.dilation = static_cast<std::int32_t>(s.op.integer("dilation", 1));
  conv.groups = static_cast<std::int32_t>(s.op.integer("groups", 1));
  return conv;
}

/// A convolution whose padding differs by axis (1x7 kernels), as the product that computes it.
hw::Gemm conv_product(const Sizes& s) {
  const std::vector<std::int64_t> w = s.input(1), y = s.output();
  const std::int64_t groups = std::max<std::int64_t>(1, s.op.integer("groups", 1));
  return {y[0] * y[2] * y[3], w[0] / groups, w[1] * w[2] * w[3], groups};
}

/// Gradients of a convolution as the products that compute them.
hw::Gemm conv_gradient(const Sizes& s) {
  const bool of_input = s.op.kind == OpKind::conv2d_grad_input;
  const std::vector<std::int64_t> dy = s.input(of_input ? 0 : 1), w = of_input ? s.input(1) : s.output();
  const std::int64_t groups = std::max<std::int64_t>(1, s.op.integer("groups", 1));
  const std::int64_t pixels = dy[0] * dy[2] * dy[3], taps = w[1] * w[2] * w[3], out = w[0] / groups;
  return of_input ? hw::Gemm{pixels, taps, out, groups} : hw::Gemm{out, taps, pixels, groups};
}

hw::GroupedGemm grouped_shape(const Sizes& s) {
  const std::vector<std::int64_t> a = s.input(0), w = s.input(1), y = s.output();
  const std::int64_t rows = count(y, 0, y.size() - 1);  // of the first input, or that indices pick of it
  const std::int64_t groups = std::clamp<std::int64_t>(s.expr("active_groups", w[0]), 0, std::min(w[0], rows));
  std::vector<std::int64_t> split(static_cast<std::size_t>(groups));
  for (std::int64_t i = 0; i < groups; ++i)
    split[static_cast<std::size_t>(i)] = rows / groups + (i < rows % groups ? 1 : 0);
  return hw::grouped_gemm(split, y.back(), a.back());
}

/// A product a group, all of as many rows: what a library of plain products makes of it.
hw::Gemm group_products(const Sizes& s) {
  const std::vector<std::int64_t> a = s.input(0), w = s.input(1), y = s.output();
  const std::int64_t rows = count(y, 0, y.size() - 1);
  const std::int64_t groups =
      std::clamp<std::int64_t>(s.expr("active_groups", w[0]), 1, std::max<std::int64_t>(1, rows));
  return {(rows + groups - 1) / groups, y.back(), a.back(), groups};
}

/// Gradients of the groups' weights, [k, rows of the group] times [rows of the group, n]; rows are spread evenly.
hw::Gemm grouped_gradient(const Sizes& s) {
  const std::vector<std::int64_t> x = s.input(0), dy = s.input(1);
  const std::int64_t rows = count(x, 0, x.size() - 1), all = s.output().front();
  const std::int64_t groups =
      std::clamp<std::int64_t>(s.expr("active_groups", all), 1, std::max<std::int64_t>(1, std::min(all, rows)));
  return {x.back(), dy.back(), (rows + groups - 1) / groups, groups};
}

hw::Sparse sparse_shape(const Sizes& s) {
  const std::vector<std::int64_t> x = s.input(1);
  hw::Sparse sparse;
  sparse.kind = s.op.kind == OpKind::spmm ? hw::SparseKind::spmm : hw::SparseKind::sddmm;
  sparse.nonzeros = s.expr("nonzeros", 0);
  sparse.rows = s.expr("rows", x[0]);
  sparse.columns = s.expr("columns", x[0]);
  sparse.width = x.back();
  sparse.longest_row = s.expr("longest_row", 0);
  return sparse;
}

hw::Fft fft_shape(const Sizes& s) {
  hw::Fft fft;
  const std::string_view form = s.op.text("form");
  fft.kind = form == "complex"   ? hw::FftKind::complex_to_complex
             : form == "to_real" ? hw::FftKind::complex_to_real
                                 : hw::FftKind::real_to_complex;
  fft.n0 = s.op.integer("n0", 1);
  fft.n1 = s.op.integer("n1", 1);
  fft.batch = s.expr("transforms", 1);
  return fft;
}

/// How a pass is launched. Norms over images have no rows of a last axis, one a thread block: batch and group norms
/// pace like elementwise passes, by their bytes.
hw::Pass pass_of(OpKind kind) {
  switch (kind) {
    case OpKind::layer_norm:
    case OpKind::layer_norm_grad:
      return hw::Pass::layer_norm;
    case OpKind::rms_norm:
    case OpKind::rms_norm_grad:
      return hw::Pass::rms_norm;
    case OpKind::softmax:
    case OpKind::softmax_grad:
    case OpKind::cross_entropy:
      return hw::Pass::softmax;
    case OpKind::rope:
    case OpKind::rope_grad:
      return hw::Pass::rope;
    case OpKind::fused:
      return hw::Pass::compiled;
    case OpKind::optimizer_step:
      return hw::Pass::many_tensors;
    default:
      return hw::Pass::elementwise;
  }
}

/// The library kernel that an op says it is (attribute `pass`); nothing for others.
std::optional<hw::Pass> library_pass(std::string_view name) {
  if (name == "rope") return hw::Pass::rope;
  if (name == "gated_activation") return hw::Pass::gated_activation;
  if (name == "elementwise") return hw::Pass::elementwise;
  if (name == "compiled") return hw::Pass::compiled;
  if (name == "expert_sort") return hw::Pass::expert_sort;
  if (name == "expert_sum") return hw::Pass::expert_sum;
  return std::nullopt;
}

/// Whether PyTorch's kernel of an elementwise op works out each element's place or type: an operand is broadcast (but a
/// single number), or a slice of longer rows, or the op is a cast to more bits.
bool goes_one_by_one(const Sizes& s) {
  const OpInfo& kind = info(s.op.kind);
  if (kind.pattern != Pattern::elementwise || kind.rule == ShapeRule::given || s.op.outputs.empty()) return false;
  const Tensor& made = s.graph.tensor(s.op.outputs.front());
  if (s.op.kind == OpKind::cast) return bytes_of(made.type) > bytes_of(s.graph.tensor(s.op.inputs.front()).type);
  const std::vector<std::int64_t> shape = s.output();
  const std::int64_t elements = count(shape, 0, shape.size());
  for (std::size_t slot = 0; slot < s.op.inputs.size(); ++slot) {
    const std::vector<std::int64_t> own = s.input(slot);
    const std::int64_t operand = count(own, 0, own.size());
    if (operand > 1 && operand < elements) return true;
    const auto maker = s.graph.producer(s.op.inputs[slot]);
    if (maker && s.graph.op(*maker).kind == OpKind::expand) return true;
    if (!maker || s.graph.op(*maker).kind != OpKind::slice || own.empty()) continue;
    const std::vector<std::int64_t> whole = sizes(s.graph, s.graph.op(*maker).inputs.front(), s.bindings);
    if (whole.size() == own.size() && !std::equal(whole.begin() + 1, whole.end(), own.begin() + 1)) return true;
  }
  return false;
}

/// A pass over memory with the op's own FLOPs and bytes.
hw::Streaming streaming_shape(const Sizes& s, const OpWork& work) {
  hw::Streaming pass;
  pass.read_bytes = value(work.read_bytes);
  pass.write_bytes = value(work.write_bytes);
  pass.flops = value(work.flops());
  pass.pass = pass_of(s.op.kind);
  if (const auto library = library_pass(s.op.text("pass"))) {
    pass.pass = *library;
    pass.rows = s.expr("rows", 0);
    if (*library != hw::Pass::compiled) return pass;
  }
  if (info(s.op.kind).pattern == Pattern::reduction && !s.op.inputs.empty()) {
    const std::vector<std::int64_t> x = s.input(0);
    pass.rows = x.empty() ? 0 : count(x, 0, x.size() - 1);
  }
  if (pass.pass == hw::Pass::many_tensors && s.op.integer("parameters", 1) == 1) pass.pass = hw::Pass::tensor_of_many;
  if (s.op.kind == OpKind::optimizer_step)
    for (std::int64_t i = 0; i < s.op.integer("parameters", 1); ++i) {
      const std::vector<std::int64_t> shape = s.input(static_cast<std::size_t>(i));
      pass.rows += count(shape, 0, shape.size());
    }
  if (pass.pass == hw::Pass::elementwise && goes_one_by_one(s)) {
    pass.pass = hw::Pass::one_by_one;
    const std::vector<std::int64_t> shape = s.output();
    pass.rows = count(shape, 0, shape.size());
  }
  return pass;
}

/// The kernels of an optimizer's step whose parameters have copies in fp32, where casts are kernels of their own:
/// gradients into fp32, the update of the copies, weights back into 16 bits.
std::vector<hw::Kernel> split_step(const Sizes& s, OpId id) {
  hw::Streaming widen{.pass = hw::Pass::one_by_one}, narrow{.pass = hw::Pass::elementwise};
  hw::Streaming update = streaming_shape(s, work(s.graph, id, s.bindings));
  const auto parameters = static_cast<std::size_t>(s.op.integer("parameters", 1));
  for (std::size_t i = 0; i < parameters; ++i) {
    const std::vector<std::int64_t> shape = s.input(i);
    const std::int64_t elements = count(shape, 0, shape.size());
    const std::int64_t gradient_bytes = bytes_of(s.graph.tensor(s.op.inputs[parameters + i]).type);
    if (bytes_of(s.graph.tensor(s.op.inputs[i]).type) != 2) continue;  // has no copy
    if (gradient_bytes == 2 && s.op.integer("step_casts", 0) > 1) {
      widen.read_bytes += 2 * elements;
      widen.write_bytes += 4 * elements;
      widen.rows += elements;
    }
    update.read_bytes += elements * (4 - gradient_bytes - 2);  // gradients in fp32, and no weights of 16 bits
    update.write_bytes -= 2 * elements;
    narrow.read_bytes += 4 * elements;
    narrow.write_bytes += 2 * elements;
  }
  widen.flops = widen.rows;
  narrow.flops = narrow.read_bytes / 4;
  std::vector<hw::Kernel> kernels;
  for (const hw::Streaming& pass : {widen, update, narrow})
    if (pass.read_bytes > 0) kernels.push_back({s.op.op_class, hw::DType::fp32, pass});
  return kernels;
}

/// The largest product of a region, convolutions as the products that compute them; empty for none.
hw::Gemm largest_product(const OpGraph& region, const Bindings& bindings) {
  hw::Gemm best;
  const auto flops = [](const hw::Gemm& g) {
    return static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
           static_cast<double>(g.batch);
  };
  for (const OpId id : region.ops()) {
    const OpNode& op = region.op(id);
    hw::Gemm own;
    const Sizes s{region, op, bindings};
    if (op.kind == OpKind::matmul) own = matmul_shape(s);
    if (op.kind == OpKind::conv2d) own = conv_product(s);
    if (op.kind == OpKind::conv2d_grad_input || op.kind == OpKind::conv2d_grad_weight) own = conv_gradient(s);
    if (op.kind == OpKind::fused) own = largest_product(*op.regions.front(), bindings);
    if (flops(own) > flops(best)) best = own;
  }
  return best;
}

hw::KernelShape fused_shape(const Sizes& s, const OpWork& work) {
  if (value(work.matrix_flops) == 0) return streaming_shape(s, work);
  hw::Fused fused;
  fused.gemm = largest_product(*s.op.regions.front(), s.bindings);
  fused.other_matrix_flops =
      value(work.matrix_flops) - 2 * fused.gemm.m * fused.gemm.n * fused.gemm.k * fused.gemm.batch;
  fused.vector_flops = value(work.vector_flops);
  fused.read_bytes = value(work.read_bytes);
  fused.write_bytes = value(work.write_bytes);
  for (const OpId id : s.op.regions.front()->ops())
    fused.kernels += launches_nothing(s.op.regions.front()->op(id)) ? 0 : 1;
  return fused;
}

/// Type that the op computes in: that of its first floating operand (matrix operands stand first), else its output's.
hw::DType compute_type(const OpGraph& graph, const OpNode& op) {
  if (op.kind == OpKind::fused) {
    const OpGraph& region = *op.regions.front();
    for (const OpId id : region.ops())
      if (info(region.op(id).kind).pattern == Pattern::matrix) return compute_type(region, region.op(id));
  }
  for (const TensorId input : op.inputs) {
    const ElementType type = graph.tensor(input).type;
    if (type != ElementType::int32 && type != ElementType::int64 && type != ElementType::boolean) return dtype_of(type);
  }
  return op.outputs.empty() ? hw::DType::fp32 : dtype_of(graph.tensor(op.outputs.front()).type);
}

hw::KernelShape shape_of(const Sizes& s, OpId id) {
  switch (s.op.kind) {
    case OpKind::matmul:
      return matmul_shape(s);
    case OpKind::grouped_matmul:
      if (s.op.text("library") == "per_group") return group_products(s);
      return grouped_shape(s);
    case OpKind::grouped_matmul_grad_weight:
      return grouped_gradient(s);
    case OpKind::attention:
      return attention_shape(s);
    case OpKind::conv2d:
      if (s.op.integer("pad_w", s.op.integer("pad", 0)) != s.op.integer("pad", 0)) return conv_product(s);
      return conv_shape(s);
    case OpKind::conv2d_grad_input:
    case OpKind::conv2d_grad_weight:
      return conv_gradient(s);
    case OpKind::spmm:
    case OpKind::sddmm:
      return sparse_shape(s);
    case OpKind::fft:
      return fft_shape(s);
    case OpKind::fused:
      return fused_shape(s, work(s.graph, id, s.bindings));
    case OpKind::attention_grad: {  // (q, k, v, …) as its forward op has them; a decode has no gradient
      hw::KernelShape shape = attention_shape(s);
      auto* prefill = std::get_if<hw::AttentionPrefill>(&shape);
      if (prefill != nullptr) {
        prefill->backward = true;
        return shape;
      }
      const OpWork own = work(s.graph, id, s.bindings);
      hw::Fused fused;
      fused.other_matrix_flops = value(own.matrix_flops);
      fused.read_bytes = value(own.read_bytes);
      fused.write_bytes = value(own.write_bytes);
      fused.kernels = 1;
      return fused;
    }
    default:
      return streaming_shape(s, work(s.graph, id, s.bindings));
  }
}

void lower_op(const OpGraph& graph, OpId id, OpId outer, const Bindings& bindings, GraphLaunches& out) {
  const OpNode& op = graph.op(id);
  if (launches_nothing(op)) {
    ++out.views_at_end;
    return;
  }
  if (op.kind == OpKind::loop || op.kind == OpKind::branch) {
    const bool first = op.kind == OpKind::loop || op.expr("condition", 1).eval(bindings) != 0;
    const OpGraph& region = *op.regions[first ? 0 : 1];
    const std::int64_t trips = op.kind == OpKind::loop ? op.expr("trips", 1).eval(bindings) : 1;
    for (std::int64_t trip = 0; trip < trips; ++trip)
      for (const OpId inner : region.ops()) lower_op(region, inner, outer, bindings, out);
    return;
  }
  if (info(op.kind).pattern == Pattern::communication) {
    const std::int64_t bytes = bytes_of(graph, op.inputs.front(), bindings);
    out.transfers.push_back({outer, op.kind, bytes, op.expr("ranks", 1).eval(bindings), out.kernels.size()});
    return;
  }
  if (op.kind == OpKind::optimizer_step && op.integer("step_casts", 0) > 0) {
    for (const hw::Kernel& kernel : split_step({graph, op, bindings}, id))
      out.kernels.push_back({outer, kernel, std::exchange(out.views_at_end, 0)});
    return;
  }
  GraphKernel launch;
  launch.op = outer;
  launch.kernel.op = op.op_class;
  launch.kernel.dtype = compute_type(graph, op);
  launch.kernel.shape = shape_of({graph, op, bindings}, id);
  launch.views = std::exchange(out.views_at_end, 0);
  out.kernels.push_back(launch);
}

}  // namespace

GraphLaunches lower(const OpGraph& graph, const Bindings& bindings) {
  GraphLaunches out;
  out.kernels.reserve(graph.op_count());
  for (const OpId id : graph.ops()) lower(graph, id, bindings, out);
  return out;
}

void lower(const OpGraph& graph, OpId op, const Bindings& bindings, GraphLaunches& out) {
  lower_op(graph, op, op, bindings, out);
}

}  // namespace orrery::models
