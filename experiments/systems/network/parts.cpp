#include "experiments/systems/network/parts.hpp"

#include <fmt/format.h>

#include "experiments/base/catalog.hpp"
#include "hw/parts/catalog.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/nic.hpp"

namespace orrery::experiments::network {
namespace {

using sim::Node;

struct Figures {
  double bandwidth = 0, latency_s = 0;
};

/// Figures of the part that `reference` names; no bandwidth where there were faults.
Figures figures_of(const Node& reference, sim::Faults& faults) {
  if (!reference.is_string()) {
    faults.add(reference.origin(), "expected the name of a link or nic of the catalog, got " + reference.shown());
    return {};
  }
  const auto file = part_file(reference.as_string(), reference.origin(), faults);
  if (file.empty()) return {};
  const Node node = sim::read_config(file);
  const Node* kind = node.find("kind");
  const std::string name = kind != nullptr && kind->is_string() ? kind->as_string() : "";
  if (name == hw::LinkPart::kKind) {
    const hw::LinkPart link = hw::parse_part<hw::LinkPart>(node, faults).part;
    return {hw::achieved_bandwidth(link), link.latency_s};
  }
  if (name == hw::NicPart::kKind) {
    const hw::NicPart nic = hw::parse_part<hw::NicPart>(node, faults).part;
    return {hw::achieved_bandwidth(nic), hw::message_latency(nic)};
  }
  faults.add(reference.origin(),
             fmt::format("expected a part of kind link or nic, got {} of kind '{}'", reference.shown(), name));
  return {};
}

/// Lays a part's figures into the object that names it.
void lay(Node& object, sim::Faults& faults) {
  const Node reference = *object.find("part");
  const Figures figures = figures_of(reference, faults);
  std::int64_t hops = 1;
  if (const Node* given = object.find("hops")) {
    hops = given->kind() == Node::Kind::integer ? given->as_integer() : 0;
    if (hops < 1) faults.add(given->origin(), "expected a count >= 1, got " + given->shown());
  }
  object.erase("hops");
  object.erase("part");
  const auto set = [&](const char* key, std::string value) {
    if (object.find(key) != nullptr) return;
    Node text = Node::string(std::move(value));
    text.set_origin(reference.origin());
    object.set(key, std::move(text));
  };
  if (!(figures.bandwidth > 0) || hops < 1) return;
  set("bandwidth", fmt::format("{} B/s", figures.bandwidth));
  set("latency", fmt::format("{} s", figures.latency_s / static_cast<double>(hops)));
}

void replace(Node& node, sim::Faults& faults) {
  for (Node& item : node.items()) replace(item, faults);
  if (!node.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : node.members()) keys.push_back(key);
  for (const std::string& key : keys) replace(*node.find(key), faults);
  if (node.find("part") != nullptr) lay(node, faults);
}

}  // namespace

Node with_parts(const Node& block, sim::Faults& faults) {
  Node copy = block;
  replace(copy, faults);
  return copy;
}

}  // namespace orrery::experiments::network
