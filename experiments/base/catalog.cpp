#include "experiments/base/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/describe.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path resolve(const std::string& reference, const fs::path& catalog, const char* what, const sim::Origin& where,
                 sim::Faults& faults) {
  const bool named = reference.starts_with("catalog:");
  const std::string name = named ? reference.substr(8) : reference;
  std::error_code ignored;
  if (!named) {
    const fs::path path = (sim::folder_of(where) / reference).lexically_normal();
    if (fs::is_regular_file(path, ignored)) return path;
    if (fs::is_regular_file(path / "config.json", ignored)) return path / "config.json";
    if (name.find('/') != std::string::npos || name.ends_with(".json")) {
      faults.add(where, fmt::format("expected a {} file, found none at '{}'", what, path.string()));
      return {};
    }
  }
  const std::vector<std::string> known = names_in(catalog);
  if (std::find(known.begin(), known.end(), name) != known.end()) return catalog / (name + ".json");
  if (known.empty()) {
    faults.add(where, fmt::format("expected the catalog at '{}', found none", catalog.string()),
               "set ORRERY_HOME to the source tree");
  } else {
    faults.add(where, fmt::format("expected a {} of the catalog or a file, found no '{}'", what, name),
               sim::name_hint(name, known));
  }
  return {};
}

}  // namespace

fs::path part_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  return resolve(reference, home_folder() / "hw/catalog", "part", where, faults);
}

fs::path model_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults) {
  return resolve(reference, home_folder() / "models/catalog", "model", where, faults);
}

std::vector<std::string> part_names() {
  return names_in(home_folder() / "hw/catalog");
}
std::vector<std::string> model_names() {
  return names_in(home_folder() / "models/catalog");
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
  for (const std::string& name : names_in(parts)) {
    const hw::AnyPart entry = hw::read_any_part(parts / (name + ".json"));
    all.push_back({"part", name, entry.doc, entry.part_kind->fields});
  }
  const fs::path models = home_folder() / "models/catalog";
  for (const std::string& name : names_in(models)) {
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
      "\nestimate of the die (docs/energy.md):\n  {:.0f} mm2: cores {:.0f}, L2 {:.0f}, memory interfaces {:.0f}, links "
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

std::string part_text(const fs::path& file) {
  const hw::AnyPart entry = hw::read_any_part(file);
  std::string text = "\nvalues of this part:\n" + entry.fields.dump(2) + "\n\nsources:\n";
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

}  // namespace orrery::experiments
