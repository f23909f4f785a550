// The catalog as fidelity and calibration see it: parts found by the measured table that they stand for.
//
// An entry says `"tables": {"h100": "kernel", "h100_sxm": "vllm_hot_cache"}`: the stem of a table, and how its library
// measured. What the library changes (operands that stay in the cache, an operator's own launch) is the model's affair;
// the shelf only hands out the word. Fields can be set by path, which is how a fit moves a constant of any kind of
// part.
#pragma once

#include <any>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hw/parts/catalog.hpp"

namespace orrery::experiments {

class PartShelf {
 public:
  /// Reads every `*.json` of the folder. Throws sim::ConfigError with the faults of the first faulty file.
  explicit PartShelf(const std::filesystem::path& folder);

  /// A part that stands for a table.
  template <class P>
  struct Found {
    const hw::CatalogEntry<P>* entry = nullptr;  ///< null: no part of this kind stands for the table
    std::string measured_as;                     ///< "kernel", "vllm_hot_cache" …
    explicit operator bool() const { return entry != nullptr; }
  };

  /// The part of kind P that stands for tables of this stem: the one whose entry says so, else the one of that name,
  /// measured as kernels. The pointer holds until a field of the part is set.
  template <hw::CatalogPart P>
  Found<P> for_table(std::string_view stem) const {
    for (auto& [name, slot] : slots_) {
      if (slot.notes.kind != P::kKind) continue;
      for (const auto& [table, library] : slot.notes.tables)
        if (table == stem) return {&parsed<P>(slot), library};
    }
    if (const auto* named = find<P>(stem)) return {named, "kernel"};
    return {};
  }

  /// The part of kind P with this name, or null.
  template <hw::CatalogPart P>
  const hw::CatalogEntry<P>* find(std::string_view name) const {
    const auto slot = slots_.find(name);
    return slot == slots_.end() || slot->second.notes.kind != P::kKind ? nullptr : &parsed<P>(slot->second);
  }

  std::vector<std::string> names() const;
  /// Notes of an entry. Throws std::out_of_range for an unknown name.
  const hw::CatalogNotes& notes(std::string_view name) const { return slots_.find(name)->second.notes; }
  /// The whole entry as a file would hold it (family merged in).
  const sim::Node& node(std::string_view name) const { return slots_.find(name)->second.node; }

  /// Sets the number at `path` ("gemm.efficiency") of an entry, in SI, and forgets what was parsed of it.
  void set(std::string_view name, std::string_view path, double value);
  /// The number at `path`, in SI, defaults filled in. Throws sim::ConfigError for a path that names no number.
  double get(std::string_view name, std::string_view path) const;
  /// Family of an entry: the stem of the last file of its chain of bases; empty for none.
  const std::string& family(std::string_view name) const { return slots_.find(name)->second.family; }
  /// Lets the object that holds `path` ("gemm" of "gemm.efficiency") be the family's, as if the entry said nothing.
  void forget_own(std::string_view name, std::string_view path);
  /// Replaces an entry by another node of the same name.
  void replace(std::string_view name, sim::Node node);

 private:
  struct Slot {
    sim::Node node;
    hw::CatalogNotes notes;
    std::string family;
    sim::Node family_node;   ///< what `base` holds; null for none
    mutable std::any entry;  ///< hw::CatalogEntry<P> once asked for
  };
  template <hw::CatalogPart P>
  const hw::CatalogEntry<P>& parsed(const Slot& slot) const {
    if (!slot.entry.has_value()) {
      sim::Faults faults;
      slot.entry = hw::parse_part<P>(slot.node, faults);
      faults.throw_if_any();
    }
    return *std::any_cast<hw::CatalogEntry<P>>(&slot.entry);
  }

  std::map<std::string, Slot, std::less<>> slots_;
};

}  // namespace orrery::experiments
