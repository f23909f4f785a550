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
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <map>
#include <string>
#include <utility>

#include "models/autodiff/autodiff.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/remat.hpp"
#include "policies/training/regions.hpp"

namespace orrery::policies {
namespace {

using namespace models;

/// A flow network of vertices that are added one by one.
class CutNetwork {
 public:
  std::size_t add_vertex() { return boost::add_vertex(graph_); }
  void add_edge(std::size_t from, std::size_t to, std::int64_t capacity) {
    const auto forth = boost::add_edge(from, to, {capacity, 0, {}}, graph_).first;
    const auto back = boost::add_edge(to, from, {0, 0, {}}, graph_).first;
    graph_[forth].reverse = back;
    graph_[back].reverse = forth;
  }
  /// Vertices on the source's side of a minimum cut, by number.
  std::vector<bool> source_side(std::size_t source, std::size_t sink) {
    boost::push_relabel_max_flow(graph_, source, sink, boost::get(&Edge::capacity, graph_),
                                 boost::get(&Edge::residual, graph_), boost::get(&Edge::reverse, graph_),
                                 boost::get(boost::vertex_index, graph_));
    std::vector<bool> reached(boost::num_vertices(graph_), false);
    std::vector<std::size_t> left{source};
    reached[source] = true;
    while (!left.empty()) {
      const std::size_t at = left.back();
      left.pop_back();
      for (auto [edge, end] = boost::out_edges(at, graph_); edge != end; ++edge) {
        const std::size_t to = boost::target(*edge, graph_);
        if (graph_[*edge].residual <= 0 || reached[to]) continue;
        reached[to] = true;
        left.push_back(to);
      }
    }
    return reached;
  }

 private:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Edge {
    std::int64_t capacity = 0, residual = 0;
    Traits::edge_descriptor reverse;
  };
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge> graph_;
};

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
  CutNetwork network;
  const std::size_t source = network.add_vertex(), sink = network.add_vertex();
  std::vector<std::size_t> in(graph.tensor_count(), 0);  // a tensor's first vertex; its second follows
  for (const TensorId id : graph.tensors()) {
    if (!is_forward_made(graph, id)) continue;
    const OpNode& maker = graph.op(*graph.producer(id));
    const bool view = info(maker.kind).pattern == Pattern::view;  // has no memory to keep
    in[index(id)] = network.add_vertex();
    network.add_vertex();
    network.add_edge(in[index(id)], in[index(id)] + 1, view ? all_bytes : bytes_of(graph, id, sizes));
    for (const TensorId input : maker.inputs)
      if (is_forward_made(graph, input)) network.add_edge(in[index(input)] + 1, in[index(id)], all_bytes);
    if (view) continue;
    const BackwardUse use = backward_use(graph, id);
    if (use.read) network.add_edge(in[index(id)] + 1, sink, all_bytes);
    if (use.whole || !joins_its_reader(maker) || leaves_region(graph, region, id))
      network.add_edge(source, in[index(id)], all_bytes);
  }
  const std::vector<bool> reached = network.source_side(source, sink);
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
      add(id, std::move(node), nullptr);
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
    node.name += ".again";
    node.phase = models::Phase::backward;
    add(maker, std::move(node), &again);
    ops_again += 1;
    return again.at(id);
  }

  /// Adds an op; what it makes stands for the old outputs, or in `again` where it is made again.
  void add(OpId id, OpNode node, std::map<TensorId, TensorId>* again) {
    const std::vector<TensorId> old = copy_.from().op(id).outputs;
    std::vector<Tensor> outputs;
    for (const TensorId output : old) {
      outputs.push_back(copy_.from().tensor(output));
      if (again != nullptr) outputs.back().name += ".again";
      outputs.back().saved = false;
    }
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < old.size(); ++i) {
      const TensorId now = copy_.to().op(added).outputs[i];
      if (again != nullptr)
        again->insert_or_assign(old[i], now);
      else
        copy_.put(old[i], now);
    }
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
    return sim::FieldTable{
        sim::field("scope", &MinCutParams::scope, sim::Unit::text, sim::any_value(),
                   "How the scopes of a region's ops begin, which is cut by itself; a '*' stands for one part between "
                   "dots.")};
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
  registry.add<MinCutParams>("min_cut",
                             "What the backward pass can make again from less, without a pass of its own, is not kept.",
                             [](const MinCutParams& params) { return std::make_unique<MinCutPass>(params); });
}

}  // namespace orrery::policies
