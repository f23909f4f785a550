#include "experiments/import/training_parts.hpp"

#include <algorithm>

namespace orrery::experiments {

using sim::Node;

namespace training_parts {

Node& section(Node& root, const char* name) {
  Node* found = root.find(name);
  return found != nullptr ? *found : root.set(name, Node::object());
}

}  // namespace training_parts

Node training_root(ArgumentReader& reader, const TrainingImport& options, std::int64_t devices) {
  Node root = Node::object();
  root.set("kind", Node::string("experiment"));
  root.set("version", Node::integer(1));
  root.set("system", Node::string("training"));
  if (!options.part) reader.note("the part is not known: h100-sxm5-80gb is assumed, --part names another");
  Node group = Node::object();
  group.set("part", Node::string(options.part.value_or("h100-sxm5-80gb")));
  group.set("count", Node::integer(std::max<std::int64_t>(1, devices)));
  Node& machine = root.set("machine", Node::object());
  machine.set("devices", Node::array()).push(std::move(group));
  if (devices > 8) reader.note("nodes of eight devices with a 200 Gb/s adapter each: set machine.node to yours");
  return root;
}

void set_builder(Node& root, const char* builder, Node params) {
  params.set("loss", Node::boolean(true));
  Node& choice = root.set("model", Node::object()).set("builder", Node::object());
  choice.set("policy", Node::string(builder));
  choice.set(builder, std::move(params));
}

void set_passes(Node& root, bool fused) {
  if (!fused) return;
  Node& passes = training_parts::section(root, "policies").set("passes", Node::object());
  passes.set("order", Node::array()).push(Node::string("loop_fusion"));
  passes.set("loop_fusion", Node::object()).set("epilogues", Node::boolean(false));  // products stay the library's
}

Node pytorch_decoder(const std::string& config, bool compiled) {
  Node params = Node::object();
  params.set("config", Node::string(config));
  params.set("passes", Node::string("eager"));
  if (!compiled) params.set("eager_loss", Node::boolean(true));
  return params;
}

Node& set_policy(Node& root, const char* kind, const char* name) {
  Node& choice = training_parts::section(root, "policies").set(kind, Node::object());
  choice.set("policy", Node::string(name));
  return choice.set(name, Node::object());
}

void set_host_link(Node& root) {
  root.find("machine")->set("host_link", Node::string("pcie5-x16"));
}

std::string set_host_updates(Node& root) {
  set_host_link(root);
  // Four H100 of one node, fitted (docs/explain/deep-optimizer-states.md).
  Node& host = root.find("machine")->set("host_update", Node::object());
  for (const auto& [name, rate] :
       {std::pair{"adam", "7.2e9 1/s"}, {"cast", "36e9 1/s"}, {"widen", "3.8e9 1/s"}, {"staging", "95 GB/s"}})
    host.set(name, Node::string(rate));
  (void)set_policy(root, "offload", "host");
  return "the host updates the optimizer's states at the rates of a node of four H100, over PCIe 5.0 x16: set "
         "machine.host_update and machine.host_link to yours";
}

}  // namespace orrery::experiments
