#include "experiments/feedback/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/base/config_parts.hpp"
#include "sim/base/home.hpp"

namespace orrery::experiments::feedback {
namespace {

using sim::Node;

constexpr std::size_t kMostCalls = 64;

/// What the training system reads for a model.
Node training_part(const Node& root, const Node& model, bool value_head, std::int64_t sequence) {
  const auto at_model = [&](Node node) {
    node.set_origin(place_of(model, "config"));
    return node;
  };
  Node decoder = at_model(Node::object());
  decoder.set("config", *model.find("config"));
  decoder.set("loss", at_model(Node::boolean(true)));
  decoder.set("value_head", at_model(Node::boolean(value_head)));
  Node builder = at_model(Node::object());
  builder.set("policy", at_model(Node::string("decoder")));
  builder.set("decoder", std::move(decoder));
  Node graph = at_model(Node::object());
  graph.set("builder", std::move(builder));
  Node workload = Node::object();
  workload.set("sequence", Node::integer(sequence));
  Node own = Node::object();
  own.set_origin(root.origin());
  own.set("machine", section(root, "machine"));
  own.set("model", std::move(graph));
  own.set("workload", std::move(workload));
  return own;
}

void draw_answers(FeedbackConfig& config) {
  const WorkloadParams& work = config.params.workload;
  config.answer_tokens = work.generated;
  if (!work.answers) return;
  sim::RandomStream random(static_cast<std::uint64_t>(config.params.run.seed), "answers");
  const auto sampler = work.answers->make();
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < work.sequences; ++i) {
    config.answers.push_back(std::min(work.generated, sampler->sample(random).output_tokens));
    sum += config.answers.back();
  }
  config.answer_tokens = (sum + work.sequences - 1) / work.sequences;
}

void read_models(const Node& root, const sim::RegistrySet& registries, FeedbackConfig& config, sim::Faults& faults) {
  const std::vector<ModelParams>& models = config.params.models;
  if (models.empty()) faults.add(place_of(root, "models"), "expected at least one model, got none");
  std::map<std::string, std::size_t> names;
  std::map<std::pair<std::string, bool>, std::size_t> known;
  for (std::size_t i = 0; i < models.size() && faults.empty(); ++i) {
    const Node& node = root.find("models")->items()[i];
    if (!names.try_emplace(models[i].name, i).second)
      faults.add(place_of(node, "name"), fmt::format("expected a name of its own, '{}' is models.{}'s too",
                                                     models[i].name, names.at(models[i].name)));
    const auto [kind, fresh] = known.try_emplace({models[i].config, models[i].value_head}, config.kinds.size());
    config.kind_of.push_back(kind->second);
    if (!fresh) continue;
    auto own = training::read_training_config(
        training_part(root, node, models[i].value_head, config.params.workload.prompt + config.answer_tokens),
        registries, faults);
    if (!faults.empty()) return;
    config.inputs.insert(config.inputs.end(), own.inputs.begin(), own.inputs.end());
    config.machine = std::move(own.machine);
    config.schedule = own.params.policies.schedule;
    config.kinds.push_back(std::move(own.model));
    config.transformers.push_back(
        models::load_model(models[i].config, sim::home_folder() / "models/catalog", place_of(node, "config")));
  }
}

void read_calls(const Node& root, FeedbackConfig& config, sim::Faults& faults) {
  const Sections& params = config.params;
  if (params.calls.empty()) faults.add(place_of(root, "calls"), "expected at least one call, got none");
  if (params.calls.size() > kMostCalls)
    faults.add(place_of(root, "calls"),
               fmt::format("expected at most {} calls, got {}", kMostCalls, params.calls.size()));
  if (!faults.empty()) return;
  const auto index_of = [&](const auto& all, const std::string& name, std::size_t count, const sim::Origin& where,
                            const char* what) -> std::size_t {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      if (all[i].name == name) return i;
      names.push_back(all[i].name);
    }
    faults.add(where, fmt::format("expected {}, got '{}'", what, name), sim::name_hint(name, std::move(names)));
    return 0;
  };
  for (std::size_t i = 0; i < params.calls.size(); ++i) {
    const CallParams& one = params.calls[i];
    const Node& node = root.find("calls")->items()[i];
    Call call{.name = one.name, .kind = one.kind, .layout = one.layout};
    for (std::size_t k = 0; k < i; ++k)
      if (params.calls[k].name == one.name)
        faults.add(place_of(node, "name"),
                   fmt::format("expected a name of its own, '{}' is calls.{}'s too", one.name, k));
    call.model = index_of(params.models, one.model, params.models.size(), place_of(node, "model"), "one of models");
    if (one.kind == CallKind::generate && params.models[call.model].value_head)
      faults.add(place_of(node, "model"),
                 fmt::format("expected a model that writes, '{}' has a value head", one.model));
    for (const std::string& before : one.after)
      call.after.push_back(index_of(params.calls, before, i, place_of(node, "after"), "a call listed before it"));
    if (one.kind == CallKind::train && config.trainer(call.model))
      faults.add(place_of(node, "kind"), fmt::format("expected one call that trains '{}', '{}' does too", one.model,
                                                     config.calls[*config.trainer(call.model)].name));
    if (params.plans.choose == PlanChoice::stated) {
      const sim::Origin where = place_of(node, "layout");
      if (!one.layout) {
        faults.add(where, "expected a layout: plans.choose is stated");
      } else {
        const LayoutParams& l = *one.layout;
        const std::int64_t ranks = l.data * l.pipeline * l.tensor;
        if (ranks > config.machine.devices || l.first > config.machine.devices - ranks)
          faults.add(where, fmt::format("expected devices 0 to {}, got {} to {}", config.machine.devices - 1, l.first,
                                        l.first + ranks - 1));
      }
    }
    config.calls.push_back(std::move(call));
  }
  for (std::size_t i = 0; i < params.models.size(); ++i) {
    if (!params.models[i].in_host) continue;
    const sim::Origin where = place_of(root.find("models")->items()[i], "in_host");
    if (const auto trainer = config.trainer(i))
      faults.add(where, fmt::format("expected false: '{}' trains the model", config.calls[*trainer].name));
    if (!config.machine.host_link) faults.add(where, "expected machine.host_link, which leads to the host's memory");
  }
}

}  // namespace

std::optional<std::size_t> FeedbackConfig::trainer(std::size_t model) const {
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].model == model && calls[i].kind == CallKind::train) return i;
  return std::nullopt;
}

std::optional<std::size_t> FeedbackConfig::trained_before(std::size_t call, std::size_t round) const {
  if (!trainer(calls[call].model)) return std::nullopt;
  const bool generates = calls[call].kind == CallKind::generate;
  const std::size_t behind = 1 + (generates ? static_cast<std::size_t>(params.workload.lag) : 0);
  if (round < behind) return std::nullopt;
  return round - behind;
}

FeedbackConfig read_feedback_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  FeedbackConfig config;
  config.file = root.origin().file;
  config.params = read_sections<Sections>(root, registries, faults);
  if (!faults.empty()) return config;
  const WorkloadParams& workload = config.params.workload;
  if (workload.sequences % workload.minibatches != 0)
    faults.add(
        place_of(section(root, "workload"), "minibatches"),
        fmt::format("expected minibatches that divide {} sequences, got {}", workload.sequences, workload.minibatches));
  if (!config.params.machine.clusters.empty())
    faults.add(place_of(section(root, "machine"), "clusters"),
               "expected none: calls on nodes with unlike adapters are not modelled");
  if (!config.params.machine.slow.empty())
    faults.add(place_of(section(root, "machine"), "slow_nodes"), "expected none: calls are priced on equal nodes");
  if (faults.empty()) draw_answers(config);
  read_models(root, registries, config, faults);
  if (faults.empty()) read_calls(root, config, faults);
  if (!faults.empty()) return config;
  constexpr std::int64_t kMostDevices = 4096;
  if (config.machine.devices > kMostDevices)
    faults.add(place_of(section(root, "machine"), "devices"),
               fmt::format("expected at most {} devices, got {}", kMostDevices, config.machine.devices));
  if (config.machine.devices > config.machine.node_devices && config.machine.devices % config.machine.node_devices != 0)
    faults.add(
        place_of(section(root, "machine"), "devices"),
        fmt::format("expected whole nodes of {}, got {} devices", config.machine.node_devices, config.machine.devices));
  config.resolved = resolved_config("rlhf", config.params);
  return config;
}

}  // namespace orrery::experiments::feedback
