// Policies as data: a score that a config gives as text, a formula over the fields of what a policy sees.
//
//   "policies": {"batching": {"policy": "expression", "expression": {"score": "predicted_left - 20 * waited_s"}}}
//
// What an expression may name stands in one table a subject (a waiting sequence, a replica, a request that asks to come
// in): parsing, `orrery describe expression` and what proposers of expressions are told come from it. An expression is
// a sim::Formula of scalars: no series, no assignments, no loops, at most kMostExpressionText characters; it is parsed
// once and evaluated without allocation. A subject's header (batching/sequence_score.hpp, routing/replica_score.hpp,
// admission/request_rule.hpp) defines its facts and its table; an Expression over them is the type of a parameter.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/formula.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

inline constexpr std::size_t kMostExpressionText = 4000;

/// What is known of a name whatever it is the name of.
struct NameInfo {
  const char* name;
  sim::Unit unit;
  const char* doc;
  bool live = false;  ///< it changes by itself while what is scored waits, or is only kept for who asks for it
};

/// A name that expressions over `Facts` may use.
template <class Facts>
struct ExpressionName {
  NameInfo info;
  double (*value)(const Facts&);
};

/// Specialised a subject: `names`, a constexpr array of ExpressionName<Facts>.
template <class Facts>
struct ExpressionNames;

/// Orders scores as integers do, so that a queue can be kept by them: NaN comes last, zeros are equal.
std::int64_t score_key(double score);

/// The formula of a text over names in that order; nothing if there was a fault.
std::optional<sim::Formula> parse_expression(std::string_view text, std::span<const NameInfo> names,
                                             const sim::Origin& where, sim::Faults& faults);

/// The names of a subject as data.
template <class Facts>
std::vector<NameInfo> expression_names() {
  std::vector<NameInfo> all;
  for (const ExpressionName<Facts>& one : ExpressionNames<Facts>::names) all.push_back(one.info);
  return all;
}

template <class Facts>
class Expression {
 public:
  Expression() : Expression("0") {}
  /// Throws sim::ConfigError for a text that is none.
  explicit Expression(std::string text) {
    sim::Faults faults;
    if (!read(std::move(text), {}, faults)) faults.throw_if_any();
  }
  /// Replaces it by that of another text; false, and no change, after a fault.
  bool read(std::string text, const sim::Origin& where, sim::Faults& faults) {
    auto formula = parse_expression(text, expression_names<Facts>(), where, faults);
    if (!formula) return false;
    formula_ = std::move(*formula);
    text_ = std::move(text);
    return true;
  }

  const std::string& text() const { return text_; }
  double operator()(const Facts& facts) const {
    std::array<double, ExpressionNames<Facts>::names.size()> values;
    for (const std::size_t slot : formula_.scalars_used())
      values[slot] = ExpressionNames<Facts>::names[slot].value(facts);
    return formula_.number({.scalars = values, .series = {}});
  }
  /// Whether it reads this name.
  bool reads(std::string_view name) const {
    for (const std::size_t slot : formula_.scalars_used())
      if (ExpressionNames<Facts>::names[slot].info.name == name) return true;
    return false;
  }
  /// Whether it reads a name that is live.
  bool reads_live() const {
    for (const std::size_t slot : formula_.scalars_used())
      if (ExpressionNames<Facts>::names[slot].info.live) return true;
    return false;
  }

 private:
  std::string text_;
  sim::Formula formula_;
};

}  // namespace orrery::policies
