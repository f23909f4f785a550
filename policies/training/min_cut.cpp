// What the backward pass can make again from less is not kept: rematerialisation by a minimum cut, as compilers of
// training graphs decide it (PyTorch 2's partitioner of forward and backward graphs).
//
// Of the forward tensors that backward ops read, those are kept whose bytes are least in all and from which the others
// can be made. Only what costs no pass over memory of its own is made again: elementwise ops, copies and views, which
// become a part of the kernel that reads them once `loop_fusion` has run. Kept as they are: what products, attention
// and reductions make, and what a backward product or attention reads, for it would have to be written again. Weights
// and inputs are there anyway and cost nothing. The cut is that of a flow network with two vertices a tensor, joined by
// its bytes; an edge without limit from the source to what cannot be made again, and from what backward ops read to the
// sink. Each backward op gets copies of its own of what is made again. A region (a layer) is compiled by itself: what
// it hands to others is there for them, and nothing is made again across its border. Left out: PyTorch's limits on the
// length of such chains, and its preference for tensors near the backward pass.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "models/autodiff/autodiff.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/remat.hpp"
#include "policies/training/regions.hpp"
#include "sim/max_flow.hpp"

namespace orrery::policies {
namespace {

using namespace models;

/// Whether fused kernels take an op in for nothing: they read its operands in place of what it made. What needs memory
/// beside its operands is several kernels.
bool joins_its_reader(const OpNode& op) {
  const Pattern pattern = info(op.kind).pattern;
  return op.kind != OpKind::fused && op.find("scratch") == nullptr && repeatable(op) &&
         (pattern == Pattern::elementwise || pattern == Pattern::injective || pattern == Pattern::view);
}

bool is_forward_made(const OpGraph& graph, TensorId id) {
  const std::optional<OpId> maker = graph.producer(id);
  return maker && graph.op(*maker).phase == models::Phase::forward;
}

/// What the backward pass reads of a forward tensor's memory, through views of either pass.
struct BackwardUse {
  bool read = false;
  bool whole = false;  ///< by an op that no fused kernel takes in: it has to lie in memory
};
BackwardUse backward_use(const OpGraph& graph, TensorId id) {
  BackwardUse use;
  for (const OpId reader : graph.consumers(id)) {
    const OpNode& op = graph.op(reader);
    const Pattern pattern = info(op.kind).pattern;
    if (pattern == Pattern::view) {
      const BackwardUse through = backward_use(graph, op.outputs.front());
      use.read = use.read || through.read;
      use.whole = use.whole || through.whole;
    } else if (op.phase != models::Phase::forward) {
      use.read = true;
      use.whole = use.whole || (pattern != Pattern::reduction && !joins_its_reader(op));
    }
  }
  return use;
}

/// Whether another region's forward pass reads a tensor's memory, through views of its own region.
bool leaves_region(const OpGraph& graph, const std::vector<std::int32_t>& region, TensorId id) {
  const std::int32_t own = region[index(*graph.producer(id))];
  for (const OpId reader : graph.consumers(id)) {
    const OpNode& op = graph.op(reader);
    if (op.phase != models::Phase::forward) continue;
    if (region[index(reader)] != own) return true;
    if (info(op.kind).pattern == Pattern::view && leaves_region(graph, region, op.outputs.front())) return true;
  }
  return false;
}

/// Forward tensors that are kept, by number: the cut.
std::vector<bool> kept_tensors(const OpGraph& graph, const std::vector<std::int32_t>& region, const Bindings& sizes) {
  std::int64_t all_bytes = 1;
  for (const TensorId id : graph.tensors())
    if (is_forward_made(graph, id)) all_bytes += bytes_of(graph, id, sizes);
  constexpr std::size_t kSource = 0, kSink = 1;
  std::size_t vertices = 2;
  std::vector<sim::FlowEdge> edges;
  std::vector<std::size_t> in(graph.tensor_count(), 0);  // a tensor's first vertex; its second follows
  for (const TensorId id : graph.tensors()) {
    if (!is_forward_made(graph, id)) continue;
    const OpNode& maker = graph.op(*graph.producer(id));
    const bool view = info(maker.kind).pattern == Pattern::view;  // has no memory to keep
    const std::size_t own = in[index(id)] = vertices;
    vertices += 2;
    edges.push_back({own, own + 1, view ? all_bytes : bytes_of(graph, id, sizes)});
    for (const TensorId input : maker.inputs)
      if (is_forward_made(graph, input)) edges.push_back({in[index(input)] + 1, own, all_bytes});
    if (view) continue;
    const BackwardUse use = backward_use(graph, id);
    if (use.read) edges.push_back({own + 1, kSink, all_bytes});
    if (use.whole || !joins_its_reader(maker) || leaves_region(graph, region, id))
      edges.push_back({kSource, own, all_bytes});
  }
  if (all_bytes > std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(edges.size() + 1))
    throw GraphError("min_cut: more bytes than can be weighed; smaller typical sizes make fewer");
  const std::vector<bool> reached = sim::max_flow(vertices, edges, kSource, kSink).source_side;
  std::vector<bool> kept(graph.tensor_count(), false);
  for (const TensorId id : graph.tensors())
    kept[index(id)] = in[index(id)] > 0 && reached[in[index(id)]] && !reached[in[index(id)] + 1];
  return kept;
}

/// The graph with copies, in the backward pass, of the ops that make again what is not kept.
class Rebuilder {
 public:
  Rebuilder(const OpGraph& graph, std::vector<bool> kept) : copy_(graph), kept_(std::move(kept)) {}

  OpGraph run() {
    const OpGraph& graph = copy_.from();
    for (const OpId id : graph.ops()) {
      if (graph.op(id).phase != models::Phase::backward) {
        copy_.copy(id);
        continue;
      }
      std::map<TensorId, TensorId> again;  // of this op alone
      OpNode node = copy_.node(id);
      for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
        node.inputs[slot] = made(graph.op(id).inputs[slot], again);
      copy_.replace(id, std::move(node));
    }
    OpGraph done = copy_.finish();
    mark_saved(done);
    return done;
  }
  double ops_again = 0;

 private:
  /// Where a backward op finds a tensor.
  TensorId made(TensorId id, std::map<TensorId, TensorId>& again) {
    const OpGraph& graph = copy_.from();
    const TensorId memory = storage_of(graph, id);
    if (!is_forward_made(graph, memory) || kept_[index(memory)]) return copy_.at(id);
    if (const auto found = again.find(id); found != again.end()) return found->second;
    const OpId maker = *graph.producer(id);
    OpNode node = copy_.node(maker);
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot)
      node.inputs[slot] = made(graph.op(maker).inputs[slot], again);
    node.phase = models::Phase::backward;
    const OpId added = copy_.add_again(maker, std::move(node));
    const std::vector<TensorId>& old = graph.op(maker).outputs;
    for (std::size_t i = 0; i < old.size(); ++i) again.insert_or_assign(old[i], copy_.to().op(added).outputs[i]);
    ops_again += 1;
    return again.at(id);
  }

  GraphCopy copy_;
  std::vector<bool> kept_;
};

double saved_bytes(const OpGraph& graph, const Bindings& sizes) {
  double bytes = 0;
  for (const TensorId id : graph.tensors())
    if (graph.tensor(id).saved && graph.tensor(id).role == TensorRole::activation)
      bytes += static_cast<double>(bytes_of(graph, id, sizes));
  return bytes;
}

struct MinCutParams {
  std::string scope = "layer.*";
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("scope", &MinCutParams::scope, sim::Unit::text, sim::any_value(),
                                      "Prefix of the scopes of a region's ops, where '*' stands for one part between "
                                      "dots. Each region is cut by itself.")};
  }
};

class MinCutPass final : public GraphPass {
 public:
  explicit MinCutPass(MinCutParams params) : p_(std::move(params)) {}

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    if (std::ranges::none_of(graph.ops(), [&](OpId id) { return graph.op(id).phase == models::Phase::backward; }))
      throw GraphError("min_cut: expected a training graph; run autodiff before");
    if (std::ranges::any_of(graph.ops(), [&](OpId id) { return graph.op(id).kind == OpKind::fused; }))
      throw GraphError("min_cut: expected a graph without fused ops; fusion runs after it");
    if (!sizes_known(graph, context.typical)) {
      report.notes.push_back("sizes are not known, so nothing can be weighed: the graph stays as it was");
      return graph;
    }
    Rebuilder rebuilder(graph, kept_tensors(graph, forward_regions(graph, p_.scope), context.typical));
    OpGraph done = rebuilder.run();
    const double before = saved_bytes(graph, context.typical), after = saved_bytes(done, context.typical);
    report.tell("ops_again", rebuilder.ops_again);
    report.tell("saved_before_bytes", before);
    report.tell("saved_after_bytes", after);
    return done;
  }

 private:
  MinCutParams p_;
};

}  // namespace

void add_min_cut(PassRegistry& registry) {
  registry.add<MinCutParams>(
      "min_cut",
      "Does not keep what the backward pass can recompute from fewer bytes, without separate passes over memory.",
      [](const MinCutParams& params) { return std::make_unique<MinCutPass>(params); });
}

}  // namespace orrery::policies
