#include "experiments/fidelity/part_shelf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

/// File that the `base` of a file names, if it names one.
std::optional<fs::path> base_of(const fs::path& file) {
  const sim::Node own = sim::read_json(file);
  const sim::Node* base = own.find("base");
  if (base == nullptr || !base->is_string()) return std::nullopt;
  return file.parent_path() / base->as_string();
}

/// The last of a chain of bases: the family that all of them share.
fs::path root_of(fs::path file) {
  while (const std::optional<fs::path> base = base_of(file)) file = *base;
  return file;
}

/// The field that `path` names, or null.
const sim::FieldInfo* field_at(const std::vector<sim::FieldInfo>& fields, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view head = path.substr(0, dot);
  for (const sim::FieldInfo& field : fields) {
    if (field.name != head) continue;
    return dot == std::string_view::npos ? &field : field_at(field.nested, path.substr(dot + 1));
  }
  return nullptr;
}

const sim::FieldInfo& number_field(const hw::CatalogNotes& notes, std::string_view path) {
  for (const hw::PartKind& kind : hw::part_kinds()) {
    if (kind.name != notes.kind) continue;
    const sim::FieldInfo* field = field_at(kind.fields, path);
    if (field != nullptr && (field->type == "number" || field->type == "integer")) return *field;
  }
  sim::throw_fault({notes.name, ""}, fmt::format("expected the path of a number of a {}, got '{}'", notes.kind, path));
}

}  // namespace

PartShelf::PartShelf(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) sim::throw_fault({folder.string(), ""}, "expected a folder with the catalog's parts, found none");
  for (const fs::path& file : files) {
    sim::Node node = sim::read_config(file);
    sim::Faults faults;
    sim::Node fields;
    Slot slot;
    slot.notes = hw::parse_notes(node, "", fields, faults);
    faults.throw_if_any();
    slot.node = std::move(node);
    if (const std::optional<fs::path> base = base_of(file)) {
      slot.family_node = sim::read_config(*base);
      slot.family = root_of(*base).stem().string();
    }
    slots_.emplace(slot.notes.name, std::move(slot));
  }
}

std::vector<std::string> PartShelf::names() const {
  std::vector<std::string> all;
  for (const auto& [name, slot] : slots_) all.push_back(name);
  return all;
}

void PartShelf::set(std::string_view name, std::string_view path, double value) {
  Slot& slot = slots_.find(name)->second;
  const sim::FieldInfo& field = number_field(slot.notes, path);
  const std::string text = sim::format_quantity(value, field.unit);
  sim::assign(slot.node, fmt::format("{}={}", path, text));
  slot.entry.reset();
}

double PartShelf::get(std::string_view name, std::string_view path) const {
  const Slot& slot = slots_.find(name)->second;
  const sim::FieldInfo& field = number_field(slot.notes, path);
  sim::Faults faults;
  const hw::AnyPart part = hw::parse_any_part(slot.node, faults);
  faults.throw_if_any();
  const sim::Node* at = &part.fields;
  for (std::string_view rest = path; at != nullptr && !rest.empty();) {
    const std::size_t dot = rest.find('.');
    at = at->find(std::string(rest.substr(0, dot)));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  if (at == nullptr || at->is_null()) sim::throw_fault({std::string(name), ""}, fmt::format("'{}' has no value", path));
  if (!at->is_string()) return at->as_number();
  return sim::parse_quantity(at->as_string(), field.unit).value();
}

void PartShelf::forget_own(std::string_view name, std::string_view path) {
  Slot& slot = slots_.find(name)->second;
  const std::string object(path.substr(0, path.find('.')));
  const sim::Node* shared = slot.family_node.find(object);
  if (shared != nullptr) {
    slot.node.set(object, *shared);
  } else {
    slot.node.erase(object);
  }
  slot.entry.reset();
}

void PartShelf::replace(std::string_view name, sim::Node node) {
  Slot& slot = slots_.find(name)->second;
  sim::Faults faults;
  sim::Node fields;
  slot.notes = hw::parse_notes(node, "", fields, faults);
  faults.throw_if_any();
  slot.node = std::move(node);
  slot.entry.reset();
}

}  // namespace orrery::experiments
