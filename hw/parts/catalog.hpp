// The catalog: real parts as JSON, facts with their sources.
//
// An entry is `{"kind": "gpu", "version": 1, "name": ..., "doc": ..., "sources": {...}, "assumptions": {...}, "tables":
// {...}, <fields of the part>}`. `sources` maps a field to where its value comes from. `assumptions` does the same for
// values that nobody publishes. `tables` maps the stem of a measured table to the library it was measured with.
// Everything else goes through the field table of the part's struct, so an unknown key, a wrong unit or a value out of
// range is a fault. Constants that a family shares stand in `hw/catalog/families/<family>.json`, named by `base`.
//
// A part struct is a parameter struct that names its kind: `static constexpr std::string_view kKind = "gpu"`. The kinds
// there are stand in hw/part_kinds.cpp.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hw/gpu/gpu.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// A struct that the catalog can hold.
template <class P>
concept CatalogPart = sim::Parameters<P> && requires {
  { P::kKind } -> std::convertible_to<std::string_view>;
};

/// Reads the fields of a part. A struct with `static void check(const P&, const sim::Node& fields, sim::Faults&)` has
/// its fields held against each other there, once each is right by itself; `fields.origin_at("power.idle")` tells which
/// file and place a fault belongs to.
template <CatalogPart P>
P parse_fields(const sim::Node& fields, sim::Faults& faults) {
  const std::size_t before = faults.size();
  P part = sim::parse_params<P>(fields, faults);
  if (faults.size() != before) return part;
  if constexpr (requires { &P::check; }) P::check(part, fields, faults);
  return part;
}

/// What the catalog says about a part, beside its parameters.
struct CatalogNotes {
  using Notes = std::vector<std::pair<std::string, std::string>>;  ///< in the order of the file
  std::string kind, name, doc;
  Notes sources, assumptions, tables;
};

/// A part and what the catalog says about it.
template <class Part>
struct CatalogEntry : CatalogNotes {
  Part part;
};

/// Takes the notes out of a catalog node; `fields` is what is left, the parameters. `kind` empty: any kind will do.
CatalogNotes parse_notes(const sim::Node& node, std::string_view kind, sim::Node& fields, sim::Faults& faults);

/// Reads a part from a catalog node; every fault goes to `faults` with its JSON pointer.
template <CatalogPart P>
CatalogEntry<P> parse_part(const sim::Node& node, sim::Faults& faults) {
  CatalogEntry<P> entry;
  sim::Node fields;
  static_cast<CatalogNotes&>(entry) = parse_notes(node, P::kKind, fields, faults);
  if (fields.is_object()) entry.part = parse_fields<P>(fields, faults);
  return entry;
}

/// Reads a part from a file, `base` included. Throws sim::ConfigError with all faults of the file.
template <CatalogPart P>
CatalogEntry<P> read_part(const std::filesystem::path& path) {
  const sim::Node node = sim::read_config(path);
  sim::Faults faults;
  CatalogEntry<P> entry = parse_part<P>(node, faults);
  faults.throw_if_any();
  return entry;
}

/// A kind of part as data: for `list`, `describe`, and for whoever has a catalog file and not its struct.
struct PartKind {
  std::string name, doc;
  std::vector<sim::FieldInfo> fields;
  /// Reads the fields of an entry and writes them back whole, defaults filled in; faults go to `faults`.
  sim::Node (*resolve)(const sim::Node& fields, sim::Faults& faults);
};

/// Every kind of part that the catalog may hold, in alphabetical order.
const std::vector<PartKind>& part_kinds();

/// An entry of any kind: notes, and its fields as they would stand in a file with every default written out.
struct AnyPart : CatalogNotes {
  const PartKind* part_kind = nullptr;
  sim::Node fields;
};

/// Reads an entry of any kind; every fault goes to `faults`.
AnyPart parse_any_part(const sim::Node& node, sim::Faults& faults);
/// Reads an entry of any kind from a file. Throws sim::ConfigError with all faults of the file.
AnyPart read_any_part(const std::filesystem::path& path);

}  // namespace orrery::hw
