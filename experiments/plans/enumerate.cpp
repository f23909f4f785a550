// The lists of a plan search, multiplied out.
#include <fmt/format.h>

#include "experiments/plans/plan.hpp"

namespace orrery::experiments {
namespace plans {
namespace {

using sim::Node;

/// Lists, or what stands for an empty one.
template <class T>
std::vector<T> or_else(std::vector<T> list, std::vector<T> fallback) {
  return list.empty() ? fallback : list;
}

/// Every number of devices that share a layer, unless the lists name some.
std::vector<std::int64_t> widths_of(const PlansParams& params, std::int64_t devices) {
  std::vector<std::int64_t> widths = params.tensor_parallel;
  if (widths.empty())
    for (std::int64_t tp = 1; tp <= devices; tp *= 2) widths.push_back(tp);
  return widths;
}

/// Ways to divide so many devices into equal replicas: as many of these as there is room for.
void add_equal(const PlansParams& params, std::int64_t own_ep, std::int64_t devices, std::vector<Plan>& out) {
  for (const std::int64_t tp : widths_of(params, devices)) {
    for (const std::int64_t pp : or_else(params.pipeline_parallel, {std::int64_t{1}})) {
      for (const std::int64_t lanes : or_else(params.data_parallel, {std::int64_t{1}})) {
        const std::int64_t each = tp * pp * lanes;
        if (each > devices || devices % each != 0 || (pp > 1 && lanes > 1)) continue;
        for (const std::int64_t ep : or_else(params.expert_parallel, {own_ep})) {
          if (!params.expert_parallel.empty() && tp * lanes % ep != 0) continue;
          Plan plan;
          plan.devices = devices;
          plan.tp = tp;
          plan.pp = pp;
          plan.lanes = lanes;
          plan.ep = ep;
          plan.replicas = devices / each;
          out.push_back(plan);
        }
      }
    }
  }
}

Node role_group(const char* role, std::int64_t count, std::int64_t tp) {
  Node group = Node::object();
  group.set("name", Node::string(role));
  group.set("role", Node::string(role));
  group.set("count", Node::integer(count));
  group.set("tensor_parallel", Node::integer(tp));
  return group;
}

/// Ways to divide them between prefill and decode.
void add_disaggregated(const PlansParams& params, std::int64_t devices, std::vector<Plan>& out) {
  const std::vector<std::int64_t> widths = widths_of(params, devices);
  for (const std::int64_t prefill : widths) {
    for (const std::int64_t decode : widths) {
      for (std::int64_t count = 1; count * prefill < devices; ++count) {
        const std::int64_t left = devices - count * prefill;
        if (left % decode != 0) continue;
        Plan plan;
        plan.devices = devices;
        plan.mix = fmt::format("{} prefill TP {} + {} decode TP {}", count, prefill, left / decode, decode);
        plan.groups = Node::array();
        plan.groups.push(role_group("prefill", count, prefill));
        plan.groups.push(role_group("decode", left / decode, decode));
        plan.replicas = count + left / decode;
        out.push_back(std::move(plan));
      }
    }
  }
}

/// The mixes that the config names; `written` is the list of them.
void add_mixes(const PlansParams& params, const Node* written, const ServingConfig& config, std::vector<Plan>& out) {
  for (std::size_t i = 0; i < params.mixes.size(); ++i) {
    Plan plan;
    plan.mix = params.mixes[i].name;
    plan.groups = *written->items()[i].find("replicas");
    plan.devices = plan.replicas = 0;
    for (const ReplicaGroupParams& group : params.mixes[i].replicas) {
      const std::int64_t tp = group.tensor_parallel.value_or(config.replica.tensor_parallel.value_or(1));
      plan.devices += group.count * tp * group.pipeline_parallel * group.data_parallel;
      plan.replicas += group.count;
    }
    out.push_back(std::move(plan));
  }
}

}  // namespace

std::vector<Plan> enumerate(const PlansParams& params, const Node& root, const ServingConfig& config) {
  const DeviceGroup& own = config.machine.devices.front();
  std::vector<PartParams> parts = params.parts;
  if (parts.empty()) parts.push_back({.part = own.part});
  std::vector<std::optional<double>> clocks(params.clocks.begin(), params.clocks.end());
  if (clocks.empty()) clocks.push_back(own.clock_hz);
  const std::string own_dtype(sim::to_string(config.model.dtype));
  std::vector<Plan> layouts;
  for (const std::int64_t devices : or_else(params.devices, {own.count})) {
    add_equal(params, config.replica.expert_parallel, devices, layouts);
    if (params.disaggregated) add_disaggregated(params, devices, layouts);
  }
  add_mixes(params, root.at("plans.mixes"), config, layouts);
  std::vector<Plan> all;
  for (const PartParams& part : parts)
    for (const Plan& layout : layouts)
      for (const std::string& batching : or_else(params.batching.items, {config.policies.batching.name}))
        for (const std::string& dtype : or_else(params.dtypes.items, {own_dtype}))
          for (const std::optional<double>& clock : clocks) {
            Plan& plan = all.emplace_back(layout);
            plan.part = part.part;
            plan.price = params.of(part.part);
            plan.batching = batching;
            plan.dtype = dtype;
            plan.clock_hz = clock;
          }
  return all;
}

}  // namespace plans
}  // namespace orrery::experiments
