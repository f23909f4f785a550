// The table of plans to train a model.
#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

/// Ranks of tensor parallelism, and those of context parallelism behind a c where there are several.
std::string tensor_ranks(const Node& plan) {
  const double context = number_at(plan, "context_parallel");
  return fmt::format("{:.0f}", number_at(plan, "tensor_parallel")) +
         (context > 1 ? fmt::format("c{:.0f}", context) : "");
}

/// Copies, and ranks that share experts behind an e where there are several.
std::string copies(const Node& plan) {
  const double experts = number_at(plan, "expert_parallel");
  return fmt::format("{:.0f}", number_at(plan, "data_parallel")) + (experts > 1 ? fmt::format("e{:.0f}", experts) : "");
}

const std::string& offload_of(const Node& plan) {
  return plan.find("offload")->as_string();
}

std::string plan_row(const Node& plan) {
  const Node* ran = plan.find("iteration_s");
  const std::string bubble =
      plan.find("bubble") != nullptr ? fmt::format("{:.1f} %", 100 * number_at(plan, "bubble")) : "-";
  const std::string stages =
      number_at(plan, "interleave") > 1
          ? fmt::format("{:.0f}x{:.0f}", number_at(plan, "pipeline_parallel"), number_at(plan, "interleave"))
          : fmt::format("{:.0f}", number_at(plan, "pipeline_parallel"));
  std::string row = fmt::format(
      "{:>6} {:>6} {:>6} {:>6.0f} {:>4} {:>10} {:>10} {:>11} {:>10.4g} {:>7} {:>11}", tensor_ranks(plan), stages,
      copies(plan), number_at(plan, "micro_batch"), plan.find("sequence_parallel")->as_boolean() ? "yes" : "no",
      plan.find("recompute")->as_string(), plan.find("zero")->as_string(),
      sim::humanise(ran != nullptr ? ran->as_number() : number_at(plan, "closed_form_s"), Unit::seconds),
      number_at(plan, "tokens_per_s"), bubble, sim::humanise(number_at(plan, "memory_bytes"), Unit::bytes));
  if (!plan.find("stages_alike")->as_boolean())
    row += "  layers " + plan.find("stage_layers")->as_string() + ", run again " +
           plan.find("stage_recompute_layers")->as_string();
  if (!offload_of(plan).empty()) row += "  in host memory " + offload_of(plan);
  return row + "\n";
}

/// A plan in the words that `--explain` takes.
std::string plan_words(const Node& plan) {
  const double chunks = number_at(plan, "interleave");
  return fmt::format("{} {:.0f}{} {} {:.0f} {} {} {}{}", tensor_ranks(plan), number_at(plan, "pipeline_parallel"),
                     chunks > 1 ? fmt::format("x{:.0f}", chunks) : "", copies(plan), number_at(plan, "micro_batch"),
                     plan.find("sequence_parallel")->as_boolean() ? "yes" : "no", plan.find("recompute")->as_string(),
                     plan.find("zero")->as_string(), offload_of(plan).empty() ? "" : " " + offload_of(plan));
}

double step_of(const Node& plan) {
  return plan.find("iteration_s") != nullptr ? number_at(plan, "iteration_s") : number_at(plan, "closed_form_s");
}

/// The best by each objective, and what it gives up against the best by each other.
std::string objectives_text(const Node& summary) {
  const Node* bests = summary.find("objectives");
  if (bests == nullptr || bests->members().empty()) return {};
  struct Objective {
    const char *name, *label;
    double (*figure)(const Node&);
  };
  static constexpr Objective kObjectives[] = {
      {"time", "step", [](const Node& plan) { return number_at(plan, "closed_form_s"); }},
      {"memory", "memory", [](const Node& plan) { return number_at(plan, "memory_bytes"); }},
      {"energy", "energy", [](const Node& plan) { return number_at(plan, "energy_j"); }},
      {"cost", "device hours",
       [](const Node& plan) { return number_at(plan, "closed_form_s") * number_at(plan, "devices"); }}};
  std::string out = "\nBest by      plan, and how far it is behind the best by the others\n";
  for (const Objective& own : kObjectives) {
    const Node* plan = bests->find(own.name);
    if (plan == nullptr) continue;
    out += fmt::format("  {:<13}{:<34}", own.label, plan_words(*plan));
    for (const Objective& other : kObjectives)
      if (const Node* best = bests->find(other.name); best != nullptr && other.name != own.name)
        out += fmt::format("  {} {:+.1f} %", other.label, 100 * (other.figure(*plan) / other.figure(*best) - 1));
    out += "\n";
  }
  return out;
}

/// Where the plan asked about loses and gains time against the best.
std::string explained_text(const Node& asked, const Node& best) {
  std::string out = "\nasked        " + plan_words(asked);
  if (const Node* reason = asked.find("reason")) out += ": cannot be; " + reason->as_string();
  if (step_of(asked) <= 0) return out + "\n";
  out += fmt::format("\n             {} a step, the best {}\n", sim::humanise(step_of(asked), Unit::seconds),
                     sim::humanise(step_of(best), Unit::seconds));
  struct Part {
    const char *path, *words;
  };
  static constexpr Part kParts[] = {{"breakdown_s.compute", "kernels"},
                                    {"breakdown_s.recompute", "recomputed forward passes"},
                                    {"breakdown_s.collectives", "collectives within a layer"},
                                    {"breakdown_s.bubble", "waiting for other stages"},
                                    {"breakdown_s.gradients", "exposed gradient reduction"},
                                    {"breakdown_s.optimizer", "optimizer"}};
  for (const Part& part : kParts) {
    const double more = asked.at(part.path)->as_number() - best.at(part.path)->as_number();
    out += fmt::format("  {:<46}{:>12} against {:>12}  {:+.1f} % of the best's step\n", part.words,
                       sim::humanise(asked.at(part.path)->as_number(), Unit::seconds),
                       sim::humanise(best.at(part.path)->as_number(), Unit::seconds), 100 * more / step_of(best));
  }
  out += fmt::format("  {:<46}{:>12} against {:>12}\n", "memory of the fullest rank",
                     sim::humanise(number_at(asked, "memory_bytes"), Unit::bytes),
                     sim::humanise(number_at(best, "memory_bytes"), Unit::bytes));
  return out;
}

}  // namespace

std::string training_plans_table(const Node& summary) {
  std::string out = fmt::format("plans        {:.0f} looked at", number_at(summary, "evaluated"));
  for (const auto& [reason, count] : summary.find("left_out")->members())
    out += fmt::format("; {:.0f}: {}", count.as_number(), reason);
  const std::string head =
      fmt::format("{:>6} {:>6} {:>6} {:>6} {:>4} {:>10} {:>10} {:>11} {:>10} {:>7} {:>11}\n", "tensor", "stages",
                  "copies", "micro", "seq", "recompute", "ZeRO", "step", "tokens/s", "bubble", "memory");
  out += "\n\n" + std::string(25, ' ') + head;
  bool first = true;
  bool offloads = false;
  for (const Node& plan : summary.find("training_plans")->items()) {
    out += fmt::format("{:<25}", first ? "best" : "") + plan_row(plan);
    first = false;
    offloads = offloads || !offload_of(plan).empty();
  }
  out += "\n";
  for (const auto& [name, plan] : summary.find("kinds")->members())
    if (name != "all") out += fmt::format("{:<25}", name) + plan_row(plan);
  for (const auto& [reason, plan] : summary.find("nearest")->members())
    out += fmt::format("{:<25}", "nearest that does not fit") + plan_row(plan);
  out += "\nRows below the gap are in closed form: the best plan that does without something.\n";
  if (offloads) out += "Shares in host memory: a, activations; o, optimizer states; g, gradients; w, weights.\n";
  out += objectives_text(summary);
  if (const Node* asked = summary.find("explained"))
    for (const auto& [words, plan] : asked->members())
      out += explained_text(plan, summary.find("training_plans")->items().front());
  if (const Node* flags = summary.find("flags")) {
    out += "\nMegatron-LM  " + flags->find("megatron")->as_string() + "\n";
    out += "torchtitan   " + flags->find("torchtitan")->as_string() + "\n";
    if (!offload_of(summary.find("training_plans")->items().front()).empty())
      out += "             what lies in host memory is among these only where a program has an argument for it\n";
  }
  return out;
}

}  // namespace orrery::tools
