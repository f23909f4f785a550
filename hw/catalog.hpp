// The catalog: real parts as JSON, facts with their sources.
//
// An entry is `{"kind": "gpu", "version": 1, "name": ..., "doc": ..., "sources": {...}, "assumptions": {...}, "tables":
// {...}, <fields of GpuParams>}`. `sources` maps a field to where its value comes from; `assumptions` does the same for
// values that nobody publishes; `tables` maps a measured table's device to the library it was measured with. Everything
// else goes through the field table of the part, so an unknown key, a wrong unit or a value out of range is a fault.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hw/gpu.hpp"
#include "sim/base/document.hpp"

namespace orrery::hw {

/// A part and what the catalog says about it.
template <class Part>
struct CatalogEntry {
  using Notes = std::vector<std::pair<std::string, std::string>>;  ///< in the order of the file
  std::string name, doc;
  Notes sources, assumptions, tables;
  Part part;
};

/// Reads a GPU from a catalog node; every fault goes to `faults` with its JSON pointer.
CatalogEntry<GpuParams> parse_gpu(const sim::Node& node, sim::Faults& faults);

/// Reads a GPU from a file, `base` included. Throws sim::ConfigError with all faults of the file.
CatalogEntry<GpuParams> read_gpu(const std::filesystem::path& path);

}  // namespace orrery::hw
