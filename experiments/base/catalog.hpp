// Parts and models by name: where the catalog's files are, and what they say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hw/parts/catalog.hpp"
#include "models/transformer/hf_config.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// File that a reference stands for: "catalog:NAME", a path relative to the file of `where` (a folder means the
/// `config.json` in it), or the bare name of a catalog entry. What is not there is a fault at `where` with the nearest
/// name; the path returned is then empty. Names are taken as people type them (sim/base/name_match.hpp).
std::filesystem::path part_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults);
std::filesystem::path model_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults);

/// The entry that a name means in its place, with or without "catalog:" as it was (sim::canonical); what another name
/// than its own led to is noted. Files, and what means nothing, stay as they are.
void canonical_part(std::string& reference, const sim::Origin& where, sim::Faults& faults);
void canonical_model(std::string& reference, const sim::Origin& where, sim::Faults& faults);

/// Names in the catalog, sorted.
std::vector<std::string> part_names();
std::vector<std::string> model_names();

/// Offer these names, as "catalog:NAME", as values of a field (sim::annotated).
void suggest_parts(sim::FieldInfo& info, const sim::RegistrySet* registries);
void suggest_models(sim::FieldInfo& info, const sim::RegistrySet* registries);

/// A text field that names a part or a model: these are offered, and taken as people type them.
template <class S>
constexpr sim::Field<S> names_part(sim::Field<S> field) {
  return sim::canonical(sim::annotated(field, suggest_parts), canonical_part);
}
template <class S>
constexpr sim::Field<S> names_model(sim::Field<S> field) {
  return sim::canonical(sim::annotated(field, suggest_models), canonical_model);
}

/// Parts and models as named components (kinds "part" and "model").
std::vector<sim::ComponentInfo> catalog_components();
/// A part from a file like the catalog's, as a component named by the file. Throws sim::ConfigError with its faults.
sim::ComponentInfo part_component(const std::filesystem::path& file);
/// The kind of an entry of the catalog, "gpu", "link" …, and what that is.
std::pair<std::string, std::string> part_kind(const std::string& name);
/// The name of a component that a text means, parts and models by their aliases too; `note` gets what the user should
/// know. Empty if none is meant.
std::string meant_component(const std::string& text, const std::vector<sim::ComponentInfo>& components,
                            std::string& note);
/// Data sheet, values, sources and assumptions of a part, as text.
std::string part_text(const std::filesystem::path& file);
/// More about a component that comes from the catalog, as text; empty for others.
std::string catalog_text(const sim::ComponentInfo& component);

/// Whether a part that a config names at `place` is of a kind; a fault there if its entry says another.
bool is_of_kind(const sim::Node& entry, std::string_view kind, const std::string& name, const sim::Origin& place,
                sim::Faults& faults);

}  // namespace orrery::experiments
