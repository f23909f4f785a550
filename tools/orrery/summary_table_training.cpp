// The table of a training run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

constexpr std::size_t kStages = 16;  // rows; stages.csv has all

std::string part_of_step(const Node& summary, const char* name, const char* what) {
  const double whole = number_at(summary, "iteration_s");
  const double own = number_at(summary, fmt::format("breakdown_s.{}", name));
  return fmt::format("  {:<44} {:>10} {:>6.1f} %\n", what, sim::humanise(own, Unit::seconds),
                     whole > 0 ? 100 * own / whole : 0);
}

std::string plan_text(const Node& summary) {
  const double context = number_at(summary, "plan.context_parallel"),
               experts = number_at(summary, "plan.expert_parallel");
  return fmt::format(
      "plan         tensor {:.0f}{} x pipeline {:.0f} x data {:.0f}{}, {:.0f} micro-batches\n",
      number_at(summary, "plan.tensor_parallel"), context > 1 ? fmt::format(" x context {:.0f}", context) : "",
      number_at(summary, "plan.pipeline_parallel"), number_at(summary, "plan.data_parallel"),
      experts > 1 ? fmt::format(", experts over {:.0f} ranks", experts) : "", number_at(summary, "plan.micro_batches"));
}

/// When the fullest stage is so full; nothing where that is in its passes.
std::string moment_text(const Node& summary) {
  const Node* fullest = nullptr;
  for (const Node& stage : summary.at("stages")->items())
    if (fullest == nullptr || number_at(stage, "memory_bytes.peak") > number_at(*fullest, "memory_bytes.peak"))
      fullest = &stage;
  if (fullest == nullptr || fullest->find("memory_moment") == nullptr) return "";
  const std::string& moment = fullest->find("memory_moment")->as_string();
  if (moment == "update") return ", in the optimizer's update";
  return moment == "last_gradients" ? ", when the last gradients are made" : "";
}

/// What lies in the host's memory, and what it costs; nothing where nothing does.
std::string host_text(const Node& summary) {
  const double used = number_at(summary, "host_bytes.used");
  if (used <= 0) return "";
  double waits = 0;
  for (const Node& stage : summary.at("stages")->items()) waits = std::max(waits, number_at(stage, "host_waits_s"));
  const std::string of = summary.at("host_bytes.available") == nullptr
                             ? ""
                             : " of " + sim::humanise(number_at(summary, "host_bytes.available"), Unit::bytes);
  return fmt::format("host         {}{} in the memory of the fullest node; passes of a stage wait {} a step for it\n",
                     sim::humanise(used, Unit::bytes), of, sim::humanise(waits, Unit::seconds));
}

/// What work that runs at once costs the passes; nothing where that slows nothing.
std::string interference_text(const Node& summary) {
  double longer = 0;
  for (const Node& stage : summary.at("stages")->items())
    longer = std::max(longer, number_at(stage, "interference_s"));
  if (longer <= 0) return "";
  return fmt::format("at once      passes of a stage take {} a step longer beside collectives and copies\n",
                     sim::humanise(longer, Unit::seconds));
}

}  // namespace

std::string training_table(const Node& summary) {
  const auto bytes = [&](const Node& node, std::string_view path) { return figure(node, path, Unit::bytes); };
  std::string out =
      fmt::format("step         {}: {:.4g} tokens/s, MFU {:.1f} % (closed form: {})\n",
                  figure(summary, "iteration_s", Unit::seconds), number_at(summary, "tokens_per_s"),
                  100 * number_at(summary, "utilisation.mfu"), figure(summary, "closed_form_s", Unit::seconds));
  out += plan_text(summary);
  out += part_of_step(summary, "compute", "kernels, or the host if they wait for it");
  out += part_of_step(summary, "recompute", "recomputed forward passes");
  out += part_of_step(summary, "collectives", "collectives within a layer");
  out += part_of_step(summary, "bubble", "bubble: waiting for other stages");
  out += part_of_step(summary, "gradients", "exposed gradient reduction");
  out += part_of_step(summary, "optimizer", "optimizer");
  out += fmt::format("memory       {} of {} on the fullest rank{}\n", bytes(summary, "memory_bytes.peak"),
                     bytes(summary, "memory_bytes.available"), moment_text(summary));
  if (summary.at("memory_bytes.reserved") != nullptr)
    out += fmt::format("reserved     {} by PyTorch's allocator\n", bytes(summary, "memory_bytes.reserved"));
  out += host_text(summary);
  out += interference_text(summary);
  if (summary.at("experts.busiest") != nullptr)
    out += fmt::format("experts      the busiest of {:.0f} ranks has {:.2f} times the mean's rows; all wait for it\n",
                       number_at(summary, "plan.expert_parallel"), number_at(summary, "experts.busiest"));
  out += fmt::format("energy       {} a step, {} of it idle\n", figure(summary, "energy_j.total", Unit::joules),
                     figure(summary, "energy_j.idle", Unit::joules));
  if (summary.find("whole") != nullptr) {
    out += fmt::format("whole        {:.4g} days, {:.4g} device hours, {}", number_at(summary, "whole.days"),
                       number_at(summary, "whole.device_hours"), figure(summary, "whole.energy_j", Unit::joules));
    if (summary.at("whole.cost") != nullptr) out += fmt::format(", cost {:.4g}", number_at(summary, "whole.cost"));
    out += '\n';
  }
  out += fmt::format("\n{:>6} {:>7} {:>10} {:>10} {:>10}", "stage", "layers", "forward", "backward", "busy");
  const std::array held{"weights", "gradients", "optimizer", "activations", "working", "peak"};
  for (const char* what : held) out += fmt::format(" {:>11}", what == std::string_view("peak") ? "all" : what);
  out += '\n';
  const std::vector<Node>& stages = summary.find("stages")->items();
  for (std::size_t i = 0; i < std::min(kStages, stages.size()); ++i) {
    out += fmt::format("{:>6} {:>7.0f} {:>10} {:>10} {:>10}", i, number_at(stages[i], "layers"),
                       figure(stages[i], "forward_s", Unit::seconds), figure(stages[i], "backward_s", Unit::seconds),
                       figure(stages[i], "busy_s", Unit::seconds));
    for (const char* what : held) out += fmt::format(" {:>11}", bytes(stages[i], fmt::format("memory_bytes.{}", what)));
    out += '\n';
  }
  if (stages.size() > kStages) out += fmt::format("{:>6} and {} more: stages.csv\n", "…", stages.size() - kStages);
  return out;
}

}  // namespace orrery::tools
