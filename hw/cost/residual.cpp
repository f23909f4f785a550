#include "hw/cost/residual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "hw/cost/cost_model.hpp"
#include "sim/base/math.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::hw {
namespace {

using sim::Faults;
using sim::Node;

constexpr std::int64_t kLargestLeaf = 50'000;  ///< a factor of 148

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : sim::names_of<ResidualKind>) names.emplace_back(name);
  return names;
}

/// A member of the right kind, or a fault and null.
const Node* member(const Node& node, const char* key, Node::Kind kind, const char* expected, Faults& faults) {
  const Node* found = node.find(key);
  const bool number = kind == Node::Kind::real;
  if (found != nullptr && (number ? found->is_number() : found->kind() == kind)) return found;
  if (found == nullptr) {
    faults.add(node.origin_of(key), fmt::format("expected {}, found none", expected));
  } else {
    faults.add(found->origin(), fmt::format("expected {}, got {}", expected, found->shown()));
  }
  return nullptr;
}

std::string text_of(const Node& node, const char* key, const char* expected, Faults& faults) {
  const Node* found = member(node, key, Node::Kind::string, expected, faults);
  return found != nullptr ? found->as_string() : std::string();
}

double share_of(const Node& node, const char* key, Faults& faults) {
  const Node* found = member(node, key, Node::Kind::real, "a share of at least 0", faults);
  if (found == nullptr) return 0;
  if (!(found->as_number() >= 0))
    faults.add(found->origin(), fmt::format("expected a share of at least 0, got {}", found->shown()));
  return found->as_number();
}

void parse_splits(const Node& splits, std::span<const std::string_view> inputs, TreeEnsemble::Tree& tree,
                  Faults& faults) {
  for (const Node& split : splits.items()) {
    if (!split.is_array() || split.items().size() != 2 || !split.items()[0].is_string() ||
        !split.items()[1].is_number()) {
      faults.add(split.origin(), fmt::format("expected [input, threshold], got {}", split.shown()));
      continue;
    }
    const std::string& name = split.items()[0].as_string();
    const auto at = std::find(inputs.begin(), inputs.end(), name);
    if (at == inputs.end()) {
      faults.add(split.items()[0].origin(), fmt::format("unknown input '{}'", name),
                 sim::name_hint(name, {inputs.begin(), inputs.end()}));
      continue;
    }
    tree.splits.push_back({static_cast<std::int32_t>(at - inputs.begin()), split.items()[1].as_number()});
  }
}

TreeEnsemble::Tree parse_tree(const Node& node, ResidualKind kind, Faults& faults) {
  TreeEnsemble::Tree tree;
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected a tree, got {}", node.shown()));
    return tree;
  }
  const Node* splits = member(node, "splits", Node::Kind::array, "a list of splits", faults);
  const Node* leaves = member(node, "leaves", Node::Kind::array, "a list of leaves", faults);
  if (splits == nullptr || leaves == nullptr) return tree;
  if (splits->items().size() > TreeEnsemble::kMostSplits) {
    faults.add(splits->origin(),
               fmt::format("expected {} splits at most, got {}", TreeEnsemble::kMostSplits, splits->items().size()));
    return tree;
  }
  parse_splits(*splits, residual_inputs(kind), tree, faults);
  const std::size_t expected = std::size_t{1} << splits->items().size();
  if (leaves->items().size() != expected)
    faults.add(leaves->origin(), fmt::format("expected {} leaves, two to the number of splits, got {}", expected,
                                             leaves->items().size()));
  for (const Node& leaf : leaves->items()) {
    const bool whole = leaf.kind() == Node::Kind::integer && std::abs(leaf.as_integer()) <= kLargestLeaf;
    if (!whole)
      faults.add(leaf.origin(), fmt::format("expected a whole number from {} to {}, got {}", -kLargestLeaf,
                                            kLargestLeaf, leaf.shown()));
    tree.leaves.push_back(whole ? static_cast<std::int32_t>(leaf.as_integer()) : 0);
  }
  return tree;
}

void parse_seen(const Node& node, ResidualBlock& block, Faults& faults) {
  const std::size_t sizes = residual_sizes(block.kind);
  if (node.items().size() != sizes)
    faults.add(node.origin(), fmt::format("expected [least, largest] of {} sizes, got {}", sizes, node.items().size()));
  for (const Node& range : node.items()) {
    const bool pair = range.is_array() && range.items().size() == 2 && range.items()[0].is_number() &&
                      range.items()[1].is_number() && range.items()[0].as_number() <= range.items()[1].as_number();
    if (pair) {
      block.seen.emplace_back(range.items()[0].as_number(), range.items()[1].as_number());
    } else {
      faults.add(range.origin(), fmt::format("expected [least, largest], got {}", range.shown()));
    }
  }
}

ResidualBlock parse_block(const Node& node, Faults& faults) {
  ResidualBlock block;
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected a block, got {}", node.shown()));
    return block;
  }
  const std::string kernels = text_of(node, "kernels", "a kind of kernel", faults);
  const auto kind = sim::value_named<ResidualKind>(kernels);
  if (!kind) {
    if (!kernels.empty())
      faults.add(node.origin_of("kernels"), fmt::format("unknown kind of kernel '{}'", kernels),
                 sim::name_hint(kernels, kind_names()));
    return block;
  }
  block.kind = *kind;
  block.library = text_of(node, "library", "the word of `tables` for a library", faults);
  if (const Node* tables = member(node, "tables", Node::Kind::array, "a list of files", faults))
    for (const Node& table : tables->items())
      if (table.is_string()) block.tables.push_back(table.as_string());
  if (const Node* rows = member(node, "rows", Node::Kind::integer, "a number of rows", faults))
    block.rows = rows->as_integer();
  block.mape = share_of(node, "mape", faults);
  block.held_out = share_of(node, "held_out", faults);
  if (const Node* seen = member(node, "seen", Node::Kind::array, "a list of ranges", faults))
    parse_seen(*seen, block, faults);
  const Node* trees = member(node, "trees", Node::Kind::array, "a list of trees", faults);
  if (trees == nullptr) return block;
  if (trees->items().size() > TreeEnsemble::kMostTrees) {
    faults.add(trees->origin(),
               fmt::format("expected {} trees at most, got {}", TreeEnsemble::kMostTrees, trees->items().size()));
    return block;
  }
  for (const Node& tree : trees->items()) block.trees.trees.push_back(parse_tree(tree, block.kind, faults));
  return block;
}

/// Seven digits, of which files are smaller.
Node rounded(double value) {
  return Node::real(std::stod(fmt::format("{:.7g}", value)));
}

Node tree_node(const TreeEnsemble::Tree& tree, std::span<const std::string_view> inputs) {
  Node splits = Node::array(), leaves = Node::array(), node = Node::object();
  for (const TreeEnsemble::Split& split : tree.splits) {
    Node pair = Node::array();
    pair.push(Node::string(std::string(inputs[static_cast<std::size_t>(split.input)])));
    pair.push(rounded(split.threshold));
    splits.push(std::move(pair));
  }
  for (const std::int32_t leaf : tree.leaves) leaves.push(Node::integer(leaf));
  node.set("splits", std::move(splits));
  node.set("leaves", std::move(leaves));
  return node;
}

Node block_node(const ResidualBlock& block) {
  Node node = Node::object(), tables = Node::array(), seen = Node::array(), trees = Node::array();
  for (const std::string& table : block.tables) tables.push(Node::string(table));
  for (const auto& [least, largest] : block.seen) {
    Node range = Node::array();
    range.push(Node::real(least));
    range.push(Node::real(largest));
    seen.push(std::move(range));
  }
  for (const TreeEnsemble::Tree& tree : block.trees.trees) trees.push(tree_node(tree, residual_inputs(block.kind)));
  node.set("kernels", Node::string(std::string(to_string(block.kind))));
  node.set("library", Node::string(block.library));
  node.set("tables", std::move(tables));
  node.set("rows", Node::integer(block.rows));
  node.set("mape", rounded(block.mape));
  node.set("held_out", rounded(block.held_out));
  node.set("seen", std::move(seen));
  node.set("trees", std::move(trees));
  return node;
}

}  // namespace

std::string model_fingerprint(const GpuParams& gpu) {
  std::string times;
  const std::unique_ptr<CostModel> tiled = make_tiled(gpu);
  const auto add = [&](double seconds) { times += fmt::format("{:.6g};", seconds * 1e6); };
  const auto add_kernel = [&](const KernelShape& shape) {
    add(tiled->cost({OpClass::ffn_up, DType::bf16, shape}).time_s - gpu.launch_s());
  };
  for (const std::int64_t m : {1, 48, 300, 2048, 8192})
    for (const std::int64_t n : {1024, 5120, 28672}) add_kernel(Gemm{m, n, 4096});
  for (const std::int64_t tokens : {100, 1000, 8000}) {
    add_kernel(
        AttentionPrefill{4, 4 * tokens, 4 * tokens, 2 * tokens * (tokens + 1), 4 * ((tokens + 127) / 128), 32, 8, 128});
    add_kernel(AttentionDecode{4, 4 * tokens, 32, 8, 128});
  }
  for (const std::int64_t ranks : {2, 4, 8})
    for (const std::int64_t bytes : {10'000, 1'000'000, 100'000'000})
      add(library_collective(gpu.link, LibraryCall::all_reduce, ranks, bytes).time_s);
  return fmt::format("{:016x}", sim::hash_text(times));
}

double TreeEnsemble::at(std::span<const double> inputs) const {
  std::int64_t sum = 0;
  for (const Tree& tree : trees) {
    std::size_t leaf = 0;
    for (const Split& split : tree.splits)
      leaf = 2 * leaf + static_cast<std::size_t>(inputs[static_cast<std::size_t>(split.input)] > split.threshold);
    sum += tree.leaves[leaf];
  }
  return static_cast<double>(sum) * 1e-4;
}

std::optional<double> ResidualBlock::factor(const ResidualQuery& query) const {
  if (query.kind != kind) return {};
  for (std::size_t i = 0; i < query.sizes; ++i)
    if (query.inputs[i] < seen[i].first || query.inputs[i] > seen[i].second) return {};
  return sim::det_exp(trees.at(query.all()));
}

const ResidualBlock* Residual::block(ResidualKind kind, std::string_view library) const {
  for (const ResidualBlock& block : blocks)
    if (block.kind == kind && (library.empty() || block.library == library)) return &block;
  return nullptr;
}

Residual parse_residual(const Node& node, Faults& faults) {
  Residual residual;
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected a residual, got {}", node.shown()));
    return residual;
  }
  const std::string kind = text_of(node, "kind", "\"residual\"", faults);
  if (!kind.empty() && kind != "residual")
    faults.add(node.origin_of("kind"), fmt::format("expected \"residual\", got \"{}\"", kind));
  const Node* version = member(node, "version", Node::Kind::integer, "version 1", faults);
  if (version != nullptr && version->as_integer() != 1)
    faults.add(version->origin(), fmt::format("expected version 1, got {}", version->shown()));
  residual.part = text_of(node, "part", "the name of a part", faults);
  residual.model = text_of(node, "model", "a fingerprint", faults);
  residual.doc = text_of(node, "doc", "a sentence", faults);
  if (const Node* blocks = member(node, "blocks", Node::Kind::array, "a list of blocks", faults))
    for (const Node& block : blocks->items()) residual.blocks.push_back(parse_block(block, faults));
  return residual;
}

Node residual_node(const Residual& residual) {
  Node node = Node::object(), blocks = Node::array();
  for (const ResidualBlock& block : residual.blocks) blocks.push(block_node(block));
  node.set("kind", Node::string("residual"));
  node.set("version", Node::integer(1));
  node.set("part", Node::string(residual.part));
  node.set("model", Node::string(residual.model));
  node.set("doc", Node::string(residual.doc));
  node.set("blocks", std::move(blocks));
  return node;
}

}  // namespace orrery::hw
