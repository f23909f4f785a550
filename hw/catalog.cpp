#include "hw/catalog.hpp"

#include <string_view>

namespace orrery::hw {
namespace {

void read_text(const sim::Node& node, const char* key, bool required, sim::Faults& faults, std::string& out) {
  const sim::Node* value = node.find(key);
  if (value == nullptr) {
    if (required) faults.add(node.origin_of(key), "missing: a string is required");
  } else if (!value->is_string()) {
    faults.add(value->origin(), "expected a string, got " + value->shown());
  } else {
    out = value->as_string();
  }
}

void read_notes(const sim::Node& node, const char* key, sim::Faults& faults, CatalogEntry<GpuParams>::Notes& out) {
  const sim::Node* notes = node.find(key);
  if (notes == nullptr) return;
  if (!notes->is_object()) {
    faults.add(notes->origin(), "expected an object of strings, got " + notes->shown());
    return;
  }
  for (const auto& [name, value] : notes->members()) {
    if (value.is_string()) {
      out.emplace_back(name, value.as_string());
    } else {
      faults.add(value.origin(), "expected a string, got " + value.shown());
    }
  }
}

}  // namespace

CatalogEntry<GpuParams> parse_gpu(const sim::Node& node, sim::Faults& faults) {
  CatalogEntry<GpuParams> entry;
  if (!node.is_object()) {
    faults.add(node.origin(), "expected a catalog entry, got " + node.shown());
    return entry;
  }
  std::string kind;
  read_text(node, "kind", true, faults, kind);
  if (!kind.empty() && kind != "gpu") faults.add(node.find("kind")->origin(), "expected \"gpu\", got \"" + kind + "\"");
  const sim::Node* version = node.find("version");
  if (version != nullptr && (version->kind() != sim::Node::Kind::integer || version->as_integer() != 1))
    faults.add(version->origin(), "expected version 1, got " + version->shown());
  read_text(node, "name", true, faults, entry.name);
  read_text(node, "doc", false, faults, entry.doc);
  read_notes(node, "sources", faults, entry.sources);
  read_notes(node, "assumptions", faults, entry.assumptions);
  read_notes(node, "tables", faults, entry.tables);

  sim::Node part = node;
  for (const char* key : {"kind", "version", "name", "doc", "sources", "assumptions", "tables"}) part.erase(key);
  entry.part = sim::parse_params<GpuParams>(part, faults);
  return entry;
}

CatalogEntry<GpuParams> read_gpu(const std::filesystem::path& path) {
  const sim::Node node = sim::read_config(path);
  sim::Faults faults;
  CatalogEntry<GpuParams> entry = parse_gpu(node, faults);
  faults.throw_if_any();
  return entry;
}

}  // namespace orrery::hw
