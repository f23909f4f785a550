// Expressions as trees, so that they can be measured, simplified and bred.
//
// A tree is what sim::Formula parsed, taken apart: numbers, names (by slot) and functions. There is no second grammar:
// text becomes a tree through the formula's steps, and a tree becomes text that parses to the same tree.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/formula.hpp"

namespace orrery::experiments::evolve {

/// A truth is 1 or 0. What is bred puts truths only where one is meant; text may mix them.
enum class Type : std::uint8_t { number, truth };

struct Function {
  std::string_view name;
  std::size_t arguments;
  Type result = Type::number, first = Type::number, others = Type::number;
  bool bred = false;      ///< in trees drawn at random
  bool commutes = false;  ///< bit for bit
};

/// All functions of formulas of scalars.
inline constexpr std::array kFunctions{
    Function{.name = "+", .arguments = 2, .bred = true, .commutes = true},
    Function{.name = "-", .arguments = 2, .bred = true},
    Function{.name = "*", .arguments = 2, .bred = true, .commutes = true},
    Function{.name = "/", .arguments = 2, .bred = true},
    Function{.name = "min2", .arguments = 2, .bred = true},
    Function{.name = "max2", .arguments = 2, .bred = true},
    Function{.name = "if", .arguments = 3, .first = Type::truth, .bred = true},
    Function{.name = "<", .arguments = 2, .result = Type::truth, .bred = true},
    Function{.name = "<=", .arguments = 2, .result = Type::truth},
    Function{.name = ">", .arguments = 2, .result = Type::truth, .bred = true},
    Function{.name = ">=", .arguments = 2, .result = Type::truth},
    Function{.name = "==", .arguments = 2, .result = Type::truth, .commutes = true},
    Function{.name = "!=", .arguments = 2, .result = Type::truth, .commutes = true},
    Function{.name = "&&",
             .arguments = 2,
             .result = Type::truth,
             .first = Type::truth,
             .others = Type::truth,
             .bred = true,
             .commutes = true},
    Function{.name = "||",
             .arguments = 2,
             .result = Type::truth,
             .first = Type::truth,
             .others = Type::truth,
             .bred = true,
             .commutes = true},
    Function{.name = "!", .arguments = 1, .result = Type::truth, .first = Type::truth},
    Function{.name = "-", .arguments = 1},
    Function{.name = "abs", .arguments = 1},
    Function{.name = "ceil", .arguments = 1},
    Function{.name = "exp", .arguments = 1},
    Function{.name = "floor", .arguments = 1},
    Function{.name = "log", .arguments = 1, .bred = true},
    Function{.name = "log10", .arguments = 1},
    Function{.name = "log2", .arguments = 1},
    Function{.name = "round", .arguments = 1},
    Function{.name = "sqrt", .arguments = 1, .bred = true},
    Function{.name = "^", .arguments = 2},
};

/// Place of a function in the table; its size if there is none.
std::size_t function_of(std::string_view name, std::size_t arguments);

struct TreeNode {
  enum class Kind : std::uint8_t { number, name, function };
  Kind kind = Kind::number;
  std::uint32_t index = 0;  ///< slot of a name, place of a function
  double number = 0;

  std::size_t arguments() const { return kind == Kind::function ? kFunctions[index].arguments : 0; }
  Type type() const { return kind == Kind::function ? kFunctions[index].result : Type::number; }
};

/// Nodes in prefix order: a function before its arguments.
using Tree = std::vector<TreeNode>;

/// One past the subtree that begins at a node.
std::size_t end_of(const Tree& tree, std::size_t node);
/// Nodes on the longest way from the root to a leaf.
std::size_t depth_of(std::span<const TreeNode> tree);
/// The tree with the subtree at `node` replaced.
Tree replaced(const Tree& tree, std::size_t node, std::span<const TreeNode> subtree);

/// The tree of a formula of scalars.
Tree tree_of(const sim::Formula& formula);
/// Text that parses to this tree; `names` by slot.
std::string text_of(const Tree& tree, std::span<const std::string> names);

/// The same value for whatever the names stand for, in as few nodes as these rules find: operations on numbers are
/// carried out (where the result is finite), x - 0, x * 1, x / 1, -(-x), min2(x, x), max2(x, x), and if() of a number
/// go; > becomes <, >= becomes <=, and arguments that commute get an order. So equal expressions mostly look equal.
Tree simplified(const Tree& tree);

}  // namespace orrery::experiments::evolve
