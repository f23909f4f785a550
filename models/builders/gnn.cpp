// Graph neural networks on one graph of nodes and edges: GCN (Kipf and Welling, 2017), GIN (Xu et al., 2019) and
// GraphSAGE with means (Hamilton et al., 2017), as PyTorch Geometric runs them on a sparse matrix (the workload of
// PyGim, card 23).
//
// Aggregation is a sparse product A X over the features; combination is dense. GCN: A (X W) + b with self loops, the
// sparse product at the narrower width; GIN: MLP((1 + eps) X + A X), two linear layers with a norm; SAGE: W1 (A X /
// deg)
// + W2 X. Between layers a ReLU. The graph is its counts: nodes, entries of A (both directions of an undirected edge),
// the longest row and the columns that have entries; from an edge list (CSV of two node ids a line) or as numbers.
// Left out: sampling of neighbours, attention on edges.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>

#include "models/builders/net.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/input_limits.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

enum class GnnKind : std::uint8_t { gcn, gin, sage };
constexpr auto enum_names(GnnKind) {
  using enum GnnKind;
  return sim::names<GnnKind>({{"gcn", gcn}, {"gin", gin}, {"sage", sage}});
}

struct GnnParams {
  GnnKind model = GnnKind::gcn;
  std::string edges;
  bool directed = false;
  std::int64_t nodes = 169'343, nonzeros = 2'332'486, longest_row = 0;  // ogbn-arxiv, both directions (OGB)
  std::int64_t features = 256, hidden = 256, classes = 40, layers = 3;
  FloatType dtype = FloatType::fp32;
  bool loss = false;

  static constexpr auto fields() {
    using G = GnnParams;
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(1, 1 << 24);
    constexpr sim::Range kCount = sim::between(0, 1e12);
    return sim::FieldTable{
        sim::field("model", &G::model, "Kind of network: gcn, gin or sage (GraphSAGE)."),
        sim::field(
            "edges", &G::edges, Unit::path, sim::any_value(),
            "File of edges, with two node ids separated by a comma in each line; absent: the counts below are used."),
        sim::field("directed", &G::directed,
                   "Whether an edge of the file is one entry of the adjacency matrix instead of two."),
        sim::field("nodes", &G::nodes, Unit::count, kCount, "Number of nodes."),
        sim::field("nonzeros", &G::nonzeros, Unit::count, kCount,
                   "Number of non-zero entries of the adjacency matrix."),
        sim::field("longest_row", &G::longest_row, Unit::count, kCount,
                   "Most non-zero entries in a row; 0: all rows have equally many."),
        sim::field("features", &G::features, Unit::count, kSize, "Number of features per node."),
        sim::field("hidden", &G::hidden, Unit::count, kSize, "Width of a node between layers."),
        sim::field("classes", &G::classes, Unit::count, kSize, "Number of classes, the width of the result."),
        sim::field("layers", &G::layers, Unit::layers, kSize, "Number of layers."),
        sim::field("dtype", &G::dtype, "Type of weights and features."),
        sim::field("loss", &G::loss, "Whether the graph ends in the cross entropy with labels."),
    };
  }
};

/// Counts of a sparse matrix.
struct Adjacency {
  std::int64_t nodes = 0, nonzeros = 0, longest_row = 0, columns = 0;
};

/// Two whole numbers with a comma between.
bool read_edge(const std::string& line, std::int64_t& u, std::int64_t& v) {
  const char* end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, u);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return false;
  const auto second = std::from_chars(first.ptr + 1, end, v);
  return second.ec == std::errc() && (second.ptr == end || *second.ptr == '\r') && u >= 0 && v >= 0;
}

/// Counts of an edge list; entries given twice count once. Ids may leave gaps: nodes are those that occur.
Adjacency read_edges(const GnnParams& p) {
  if (!std::ifstream(p.edges)) sim::throw_fault(builder_origin("gnn", "edges"), "cannot read '" + p.edges + "'");
  std::istringstream file(sim::read_whole(p.edges, "list of edges"));
  std::vector<std::pair<std::int64_t, std::int64_t>> entries;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.front() == '#' || (entries.empty() && line.find_first_of("0123456789") != 0)) continue;
    std::int64_t u = 0, v = 0;
    if (!read_edge(line, u, v))
      sim::throw_fault({p.edges, fmt::format(":{}", number)},
                       "expected two node ids with a comma between, got '" + line + "'");
    entries.emplace_back(u, v);
    if (!p.directed && u != v) entries.emplace_back(v, u);
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  if (entries.empty()) sim::throw_fault({p.edges, ""}, "expected at least one edge");
  Adjacency a;
  a.nonzeros = std::ssize(entries);
  std::set<std::int64_t> nodes, columns;
  std::int64_t run = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    run = i > 0 && entries[i].first == entries[i - 1].first ? run + 1 : 1;
    a.longest_row = std::max(a.longest_row, run);
    nodes.insert({entries[i].first, entries[i].second});
    columns.insert(entries[i].second);
  }
  a.nodes = std::ssize(nodes);
  a.columns = std::ssize(columns);
  return a;
}

class GnnWriter {
 public:
  GnnWriter(const GnnParams& p, const Adjacency& adjacency) : p_(p), a_(adjacency), net_("gnn", element_type(p.dtype)) {
    if (p_.model == GnnKind::gcn) {  // self loops
      a_.nonzeros += a_.nodes;
      a_.longest_row += a_.longest_row > 0 ? 1 : 0;
      a_.columns = a_.nodes;
    }
  }

  OpGraph write() {
    OpGraph& graph = net_.graph();
    TensorId x = graph.input("features", {a_.nodes, p_.features}, element_type(p_.dtype));
    values_ = graph.constant("adjacency", {a_.nonzeros}, element_type(p_.dtype));
    graph.annotate(values_).layout = Layout::csr;
    for (std::int64_t layer = 0; layer < p_.layers; ++layer) {
      net_.scope(layer_scope(layer));
      const std::int64_t out = layer + 1 == p_.layers ? p_.classes : p_.hidden;
      x = p_.model == GnnKind::gcn ? gcn(x, out) : p_.model == GnnKind::gin ? gin(x, out) : sage(x, out);
      if (layer + 1 < p_.layers) x = net_.emit(OpKind::relu, {x}, OpClass::activation);
    }
    if (!p_.loss) return net_.finish({x});
    return net_.finish({net_.cross_entropy(x, graph.input("labels", {a_.nodes}, ElementType::int64))});
  }

 private:
  TensorId aggregate(TensorId x) {
    Attributes attributes{
        {"nonzeros", SymExpr(a_.nonzeros)}, {"rows", SymExpr(a_.nodes)}, {"columns", SymExpr(a_.columns)}};
    if (a_.longest_row > 0) attributes.emplace_back("longest_row", SymExpr(a_.longest_row));
    return net_.emit(OpKind::spmm, {values_, x}, {a_.nodes, net_.size(x, 1)}, element_type(p_.dtype), OpClass::sparse,
                     std::move(attributes));
  }

  TensorId gcn(TensorId x, std::int64_t out) {
    const TensorId bias = net_.parameter("bias", {out});
    const bool first = *net_.size(x, 1).constant() < out;  // aggregate where features are fewer
    if (first) x = aggregate(x);
    x = net_.linear(x, out, false, OpClass::ffn_up, "linear");
    if (!first) x = aggregate(x);
    return net_.add(x, bias);
  }

  TensorId gin(TensorId x, std::int64_t out) {
    const TensorId own = net_.mul(x, net_.parameter("eps", {1}), OpClass::residual);
    x = net_.linear(net_.add(aggregate(x), own), p_.hidden, true, OpClass::ffn_up, "linear1");
    const Shape width{p_.hidden};
    x = net_.emit(OpKind::batch_norm,
                  {x, net_.parameter("norm.weight", width), net_.parameter("norm.bias", width),
                   net_.constant("norm.mean", width, element_type(p_.dtype)),
                   net_.constant("norm.var", width, element_type(p_.dtype))},
                  OpClass::norm);
    x = net_.emit(OpKind::relu, {x}, OpClass::activation);
    return net_.linear(x, out, true, OpClass::ffn_down, "linear2");
  }

  TensorId sage(TensorId x, std::int64_t out) {
    const TensorId degrees = net_.constant("degrees", {a_.nodes, 1}, element_type(p_.dtype));
    const TensorId mean = net_.emit(OpKind::div, {aggregate(x), degrees}, OpClass::residual);
    const TensorId own = net_.linear(x, out, false, OpClass::ffn_up, "own");
    return net_.add(net_.linear(mean, out, true, OpClass::ffn_up, "neighbours"), own);
  }

  const GnnParams& p_;
  Adjacency a_;
  Net net_;
  TensorId values_{};
};

class Gnn final : public GraphBuilder {
 public:
  explicit Gnn(GnnParams params) : p_(std::move(params)) {}
  OpGraph build() const override {
    if (!p_.edges.empty()) return GnnWriter(p_, read_edges(p_)).write();
    sim::Faults faults;
    if (p_.nodes < 1) faults.add(builder_origin("gnn", "nodes"), "expected at least one node, or a file of 'edges'");
    if (p_.longest_row > p_.nodes)
      faults.add(builder_origin("gnn", "longest_row"),
                 fmt::format("expected at most the {} nodes, got {}", p_.nodes, p_.longest_row));
    faults.throw_if_any();
    return GnnWriter(p_, {p_.nodes, p_.nonzeros, p_.longest_row, std::min(p_.nodes, p_.nonzeros)}).write();
  }

 private:
  GnnParams p_;
};

}  // namespace

void add_gnn(BuilderRegistry& registry) {
  registry.add<GnnParams>("gnn", "GCN, GIN or GraphSAGE on a graph that is given by its edges or its counts.",
                          [](const GnnParams& params) { return std::make_unique<Gnn>(params); });
}

}  // namespace orrery::models
