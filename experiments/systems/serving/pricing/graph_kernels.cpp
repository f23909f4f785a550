#include "experiments/systems/serving/pricing/graph_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <ranges>
#include <set>
#include <string_view>

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

/// What the layers of a decoder are called in the module paths of frameworks, and in ours.
constexpr std::string_view kLayerNames[] = {"layer", "layers", "h", "block", "blocks"};

/// Layer that an op belongs to by its scope ("layer.3.attention", "model.layers.3.mlp"): the first number behind a name
/// of layers. Nothing for ops around the layers.
std::optional<std::int64_t> layer_of(const models::OpNode& op) {
  bool named = false;
  for (const auto word : std::views::split(std::string_view(op.scope), '.')) {
    const std::string_view name(word.begin(), word.end());
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (named && error == std::errc() && end == name.data() + name.size()) return layer;
    named = std::ranges::find(kLayerNames, name) != std::end(kLayerNames);
  }
  return std::nullopt;
}

/// Ops around the layers stand before the first op of a layer, or behind the last.
OpId first_in_layers(const OpGraph& graph) {
  for (const OpId id : graph.ops())
    if (layer_of(graph.op(id))) return id;
  return static_cast<OpId>(graph.op_count());
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

/// The collective that a transfer of a graph is; nothing for others.
std::optional<models::Collective> collective_of(models::OpKind kind) {
  switch (kind) {
    case models::OpKind::all_reduce:
      return models::Collective::all_reduce;
    case models::OpKind::all_gather:
      return models::Collective::all_gather;
    case models::OpKind::reduce_scatter:
      return models::Collective::reduce_scatter;
    case models::OpKind::all_to_all:
      return models::Collective::all_to_all;
    default:
      return std::nullopt;
  }
}

/// Bytes that a sequence's cache takes a token more, if the tensor is one. A cache is an input of each sequence's own
/// that grows with its tokens, whether they are past or new, or with the past ones alone (as exporters write it); a
/// mask, say, grows with the product of both, or holds whole numbers.
std::int64_t cache_per_token(const models::Tensor& tensor) {
  using models::ElementType;
  if (tensor.role != models::TensorRole::input && tensor.role != models::TensorRole::state) return 0;
  if (tensor.type == ElementType::boolean || tensor.type == ElementType::int32 || tensor.type == ElementType::int64)
    return 0;
  const auto bytes = [&](std::int64_t sequences, std::int64_t tokens, std::int64_t past) {
    return tensor.bytes().eval(sizes(sequences, tokens, past));
  };
  const bool of_past = bytes(1, 1, 0) == 0 && bytes(1, 2, 1) == bytes(1, 1, 1);
  if ((bytes(1, 1, 1) != bytes(1, 2, 0) && !of_past) || bytes(2, 1, 1) != 2 * bytes(1, 1, 1)) return 0;
  return bytes(1, 1, 1) - bytes(1, 1, 0);
}

enum class PartKind : std::uint8_t { fixed, head, dense, attention };

/// Ops of equal work that depend on the same sizes.
struct PartOps {
  models::OpId first{};
  PartKind kind = PartKind::fixed;
  std::vector<std::int64_t> in_layer;         ///< how many of them stand in each layer
  std::int64_t start = 0, end = 0;            ///< before the first and behind the last
  std::optional<hw::Kernel> prefill, decode;  ///< of attention that is one kernel for each
};

class GraphKernels final : public DecoderKernels {
 public:
  GraphKernels(std::shared_ptr<const OpGraph> graph, std::int64_t layers, std::int64_t ranks,
               std::optional<RoutedExperts> routed);
  const std::vector<std::int32_t>& kind_of() const override { return kind_of_; }
  bool by_mix(std::size_t kind) const override { return by_mix_[kind]; }
  std::int64_t ranks() const override { return ranks_; }
  void dense(std::size_t kind, const models::TokenMix& mix, models::Launches& out) const override;
  void beside_experts(std::size_t kind, std::int64_t tokens, models::Launches& out) const override;
  void experts(std::size_t kind, std::int64_t tokens, const models::RoutedRows& rows,
               models::Launches& out) const override;
  void attention(std::size_t kind, const PrefillSums& prefill, const DecodeSums& decode,
                 models::Launches& out) const override;
  void embedding(std::int64_t tokens, models::Launches& out) const override;
  void head(std::int64_t rows, models::Launches& out) const override;
  bool has_ending() const override { return has_ending_; }
  void ending(std::int64_t tokens, models::Launches& out) const override;

 private:
  std::int64_t times(const PartOps& part, std::size_t kind) const { return part.in_layer[example_[kind]]; }
  void keep_attention(PartOps& part) const;
  void sort_layers();
  bool takes_routed(const PartOps& part) const;
  /// Appends one op's launches for equal sequences, `times` times.
  void lower(const PartOps& part, std::int64_t times, const models::Bindings& at, models::Launches& out) const;

  std::shared_ptr<const OpGraph> held_;
  const OpGraph& graph_;  // the same
  std::int64_t ranks_;
  std::optional<RoutedExperts> routed_;
  std::vector<PartOps> parts_;
  std::vector<std::int32_t> kind_of_;
  std::vector<std::size_t> example_;  // by kind: a layer of it
  std::vector<bool> by_mix_;          // by kind
  bool has_ending_ = false;
};

}  // namespace

std::optional<std::string> graph_obstacle(const OpGraph& graph, const hw::Device& device, std::int64_t layers,
                                          std::int64_t ranks) {
  std::vector<std::string> names;
  for (const Symbol symbol : graph.symbols()) names.push_back(symbol.name());
  if (names.empty())
    return fmt::format("graph '{}' has no dimensions: it stands for one size, and no batch", graph.name);
  if (std::set<std::string>(names.begin(), names.end()) != std::set<std::string>{"batch", "past", "tokens"})
    return fmt::format(
        "graph '{}' has the dimensions [{}]: a decoder with a cache has batch, tokens and past "
        "(model.import.dimensions gives them other names)",
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
      return fmt::format("graph '{}' is of one device, tensor_parallel is {}: a pass must shard it (slapo)", graph.name,
                         ranks);
    for (const models::GraphTransfer& transfer : launches.transfers) {
      if (!collective_of(transfer.kind))
        return fmt::format("graph '{}' has a {}, which no layer of a decoder does", graph.name,
                           to_string(transfer.kind));
      if (transfer.ranks != ranks)
        return fmt::format("graph '{}' is sharded among {} ranks, tensor_parallel is {}", graph.name, transfer.ranks,
                           ranks);
    }
    for (const models::GraphKernel& launch : launches.kernels)
      if (const auto why = device.obstacle(launch.kernel)) return fmt::format("{}: {}", device.name, *why);
  }
  return std::nullopt;
}

namespace {

GraphKernels::GraphKernels(std::shared_ptr<const OpGraph> graph, std::int64_t layers, std::int64_t ranks,
                           std::optional<RoutedExperts> routed)
    : held_(std::move(graph)), graph_(*held_), ranks_(ranks), routed_(std::move(routed)) {
  const OpId inside = first_in_layers(graph_);
  for (const models::OpGroup& equal : models::group_ops(graph_)) {
    PartOps part{.first = equal.first};
    part.kind = depends_on(equal.work, Symbol("past"))     ? PartKind::attention
                : depends_on(equal.work, Symbol("tokens")) ? PartKind::dense
                : depends_on(equal.work, Symbol("batch"))  ? PartKind::head
                                                           : PartKind::fixed;
    part.in_layer.assign(static_cast<std::size_t>(layers), 0);
    for (const OpId id : equal.members) {
      if (const auto layer = layer_of(graph_.op(id)))
        ++part.in_layer[static_cast<std::size_t>(*layer)];
      else
        ++(id > inside ? part.end : part.start);
    }
    if (part.kind == PartKind::attention) keep_attention(part);
    if (part.end > 0 && part.kind != PartKind::head) has_ending_ = true;
    parts_.push_back(std::move(part));
  }
  sort_layers();
}

/// Layers of as many ops of each part are of one kind. Those for the positions of the head count for none.
void GraphKernels::sort_layers() {
  std::map<std::vector<std::int64_t>, std::int32_t> kinds;
  const std::size_t layers = parts_.empty() ? 0 : parts_.front().in_layer.size();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<std::int64_t> counts;
    bool routed = false;
    for (const PartOps& part : parts_) {
      if (part.kind == PartKind::head) continue;
      counts.push_back(part.in_layer[layer]);
      routed = routed || (counts.back() > 0 && takes_routed(part));
    }
    const auto [kind, fresh] = kinds.try_emplace(std::move(counts), static_cast<std::int32_t>(example_.size()));
    kind_of_.push_back(kind->second);
    if (!fresh) continue;
    example_.push_back(layer);
    by_mix_.push_back(routed);
  }
}

/// Whether the router says which rows the op gets: a grouped product over all experts.
bool GraphKernels::takes_routed(const PartOps& part) const {
  const models::OpNode& op = graph_.op(part.first);
  if (!routed_ || op.kind != models::OpKind::grouped_matmul) return false;
  return graph_.tensor(op.inputs[1]).shape.front() == models::SymExpr(routed_->experts);
}

/// Keeps the kernels of a part that is one attention kernel for prompts and one for decodes: sums are all that varies.
void GraphKernels::keep_attention(PartOps& part) const {
  models::GraphLaunches prompt, step;
  models::lower(graph_, part.first, sizes(1, 2, 1), prompt);
  models::lower(graph_, part.first, sizes(1, 1, 1), step);
  if (prompt.kernels.size() != 1 || step.kernels.size() != 1) return;
  const hw::Kernel& p = prompt.kernels.front().kernel;
  const hw::Kernel& s = step.kernels.front().kernel;
  if (!std::holds_alternative<hw::AttentionPrefill>(p.shape) || !std::holds_alternative<hw::AttentionDecode>(s.shape))
    return;
  part.prefill = p;
  part.decode = s;
}

void GraphKernels::lower(const PartOps& part, std::int64_t times, const models::Bindings& at,
                         models::Launches& out) const {
  if (times == 0) return;
  models::GraphLaunches one;
  models::lower(graph_, part.first, at, one);
  for (std::int64_t i = 0; i < times; ++i) {
    for (const models::GraphKernel& launch : one.kernels) out.kernels.push_back(launch.kernel);
    for (const models::GraphTransfer& t : one.transfers) {
      // A graph's all-gather counts one rank's part.
      const std::int64_t each = t.kind == models::OpKind::all_gather ? t.ranks : 1;
      out.communications.push_back({.kind = *collective_of(t.kind),
                                    .op = hw::OpClass::all_reduce,
                                    .bytes = t.bytes * each,
                                    .ranks = t.ranks,
                                    .after = out.kernels.size()});
    }
  }
}

void GraphKernels::dense(std::size_t kind, const models::TokenMix& mix, models::Launches& out) const {
  beside_experts(kind, mix.tokens(), out);
  if (by_mix_[kind]) experts(kind, mix.tokens(), routed_->router.route(mix), out);
}

void GraphKernels::beside_experts(std::size_t kind, std::int64_t tokens, models::Launches& out) const {
  const models::Bindings at = sizes(tokens, 1, 0);
  for (const PartOps& part : parts_)
    if ((part.kind == PartKind::dense || part.kind == PartKind::fixed) && !takes_routed(part))
      lower(part, times(part, kind), at, out);
}

void GraphKernels::experts(std::size_t kind, std::int64_t tokens, const models::RoutedRows& rows,
                           models::Launches& out) const {
  const models::Bindings at = sizes(tokens, 1, 0);
  for (const PartOps& part : parts_) {
    if (!takes_routed(part)) continue;
    const std::size_t before = out.kernels.size();
    lower(part, times(part, kind), at, out);
    for (std::size_t i = before; i < out.kernels.size(); ++i) {
      auto& product = std::get<hw::GroupedGemm>(out.kernels[i].shape);
      product.groups = rows.experts;
      product.rows = rows.rows;
      product.max_rows = rows.max_rows;
      product.row_tiles = rows.row_tiles;
    }
  }
}

void GraphKernels::attention(std::size_t kind, const PrefillSums& prefill, const DecodeSums& decode,
                             models::Launches& out) const {
  for (const PartOps& part : parts_) {
    const std::int64_t count = times(part, kind);
    if (part.kind != PartKind::attention || count == 0) continue;
    const std::int64_t window = graph_.op(part.first).integer("window", 0);
    if (prefill.sequences > 0) {
      if (part.prefill) {
        out.kernels.insert(out.kernels.end(), static_cast<std::size_t>(count),
                           with_sums(*part.prefill, prefill.within(window), {}));
      } else {
        const MeanChunk chunk = mean_chunk(prefill);
        lower(part, count, sizes(prefill.sequences, chunk.tokens, chunk.past), out);
      }
    }
    if (decode.sequences > 0) {
      if (part.decode) {
        out.kernels.insert(out.kernels.end(), static_cast<std::size_t>(count),
                           with_sums(*part.decode, {}, decode.within(window)));
      } else {
        const std::int64_t cached = decode.context_tokens - decode.sequences;
        lower(part, count, sizes(decode.sequences, 1, cached / decode.sequences), out);
      }
    }
  }
}

void GraphKernels::embedding(std::int64_t tokens, models::Launches& out) const {
  for (const PartOps& part : parts_)
    if (part.kind == PartKind::dense || part.kind == PartKind::fixed) lower(part, part.start, sizes(tokens, 1, 0), out);
}

void GraphKernels::ending(std::int64_t tokens, models::Launches& out) const {
  for (const PartOps& part : parts_)
    if (part.kind == PartKind::dense || part.kind == PartKind::fixed) lower(part, part.end, sizes(tokens, 1, 0), out);
}

void GraphKernels::head(std::int64_t rows, models::Launches& out) const {
  for (const PartOps& part : parts_) {
    if (part.kind != PartKind::head) continue;
    std::int64_t all = part.start + part.end;
    for (const std::int64_t count : part.in_layer) all += count;
    lower(part, all, sizes(rows, 1, 0), out);
  }
}

}  // namespace

std::unique_ptr<DecoderKernels> graph_kernels(std::shared_ptr<const OpGraph> graph, std::int64_t layers,
                                              std::int64_t ranks, std::optional<RoutedExperts> routed) {
  return std::make_unique<GraphKernels>(std::move(graph), layers, ranks, std::move(routed));
}

DecoderMemory graph_memory(const OpGraph& graph, std::int64_t layers) {
  const OpId inside = first_in_layers(graph);
  DecoderMemory memory;
  memory.weights.assign(static_cast<std::size_t>(layers), 0);
  memory.cache_per_token = memory.weights;
  for (const models::TensorId id : graph.tensors()) {
    const models::Tensor& tensor = graph.tensor(id);
    const bool weight = tensor.role == models::TensorRole::parameter || tensor.role == models::TensorRole::constant;
    const std::int64_t bytes = weight ? tensor.bytes().eval(sizes(1, 1, 0)) : cache_per_token(tensor);
    if (bytes == 0) continue;
    (weight ? memory.whole : memory.whole_cache_per_token) += bytes;
    // Readers in the order of execution: of a weight that both edges read, each has a copy.
    bool before = false, behind = false;
    std::optional<std::int64_t> layer;
    for (const OpId reader : graph.consumers(id)) {
      if (const auto own = layer_of(graph.op(reader)))
        layer = layer ? std::min(*layer, *own) : own;
      else
        (reader > inside ? behind : before) = true;
    }
    if (layer) (weight ? memory.weights : memory.cache_per_token)[static_cast<std::size_t>(*layer)] += bytes;
    if (!layer && !weight) memory.cache_per_token.front() += bytes;
    if (!layer && weight && (before || !behind)) memory.embedding += bytes;
    if (!layer && weight && behind) memory.head += bytes;
  }
  return memory;
}

}  // namespace orrery::experiments
