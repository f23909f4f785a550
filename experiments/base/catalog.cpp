#include "experiments/base/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/describe.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScheme = "catalog:";

struct Catalog {
  const char* folder;
  const char* what;
  bool owned;  ///< names may have an owner before them, as on model hubs; elsewhere a slash makes a path
};
constexpr Catalog kParts{"hw/catalog", "part", false}, kModels{"models/catalog", "model", true};

sim::NameMatch entry_of(const std::string& name, const Catalog& catalog) {
  if (!catalog.owned && name.find('/') != std::string::npos) return {};
  return sim::match_in_catalog(name, home_folder() / catalog.folder);
}

/// The file that a reference is by itself; nothing for a name.
fs::path own_file(const std::string& reference, const sim::Origin& where) {
  if (reference.starts_with(kScheme)) return {};
  std::error_code ignored;
  const fs::path path = (sim::folder_of(where) / reference).lexically_normal();
  if (fs::is_regular_file(path, ignored)) return path;
  if (fs::is_regular_file(path / "config.json", ignored)) return path / "config.json";
  return {};
}

fs::path resolve(const std::string& reference, const Catalog& catalog, const sim::Origin& where, sim::Faults& faults) {
  const bool named = reference.starts_with(kScheme);
  const std::string name = named ? reference.substr(kScheme.size()) : reference;
  if (const fs::path path = own_file(reference, where); !path.empty()) return path;
  const fs::path folder = home_folder() / catalog.folder;
  if (const sim::NameMatch match = entry_of(name, catalog)) return folder / (match.name + ".json");
  if (!named && (name.find('/') != std::string::npos || name.ends_with(".json"))) {
    const fs::path path = (sim::folder_of(where) / reference).lexically_normal();
    faults.add(where, fmt::format("expected a {} file, found none at '{}'", catalog.what, path.string()));
    return {};
  }
  const std::vector<std::string> known = sim::catalog_names(folder);
  if (known.empty()) {
    faults.add(where, fmt::format("expected the catalog at '{}', found none", folder.string()),
               "set ORRERY_HOME to the source tree");
  } else {
    faults.add(where, fmt::format("expected a {} of the catalog or a file, found no '{}'", catalog.what, name),
               sim::name_hint(name, known));
  }
  return {};
}

}  // namespace

fs::path part_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  return resolve(reference, kParts, where, faults);
}

fs::path model_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  return resolve(reference, kModels, where, faults);
}

namespace {

void canonical(std::string& reference, const Catalog& catalog, const sim::Origin& where, sim::Faults& faults) {
  if (!own_file(reference, where).empty()) return;
  const std::string scheme = reference.starts_with(kScheme) ? std::string(kScheme) : "";
  const sim::NameMatch match = entry_of(reference.substr(scheme.size()), catalog);
  if (!match) return;
  if (!match.note.empty()) faults.note(match.note);
  reference = scheme + match.name;
}

}  // namespace

void canonical_part(std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  canonical(reference, kParts, where, faults);
}
void canonical_model(std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  canonical(reference, kModels, where, faults);
}

std::vector<std::string> part_names() {
  return sim::catalog_names(home_folder() / "hw/catalog");
}
std::vector<std::string> model_names() {
  return sim::catalog_names(home_folder() / "models/catalog");
}

void suggest_parts(sim::FieldInfo& info, const sim::RegistrySet*) {
  for (const std::string& name : part_names()) info.suggestions.push_back("catalog:" + name);
}
void suggest_models(sim::FieldInfo& info, const sim::RegistrySet*) {
  for (const std::string& name : model_names()) info.suggestions.push_back("catalog:" + name);
}

std::vector<sim::ComponentInfo> catalog_components() {
  std::vector<sim::ComponentInfo> all;
  const fs::path parts = home_folder() / "hw/catalog";
  for (const std::string& name : sim::catalog_names(parts)) {
    const hw::AnyPart entry = hw::read_any_part(parts / (name + ".json"));
    all.push_back({"part", name, entry.doc, entry.part_kind->fields});
  }
  const fs::path models = home_folder() / "models/catalog";
  for (const std::string& name : sim::catalog_names(models)) {
    const models::ModelConfig config = models::load_model("catalog:" + name, models);
    all.push_back({"model",
                   name,
                   fmt::format("{}: {} layers, hidden {}, {} heads, {} KV heads, {:.4g} B parameters",
                               config.architecture, config.layers, config.hidden_size, config.heads, config.kv_heads,
                               static_cast<double>(models::parameters(config)) * 1e-9),
                   {}});
  }
  return all;
}

namespace {

/// Estimate of the die of a computing part, as text; nothing for others, and where the part names no process.
std::string area_text(const fs::path& file) {
  sim::Faults faults, other;
  const auto entry = hw::parse_computing_part(sim::read_config(file), {}, other);
  if (!entry) return {};
  const hw::Device device = hw::device_of(entry->part);
  const hw::DieParams* die = device.die();
  if (die == nullptr) return {};
  const fs::path process_file = part_file(die->process, {file.string(), "/die/process"}, faults);
  faults.throw_if_any();
  const hw::AreaEstimate e = *device.area(hw::read_part<hw::ProcessParams>(process_file).part);
  std::string text = fmt::format(
      "\nestimate of the die (docs/explain/energy.md):\n  {:.0f} mm2: cores {:.0f}, L2 {:.0f}, memory interfaces "
      "{:.0f}, links "
      "{:.0f}, "
      "rest {:.0f}\n",
      e.die, e.cores, e.l2, e.memory_phy, e.link_phy, e.rest);
  if (die->area_mm2 > 0)
    text += fmt::format("  published: {:.4g} mm2 ({:+.0f} %)\n", die->area_mm2, 100 * (e.die / die->area_mm2 - 1));
  text += fmt::format("  yield {:.0f} %, {:.1f} dies a wafer; silicon ${:.0f}, memory ${:.0f}, package ${:.0f}\n",
                      100 * e.yield, e.dies_per_wafer, e.silicon_usd, e.memory_usd, e.package_usd);
  return text;
}

}  // namespace

sim::ComponentInfo part_component(const fs::path& file) {
  const hw::AnyPart entry = hw::read_any_part(file);
  return {"part", file.string(), entry.doc, entry.part_kind->fields};
}

std::pair<std::string, std::string> part_kind(const std::string& name) {
  const hw::AnyPart entry = hw::read_any_part(home_folder() / "hw/catalog" / (name + ".json"));
  return {entry.kind, entry.part_kind->doc};
}

std::string meant_component(const std::string& text, const std::vector<sim::ComponentInfo>& components,
                            std::string& note) {
  const std::string name = text.starts_with(kScheme) ? text.substr(kScheme.size()) : text;
  std::vector<std::string> names;
  for (const sim::ComponentInfo& component : components) names.push_back(component.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  for (const Catalog& catalog : {kParts, kModels})
    if (const sim::NameMatch match = entry_of(name, catalog)) {
      note = match.note;
      return match.name;
    }
  const sim::NameMatch match = sim::match_name(name, names);
  note = match.note;
  return match.name;
}

namespace {

/// The data sheet of a computing part: what people compare; nothing for others.
std::string sheet_text(const fs::path& file) {
  using sim::humanise;
  using sim::Unit;
  sim::Faults other;
  const auto entry = hw::parse_computing_part(sim::read_config(file), {}, other);
  if (!entry) return {};
  const hw::Device device = hw::device_of(entry->part);
  std::string text = fmt::format("  kind      {}{}\n", device.kind(), device.beside_host ? ", beside a host" : "");
  text += fmt::format("  memory    {} at {}\n", humanise(static_cast<double>(device.memory_bytes), Unit::bytes),
                      humanise(device.memory_bandwidth, Unit::bytes_per_s));
  std::string peaks;
  for (const auto& [name, dtype] : sim::names_of<hw::DType>)
    if (device.has_units_for(dtype) && device.peak(dtype) > 0)
      peaks += fmt::format("{}{} {}", peaks.empty() ? "" : ", ", name, humanise(device.peak(dtype), Unit::flop_per_s));
  if (!peaks.empty()) text += fmt::format("  peaks     {}\n", peaks);
  if (device.clock_hz > 0) {
    text += fmt::format("  clock     {}", humanise(device.clock_hz, Unit::hertz));
    if (device.clocks.lowest_hz < device.clocks.highest_hz)
      text += fmt::format(" (from {})", humanise(device.clocks.lowest_hz, Unit::hertz));
    text += fmt::format(", {} core{}\n", device.cores, device.cores == 1 ? "" : "s");
  }
  if (device.link.bandwidth > 0)
    text += fmt::format("  link      {}, each way\n", humanise(device.link.bandwidth, Unit::bytes_per_s));
  if (device.power.tdp_w > 0)
    text += fmt::format("  power     {} at most, {} idle\n", humanise(device.power.tdp_w, Unit::watts),
                        humanise(device.power.idle_w, Unit::watts));
  return text;
}

}  // namespace

std::string part_text(const fs::path& file) {
  const hw::AnyPart entry = hw::read_any_part(file);
  std::string text = sheet_text(file) + "\nvalues of this part:\n" + entry.fields.dump(2) + "\n\nsources:\n";
  for (const auto& [field, source] : entry.sources) text += fmt::format("  {}: {}\n", field, source);
  if (!entry.assumptions.empty()) text += "\nassumptions (nobody publishes these):\n";
  for (const auto& [field, source] : entry.assumptions) text += fmt::format("  {}: {}\n", field, source);
  text += area_text(file);
  return text;
}

std::string catalog_text(const sim::ComponentInfo& component) {
  if (component.kind == "model") {
    const models::ModelConfig config =
        models::load_model("catalog:" + component.name, home_folder() / "models/catalog");
    return models::describe_model(models::build_transformer(config, config.dtype.value_or(hw::DType::fp16), 1));
  }
  if (component.kind != "part") return {};
  return part_text(home_folder() / "hw/catalog" / (component.name + ".json"));
}

bool is_of_kind(const sim::Node& entry, std::string_view kind, const std::string& name, const sim::Origin& place,
                sim::Faults& faults) {
  const sim::Node* own = entry.is_object() ? entry.find("kind") : nullptr;
  if (own == nullptr || !own->is_string() || own->as_string() == kind) return true;
  faults.add(place, fmt::format("expected a part of kind {}, '{}' is of kind {}", kind, name, own->as_string()));
  return false;
}

}  // namespace orrery::experiments
