#include "experiments/systems/serving/pricing/graph_iteration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "experiments/systems/serving/pricing/kernel_cost.hpp"
#include "models/iteration_program.hpp"

namespace orrery::experiments {
namespace {

using models::OpGraph;
using models::OpId;
using models::Symbol;

models::Bindings sizes(std::int64_t sequences, std::int64_t tokens, std::int64_t past) {
  models::Bindings at;
  at.set(Symbol("batch"), sequences);
  at.set(Symbol("tokens"), tokens);
  at.set(Symbol("past"), past);
  return at;
}

/// Layer that an op belongs to by its scope ("layer.3.attention"); nothing for those around the layers.
std::optional<std::int64_t> layer_of(const models::OpNode& op) {
  constexpr std::string_view kStart = "layer.";
  if (!op.scope.starts_with(kStart)) return std::nullopt;
  std::int64_t layer = 0;
  const char* begin = op.scope.data() + kStart.size();
  const auto [end, error] = std::from_chars(begin, op.scope.data() + op.scope.size(), layer);
  if (error != std::errc() || end == begin) return std::nullopt;
  return layer;
}

bool depends_on(const models::OpWork& work, Symbol symbol) {
  return work.matrix_flops.depends_on(symbol) || work.vector_flops.depends_on(symbol) ||
         work.read_bytes.depends_on(symbol) || work.write_bytes.depends_on(symbol);
}

/// Equal chunks that stand for those of a batch: as many tokens and pairs each.
struct MeanChunk {
  std::int64_t tokens = 1, past = 0;
};
MeanChunk mean_chunk(const PrefillSums& p) {
  const std::int64_t q = std::max<std::int64_t>(1, p.q_tokens / p.sequences);
  return {q, std::max<std::int64_t>(0, (p.pairs / p.sequences - q * (q + 1) / 2) / q)};
}

/// The sums of a batch in the place of those of equal sequences; booked as what it is, for in a graph one op is both.
hw::Kernel with_sums(hw::Kernel kernel, const PrefillSums& prefill, const DecodeSums& decode) {
  if (auto* a = std::get_if<hw::AttentionPrefill>(&kernel.shape)) {
    a->sequences = prefill.sequences;
    a->q_tokens = prefill.q_tokens;
    a->kv_tokens = prefill.kv_tokens;
    if (a->causal) a->pairs = prefill.pairs;
    a->q_tiles = prefill.q_tiles;
    kernel.op = hw::OpClass::attention_prefill;
  } else if (auto* d = std::get_if<hw::AttentionDecode>(&kernel.shape)) {
    d->sequences = decode.sequences;
    d->context_tokens = decode.context_tokens;
    kernel.op = hw::OpClass::attention_decode;
  }
  return kernel;
}

/// The library's call for a collective of a graph; nothing for other transfers.
std::optional<hw::LibraryCall> library_call(models::OpKind kind) {
  switch (kind) {
    case models::OpKind::all_reduce:
      return hw::LibraryCall::all_reduce;
    case models::OpKind::all_gather:
      return hw::LibraryCall::all_gather;
    case models::OpKind::reduce_scatter:
      return hw::LibraryCall::reduce_scatter;
    case models::OpKind::all_to_all:
      return hw::LibraryCall::all_to_all;
    default:
      return std::nullopt;
  }
}

/// Bytes that a sequence's cache takes a token more. A cache is an input of each sequence's own that grows with its
/// tokens, whether they are past or new; a mask, say, grows with the product of both.
std::int64_t cache_per_token(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (const models::TensorId id : graph.tensors()) {
    const models::Tensor& tensor = graph.tensor(id);
    if (tensor.role != models::TensorRole::input && tensor.role != models::TensorRole::state) continue;
    const auto bytes = [&](std::int64_t sequences, std::int64_t tokens, std::int64_t past) {
      return tensor.bytes().eval(sizes(sequences, tokens, past));
    };
    if (bytes(1, 1, 1) == bytes(1, 2, 0) && bytes(2, 1, 1) == 2 * bytes(1, 1, 1))
      sum += bytes(1, 1, 1) - bytes(1, 1, 0);
  }
  return sum;
}

}  // namespace

std::optional<std::string> GraphIteration::obstacle(const OpGraph& graph, const hw::Device& device, std::int64_t layers,
                                                    std::int64_t ranks) {
  std::vector<std::string> names;
  for (const Symbol symbol : graph.symbols()) names.push_back(symbol.name());
  if (std::set<std::string>(names.begin(), names.end()) != std::set<std::string>{"batch", "past", "tokens"})
    return fmt::format("graph '{}' has the dimensions [{}]: a decoder with a cache has batch, tokens and past",
                       graph.name, fmt::join(names, ", "));
  std::set<std::int64_t> found;
  for (const OpId id : graph.ops())
    if (const auto layer = layer_of(graph.op(id))) found.insert(*layer);
  if (std::ssize(found) != layers || *found.rbegin() != layers - 1)
    return fmt::format("graph '{}' has ops in {} layers (scopes layer.0 …), the model has {}", graph.name, found.size(),
                       layers);
  for (const models::Bindings& at : {sizes(2, 1, 16), sizes(1, 16, 0)}) {
    const models::GraphLaunches launches = models::lower(graph, at);
    if (launches.transfers.empty() && ranks > 1)
      return fmt::format("graph '{}' is of one device, the replica has {}: a pass must shard it (slapo)", graph.name,
                         ranks);
    for (const models::GraphTransfer& transfer : launches.transfers) {
      if (!library_call(transfer.kind))
        return fmt::format("graph '{}' has a {}, which no layer of a decoder does", graph.name,
                           to_string(transfer.kind));
      if (transfer.ranks != ranks)
        return fmt::format("graph '{}' is sharded among {} ranks, the replica has {}", graph.name, transfer.ranks,
                           ranks);
    }
    for (const models::GraphKernel& launch : launches.kernels)
      if (const auto why = device.obstacle(launch.kernel)) return fmt::format("{}: {}", device.name, *why);
  }
  return std::nullopt;
}

GraphIteration::GraphIteration(OpGraph graph, hw::Device device, std::int64_t layers, std::int64_t ranks)
    : graph_(std::move(graph)), device_(std::move(device)), layers_(layers), ranks_(ranks) {
  // Ops around the layers stand before the first of them or behind the last.
  std::set<OpId> behind;
  bool passed = false;
  for (const OpId id : graph_.ops()) {
    passed = passed || layer_of(graph_.op(id)).has_value();
    if (passed) behind.insert(id);
  }
  for (const models::OpGroup& equal : models::group_ops(graph_)) {
    Group group{.first = equal.first};
    group.kind = depends_on(equal.work, Symbol("past"))     ? Kind::attention
                 : depends_on(equal.work, Symbol("tokens")) ? Kind::dense
                 : depends_on(equal.work, Symbol("batch"))  ? Kind::head
                                                            : Kind::fixed;
    group.before.assign(static_cast<std::size_t>(layers_) + 1, 0);
    for (const OpId id : equal.members) {
      if (const auto layer = layer_of(graph_.op(id)))
        ++group.before[static_cast<std::size_t>(*layer) + 1];
      else
        ++(behind.contains(id) ? group.end : group.start);
    }
    for (std::size_t layer = 1; layer < group.before.size(); ++layer) group.before[layer] += group.before[layer - 1];
    if (group.kind == Kind::attention) keep_attention(group);
    groups_.push_back(std::move(group));
  }
}

GraphMemory graph_memory(const OpGraph& graph) {
  GraphMemory memory;
  for (const models::TensorId id : graph.tensors()) {
    const models::Tensor& tensor = graph.tensor(id);
    if (tensor.role == models::TensorRole::parameter || tensor.role == models::TensorRole::constant)
      memory.weights += tensor.bytes().eval(sizes(1, 1, 0));
  }
  memory.cache_per_token = cache_per_token(graph);
  return memory;
}

std::int64_t GraphIteration::Group::in_layers(std::int32_t first_layer, std::int32_t last_layer) const {
  return before[static_cast<std::size_t>(last_layer)] - before[static_cast<std::size_t>(first_layer)];
}

IterationCost GraphIteration::lowered(const Group& group, std::int64_t sequences, std::int64_t tokens,
                                      std::int64_t past) {
  launches_.kernels.clear();
  launches_.transfers.clear();
  models::lower(graph_, group.first, sizes(sequences, tokens, past), launches_);
  IterationCost cost;
  for (const models::GraphKernel& launch : launches_.kernels) add_kernel(device_, launch.kernel, ranks_, cost);
  for (const models::GraphTransfer& t : launches_.transfers) {
    const std::int64_t each = t.kind == models::OpKind::all_gather ? t.ranks : 1;  // a graph's counts one rank's part
    add_collective(device_, *library_call(t.kind), t.ranks, t.bytes * each, hw::OpClass::all_reduce, ranks_, cost);
  }
  return cost;
}

const IterationCost& GraphIteration::by_rows(Group& group, std::int64_t rows) {
  const auto [at, fresh] = group.known.try_emplace(rows);
  if (fresh) at->second = lowered(group, rows, 1, 0);
  return at->second;
}

IterationCost GraphIteration::attention(const Group& group, const PrefillSums& prefill, const DecodeSums& decode) {
  IterationCost cost;
  if (prefill.sequences > 0) {
    if (group.prefill) {
      add_kernel(device_, with_sums(*group.prefill, prefill, decode), ranks_, cost);
    } else {
      const MeanChunk chunk = mean_chunk(prefill);
      cost.add(lowered(group, prefill.sequences, chunk.tokens, chunk.past));
    }
  }
  if (decode.sequences > 0) {
    if (group.decode) {
      add_kernel(device_, with_sums(*group.decode, prefill, decode), ranks_, cost);
    } else {
      const std::int64_t cached = decode.context_tokens - decode.sequences;
      cost.add(lowered(group, decode.sequences, 1, cached / decode.sequences));
    }
  }
  return cost;
}

/// Keeps the kernels of a group that is one attention kernel for prompts and one for decodes: sums are all that varies.
void GraphIteration::keep_attention(Group& group) const {
  models::GraphLaunches prompt, step;
  models::lower(graph_, group.first, sizes(1, 2, 1), prompt);
  models::lower(graph_, group.first, sizes(1, 1, 1), step);
  if (prompt.kernels.size() != 1 || step.kernels.size() != 1) return;
  const hw::Kernel& p = prompt.kernels.front().kernel;
  const hw::Kernel& s = step.kernels.front().kernel;
  if (!std::holds_alternative<hw::AttentionPrefill>(p.shape) || !std::holds_alternative<hw::AttentionDecode>(s.shape))
    return;
  group.prefill = p;
  group.decode = s;
}

void GraphIteration::cost(const BatchShape& shape, IterationCost& out) {
  for (Group& group : groups_) {
    if (group.kind == Kind::head) {
      if (shape.logit_rows > 0)
        out.add_scaled(by_rows(group, shape.logit_rows), group.before.back() + group.start + group.end);
      continue;
    }
    for (const Segment& segment : shape.segments) {
      std::int64_t times = group.in_layers(segment.first, segment.last);
      if (segment.first == 0) times += group.start;
      if (segment.last == layers_) times += group.end;
      if (times == 0) continue;
      if (group.kind == Kind::attention)
        out.add_scaled(attention(group, segment.prefill, segment.decode), times);
      else
        out.add_scaled(by_rows(group, group.kind == Kind::fixed ? 1 : segment.tokens), times);
    }
  }
}

}  // namespace orrery::experiments
