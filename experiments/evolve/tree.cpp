#include "experiments/evolve/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/formula_functions.hpp"

namespace orrery::experiments::evolve {

namespace {

using Kind = TreeNode::Kind;
namespace formula = sim::formula;

bool is_name(std::string_view function) {
  return sim::is_formula_name(function);
}

TreeNode number_node(double value) {
  return {.kind = Kind::number, .number = value};
}
TreeNode function_node(std::string_view name, std::size_t arguments) {
  return {.kind = Kind::function, .index = static_cast<std::uint32_t>(function_of(name, arguments))};
}

std::string text_at(const Tree& tree, std::size_t& at, std::span<const std::string> names, bool inside) {
  const TreeNode& node = tree[at++];
  if (node.kind == Kind::name) return names[node.index];
  if (node.kind == Kind::number)
    return std::signbit(node.number) && inside ? fmt::format("({})", node.number) : fmt::format("{}", node.number);
  const Function& function = kFunctions[node.index];
  if (!is_name(function.name)) {
    std::string text;
    if (function.arguments == 1) {
      text = fmt::format("{}{}", function.name, text_at(tree, at, names, true));
    } else {
      text = text_at(tree, at, names, true);
      text += fmt::format(" {} ", function.name);
      text += text_at(tree, at, names, true);
    }
    return inside ? "(" + text + ")" : text;
  }
  std::string text = std::string(function.name) + "(";
  for (std::size_t i = 0; i < function.arguments; ++i) text += (i == 0 ? "" : ", ") + text_at(tree, at, names, false);
  return text + ")";
}

double applied(const Function& function, const std::vector<Tree>& arguments) {
  if (function.arguments == 1)
    return formula::kUnary[formula::row_of(formula::kUnary, function.name)].apply(arguments[0][0].number);
  return formula::kBinary[formula::row_of(formula::kBinary, function.name)].apply(arguments[0][0].number,
                                                                                  arguments[1][0].number);
}

bool is_number(const Tree& tree) {
  return tree[0].kind == Kind::number;
}
bool is_number(const Tree& tree, double value) {
  return is_number(tree) && tree[0].number == value && !std::signbit(tree[0].number);
}
bool same(const Tree& a, const Tree& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TreeNode& x, const TreeNode& y) {
    return x.kind == y.kind && x.index == y.index && x.number == y.number;
  });
}
bool before(const Tree& a, const Tree& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const TreeNode& x, const TreeNode& y) {
    if (x.kind != y.kind) return x.kind > y.kind;
    return x.index != y.index ? x.index < y.index : x.number < y.number;
  });
}

/// The argument that stands for all of the function, or nothing.
const Tree* only(const Function& function, const std::vector<Tree>& arguments) {
  const std::string_view name = function.name;
  if (name == "if" && is_number(arguments[0])) return &arguments[arguments[0][0].number != 0 ? 1 : 2];
  if (function.arguments != 2) return nullptr;
  if (name == "-" && is_number(arguments[1], 0)) return &arguments[0];
  if ((name == "*" || name == "/") && is_number(arguments[1], 1)) return &arguments[0];
  if (name == "*" && is_number(arguments[0], 1)) return &arguments[1];
  if ((name == "min2" || name == "max2") && same(arguments[0], arguments[1])) return &arguments[0];
  return nullptr;
}

Tree simplified_at(const Tree& tree, std::size_t& at) {
  TreeNode node = tree[at++];
  if (node.kind != Kind::function) return {node};
  const Function& function = kFunctions[node.index];
  std::vector<Tree> arguments;
  for (std::size_t i = 0; i < function.arguments; ++i) arguments.push_back(simplified_at(tree, at));
  if (function.name != "if" &&
      std::all_of(arguments.begin(), arguments.end(), [](const Tree& a) { return is_number(a); }))
    if (const double value = applied(function, arguments); std::isfinite(value)) return {number_node(value)};
  if (const Tree* all = only(function, arguments)) return *all;
  const std::size_t minus = function_of("-", 1);
  if (node.index == minus && arguments[0][0].kind == Kind::function && arguments[0][0].index == minus)
    return {arguments[0].begin() + 1, arguments[0].end()};
  if (function.name == ">" || function.name == ">=") {
    node = function_node(function.name == ">" ? "<" : "<=", 2);
    std::swap(arguments[0], arguments[1]);
  }
  if (function.commutes && before(arguments[1], arguments[0])) std::swap(arguments[0], arguments[1]);
  Tree all{node};
  for (const Tree& argument : arguments) all.insert(all.end(), argument.begin(), argument.end());
  return all;
}

}  // namespace

std::size_t function_of(std::string_view name, std::size_t arguments) {
  std::size_t row = 0;
  while (row < kFunctions.size() && !(kFunctions[row].name == name && kFunctions[row].arguments == arguments)) ++row;
  return row;
}

std::size_t end_of(const Tree& tree, std::size_t node) {
  for (std::size_t open = 1; open > 0; ++node) open += tree[node].arguments() - 1;
  return node;
}

std::size_t depth_of(std::span<const TreeNode> tree) {
  std::vector<std::size_t> open;  // arguments that are left, a level each
  std::size_t deepest = 0;
  for (const TreeNode& node : tree) {
    deepest = std::max(deepest, open.size() + 1);
    if (node.arguments() > 0) {
      open.push_back(node.arguments());
      continue;
    }
    while (!open.empty() && --open.back() == 0) open.pop_back();
  }
  return deepest;
}

Tree replaced(const Tree& tree, std::size_t node, std::span<const TreeNode> subtree) {
  const auto from = tree.begin() + static_cast<std::ptrdiff_t>(node);
  const auto to = tree.begin() + static_cast<std::ptrdiff_t>(end_of(tree, node));
  Tree all(tree.begin(), from);
  all.insert(all.end(), subtree.begin(), subtree.end());
  all.insert(all.end(), to, tree.end());
  return all;
}

Tree tree_of(const sim::Formula& formula) {
  using Step = sim::Formula::Step;
  std::vector<Tree> stack;
  for (const Step& step : formula.steps()) {
    if (step.kind == Step::Kind::number) {
      stack.push_back({number_node(step.number)});
    } else if (step.kind == Step::Kind::scalar) {
      stack.push_back({{.kind = Kind::name, .index = static_cast<std::uint32_t>(step.slot)}});
    } else if (step.function == "-" && step.arguments == 1 && is_number(stack.back())) {
      stack.back()[0].number = -stack.back()[0].number;  // a number with its sign is one node
    } else {
      Tree all{function_node(step.function, step.arguments)};
      const std::size_t first = stack.size() - step.arguments;
      for (std::size_t i = first; i < stack.size(); ++i) all.insert(all.end(), stack[i].begin(), stack[i].end());
      stack.resize(first);
      stack.push_back(std::move(all));
    }
  }
  return stack.empty() ? Tree{} : std::move(stack.back());
}

std::string text_of(const Tree& tree, std::span<const std::string> names) {
  std::size_t at = 0;
  return text_at(tree, at, names, false);
}

Tree simplified(const Tree& tree) {
  std::size_t at = 0;
  return simplified_at(tree, at);
}

}  // namespace orrery::experiments::evolve
