// The table of a training.
#include <fmt/format.h>

#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;

/// "12.5 (10 to 15 between the quartiles)" over the seeds.
std::string spread(const Node* node) {
  const Node* median = node == nullptr || node->is_null() ? nullptr : node->find("p50");
  if (median == nullptr || !median->is_number()) return "-";
  return fmt::format("{:.6g} (quartiles {:.6g}, {:.6g})", median->as_number(), node->find("p25")->as_number(),
                     node->find("p75")->as_number());
}

}  // namespace

std::string rl_table(const Node& summary) {
  std::string out = fmt::format("{} learns {}: {} steps, medians of {} seeds\n", summary.find("learner")->as_string(),
                                summary.find("env")->as_string(), summary.find("steps")->as_integer(),
                                summary.find("seeds")->as_integer());
  const auto line = [&](const char* label, const Node* node) {
    if (node != nullptr && !node->is_null()) out += fmt::format("{:<17}{}\n", label, spread(node));
  };
  line("untrained", summary.find("untrained_return"));
  line("return", summary.find("eval_return"));
  line("best return", summary.find("best_return"));
  if (const Node* solved = summary.find("steps_to_target"); solved != nullptr && solved->is_object())
    out += fmt::format("{:<17}{}, {} of {} seeds\n", "steps to target", spread(solved),
                       solved->find("count")->as_integer(), summary.find("seeds")->as_integer());
  for (const auto& [name, values] : summary.find("info")->members()) line(name.c_str(), &values);
  return out;
}

}  // namespace orrery::tools
