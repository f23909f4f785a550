#include "experiments/systems/serving/restate.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "experiments/base/shown_name.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

std::string text_at(const Node& node, std::string_view path) {
  const Node* value = node.at(path);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

std::int64_t count_at(const Node& node, std::string_view path, std::int64_t otherwise = 1) {
  const Node* value = node.at(path);
  return value != nullptr && value->is_number() ? static_cast<std::int64_t>(value->as_number()) : otherwise;
}

void append(std::string& text, const std::string& more, std::string_view between = ", ") {
  if (more.empty()) return;
  if (!text.empty()) text += between;
  text += more;
}

std::string model_of(const Node& resolved) {
  std::string text = shown_name(text_at(resolved, "model.config"));
  append(text, text_at(resolved, "model.dtype"));
  if (const std::string weights = text_at(resolved, "model.weight_dtype"); !weights.empty())
    append(text, "weights " + weights);
  if (const std::string kv = text_at(resolved, "model.kv_dtype"); !kv.empty()) append(text, "KV cache " + kv);
  return text;
}

/// "2 x h100-sxm5-80gb at 1.2 GHz".
std::string machine_of(const Node& resolved) {
  std::string text;
  const Node* devices = resolved.at("machine.devices");
  if (devices == nullptr || !devices->is_array()) return text;
  for (const Node& group : devices->items()) {
    std::string one = fmt::format("{} x {}", count_at(group, "count"), shown_name(text_at(group, "part")));
    if (const Node* clock = group.find("clock"); clock != nullptr && clock->is_string())
      if (const auto hertz = sim::parse_quantity(clock->as_string(), sim::Unit::hertz))
        one += " at " + sim::humanise(*hertz, sim::Unit::hertz);
    if (const Node* memory = group.find("attention"); memory != nullptr && memory->is_object())
      one += " with " + shown_name(text_at(*memory, "part"));
    append(text, one);
  }
  const Node* machine = resolved.find("machine");
  if (const Node* platform = machine->find("platform"); platform != nullptr && platform->is_object())
    append(text, "launched by " + shown_name(text_at(*platform, "part")));
  if (const Node* network = machine->find("network"); network != nullptr && network->is_object())
    append(text, "on a network of its own");
  return text;
}

/// How a replica's devices share the work; what a group does not say, `others` does: the section `replica`, and `whole`
/// where that does not either.
std::string plan_of(const Node& replica, const Node* others, std::int64_t whole, std::int64_t count) {
  const auto value = [&](const char* key, std::int64_t otherwise) {
    for (const Node* said : {&replica, others})
      if (const Node* number = said != nullptr ? said->find(key) : nullptr; number != nullptr && number->is_number())
        return static_cast<std::int64_t>(number->as_number());
    return otherwise;
  };
  std::string text =
      fmt::format("{} replica{} of tensor parallel {}", count, count == 1 ? "" : "s", value("tensor_parallel", whole));
  const auto add = [&](const char* key, const char* shown) {
    if (const std::int64_t ways = value(key, 1); ways > 1) text += fmt::format(", {} {}", shown, ways);
  };
  add("pipeline_parallel", "pipeline stages");
  add("data_parallel", "data parallel");
  add("expert_parallel", "expert parallel");
  if (const std::string role = text_at(replica, "role"); !role.empty() && role != "both") text += " (" + role + ")";
  return text;
}

std::string plans_of(const Node& resolved) {
  const Node* groups = resolved.at("cluster.replicas");
  const Node* replica = resolved.find("replica");
  if (const Node* modes = resolved.at("layouts.modes");
      modes != nullptr && modes->is_array() && !modes->items().empty()) {
    std::string text;
    for (const Node& mode : modes->items())
      append(text,
             fmt::format("tensor parallel {} with {} pipeline stages", count_at(mode, "tensor_parallel"),
                         count_at(mode, "pipeline_parallel")),
             " or ");
    return text;
  }
  if (groups == nullptr || !groups->is_array() || groups->items().empty()) {
    const Node* devices = resolved.at("machine.devices");
    const bool any = devices != nullptr && devices->is_array() && !devices->items().empty();
    return replica != nullptr ? plan_of(*replica, nullptr, any ? count_at(devices->items().front(), "count") : 1, 1)
                              : "";
  }
  std::string text;
  for (const Node& group : groups->items()) append(text, plan_of(group, replica, 1, count_at(group, "count")), "; ");
  return text;
}

/// The batching policy with what bounds its iterations, and every other policy that is not the plain one.
std::string policies_of(const Node& resolved) {
  const std::string batching = text_at(resolved, "policies.batching.policy");
  std::string bounds;
  for (const char* key :
       {"token_budget", "max_num_batched_tokens", "max_batched_tokens", "max_sequences", "max_num_seqs"}) {
    const Node* value = resolved.at("policies.batching." + batching + "." + key);
    if (value != nullptr && value->is_number()) append(bounds, fmt::format("{} {}", key, value->as_number()));
  }
  std::string text = batching + (bounds.empty() ? "" : " (" + bounds + ")");
  constexpr std::pair<const char*, const char*> kPlain[] = {
      {"kvcache", ""}, {"speculation", "none"}, {"admission", "all"}, {"migration", "none"}};
  for (const auto& [kind, plain] : kPlain)
    if (const std::string policy = text_at(resolved, fmt::format("policies.{}.policy", kind)); policy != plain)
      append(text, policy);
  return text;
}

/// Where the experts are, if the devices do not hold them all; else nothing.
std::string experts_of(const Node& resolved) {
  const Node* memory = resolved.at("replica.expert_memory");
  if (memory == nullptr || !memory->is_object()) return "";
  const std::string drive = text_at(*memory, "storage");
  const auto part = [](const std::string& name) { return name.substr(name.find(':') + 1); };
  return fmt::format("{:.3g} % in device memory ({}), the others in host memory{} over {}: {}",
                     100 * memory->find("share")->as_number(), text_at(*memory, "cache.policy"),
                     drive.empty() ? "" : fmt::format(" or on {}", part(drive)), part(text_at(*memory, "link")),
                     text_at(*memory, "schedule.policy"));
}

std::string targets_of(const Node& resolved) {
  std::string text;
  for (const auto& [key, shown] : {std::pair{"ttft", "TTFT"}, std::pair{"tbt", "TBT"}}) {
    const auto seconds = sim::parse_quantity(text_at(resolved, fmt::format("slo.{}", key)), sim::Unit::seconds);
    if (seconds) append(text, fmt::format("{} {}", shown, sim::humanise(*seconds, sim::Unit::seconds)));
  }
  if (const Node* limits = resolved.at("capacity.limits"); limits != nullptr && limits->is_array())
    for (const Node& limit : limits->items())
      append(text, fmt::format("{} of {} {}", text_at(limit, "at"), text_at(limit, "metric"), text_at(limit, "most")));
  if (const Node* share = resolved.at("capacity.attainment"); share != nullptr && share->is_number())
    text += fmt::format(", for {:g} % of requests", 100 * share->as_number());
  return text.empty() ? "none (slo.ttft, slo.tbt)" : text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> restate_serving(const Node& resolved) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"model", model_of(resolved)},
      {"machine", machine_of(resolved) + "; " + plans_of(resolved)},
      {"policies", policies_of(resolved)},
      {"targets", targets_of(resolved)}};
  if (const std::string experts = experts_of(resolved); !experts.empty())
    rows.insert(rows.begin() + 2, {"experts", experts});
  return rows;
}

}  // namespace orrery::experiments
