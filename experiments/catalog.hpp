// Parts and models by name: where the catalog's files are, and what they say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hw/catalog.hpp"
#include "models/hf_config.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// File of a part: "a100-sxm4-80gb", "catalog:a100-sxm4-80gb" or a path. A name that is not there is a fault at `where`
/// with the nearest name; the path returned is then empty.
std::filesystem::path part_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults);
/// File of a model: "catalog:llama-2-7b" or the path of a config.json; faults as above.
std::filesystem::path model_file(const std::string& reference, const sim::Origin& where, sim::Faults& faults);

/// Parts and models as named components (kinds "part" and "model").
std::vector<sim::ComponentInfo> catalog_components();
/// More about a component that comes from the catalog, as text; empty for others.
std::string catalog_text(const sim::ComponentInfo& component);

}  // namespace orrery::experiments
