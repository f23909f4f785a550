// The table of plans to train a model.
#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

double plan_number(const Node& node, std::string_view name) {
  const Node* value = node.find(name);
  return value != nullptr && value->is_number() ? value->as_number() : 0;
}

std::string plan_row(const Node& plan) {
  const Node* ran = plan.find("iteration_s");
  const std::string bubble =
      plan.find("bubble") != nullptr ? fmt::format("{:.1f} %", 100 * plan_number(plan, "bubble")) : "-";
  const std::string stages =
      plan_number(plan, "interleave") > 1
          ? fmt::format("{:.0f}x{:.0f}", plan_number(plan, "pipeline_parallel"), plan_number(plan, "interleave"))
          : fmt::format("{:.0f}", plan_number(plan, "pipeline_parallel"));
  return fmt::format(
      "{:>6.0f} {:>6} {:>6.0f} {:>6.0f} {:>4} {:>10} {:>10} {:>11} {:>10.4g} {:>7} {:>11}\n",
      plan_number(plan, "tensor_parallel"), stages, plan_number(plan, "data_parallel"),
      plan_number(plan, "micro_batch"), plan.find("sequence_parallel")->as_boolean() ? "yes" : "no",
      plan.find("recompute")->as_string(), plan.find("zero")->as_string(),
      sim::humanise(ran != nullptr ? ran->as_number() : plan_number(plan, "closed_form_s"), Unit::seconds),
      plan_number(plan, "tokens_per_s"), bubble, sim::humanise(plan_number(plan, "memory_bytes"), Unit::bytes));
}

}  // namespace

std::string training_plans_table(const Node& summary) {
  std::string out = fmt::format("plans        {:.0f} looked at", plan_number(summary, "evaluated"));
  for (const auto& [reason, count] : summary.find("left_out")->members())
    out += fmt::format("; {:.0f}: {}", count.as_number(), reason);
  const std::string head =
      fmt::format("{:>6} {:>6} {:>6} {:>6} {:>4} {:>10} {:>10} {:>11} {:>10} {:>7} {:>11}\n", "tensor", "stages",
                  "copies", "micro", "seq", "recompute", "ZeRO", "step", "tokens/s", "bubble", "memory");
  out += "\n\n" + std::string(25, ' ') + head;
  bool first = true;
  for (const Node& plan : summary.find("training_plans")->items()) {
    out += fmt::format("{:<25}", first ? "best" : "") + plan_row(plan);
    first = false;
  }
  out += "\n";
  for (const auto& [name, plan] : summary.find("kinds")->members())
    if (name != "all") out += fmt::format("{:<25}", name) + plan_row(plan);
  out += "\nRows below the gap are in closed form: the best plan that does without something.\n";
  return out;
}

}  // namespace orrery::tools
