#include "hw/parts/catalog.hpp"

#include <algorithm>

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

void read_notes(const sim::Node& node, const char* key, sim::Faults& faults, CatalogNotes::Notes& out) {
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

CatalogNotes parse_notes(const sim::Node& node, std::string_view kind, sim::Node& fields, sim::Faults& faults) {
  CatalogNotes entry;
  if (!node.is_object()) {
    faults.add(node.origin(), "expected a catalog entry, got " + node.shown());
    return entry;
  }
  read_text(node, "kind", true, faults, entry.kind);
  if (!entry.kind.empty() && !kind.empty() && entry.kind != kind) {
    faults.add(node.find("kind")->origin(), "expected \"" + std::string(kind) + "\", got \"" + entry.kind + "\"");
    return entry;  // another kind's fields would all be faults
  }
  const sim::Node* version = node.find("version");
  if (version != nullptr && (version->kind() != sim::Node::Kind::integer || version->as_integer() != 1))
    faults.add(version->origin(), "expected version 1, got " + version->shown());
  read_text(node, "name", true, faults, entry.name);
  read_text(node, "doc", false, faults, entry.doc);
  read_notes(node, "sources", faults, entry.sources);
  read_notes(node, "assumptions", faults, entry.assumptions);
  read_notes(node, "tables", faults, entry.tables);
  fields = node;
  for (const char* key : {"kind", "version", "name", "doc", "sources", "assumptions", "tables"}) fields.erase(key);
  return entry;
}

AnyPart parse_any_part(const sim::Node& node, sim::Faults& faults) {
  AnyPart any;
  sim::Node fields;
  static_cast<CatalogNotes&>(any) = parse_notes(node, "", fields, faults);
  if (!fields.is_object() || any.kind.empty()) return any;
  const std::vector<PartKind>& kinds = part_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const PartKind& k) { return k.name == any.kind; });
  if (kind == kinds.end()) {
    std::vector<std::string> names;
    for (const PartKind& known : kinds) names.push_back(known.name);
    faults.add(node.find("kind")->origin(), "unknown kind of part \"" + any.kind + "\"",
               sim::name_hint(any.kind, names));
    return any;
  }
  any.part_kind = &*kind;
  any.fields = kind->resolve(fields, faults);
  return any;
}

AnyPart read_any_part(const std::filesystem::path& path) {
  const sim::Node node = sim::read_config(path);
  sim::Faults faults;
  AnyPart any = parse_any_part(node, faults);
  faults.throw_if_any();
  return any;
}

}  // namespace orrery::hw
