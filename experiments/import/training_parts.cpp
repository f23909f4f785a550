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

}  // namespace orrery::experiments
