#include "sim/base/registry.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/base/name_match.hpp"

namespace orrery::sim {

std::vector<std::string> RegistryNames::names() const {
  std::vector<std::string> all;
  for (const Entry& entry : entries_) all.push_back(entry.name);
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<ComponentInfo> RegistryNames::components() const {
  std::vector<ComponentInfo> all;
  for (const std::string& name : names()) {
    const Entry& entry = *find(name);
    ComponentInfo& info = all.emplace_back();
    info.kind = kind_;
    info.name = entry.name;
    info.doc = entry.doc;
    info.fields = entry.describe();
  }
  return all;
}

void RegistryNames::for_each_path(Node& block, const PathVisitor& visit) const {
  for (const std::string& name : names())
    if (Node* params = block.find(name); params != nullptr && params->is_object())
      sim::for_each_path(find(name)->describe(), *params, visit);
}

std::string RegistryNames::canonical(const std::string& name) const {
  return find(name) != nullptr ? name : same_spelling(name, names());
}

void RegistryNames::add_name(std::string name, std::string doc, Describe describe) {
  if (find(name) != nullptr) throw std::logic_error(kind_ + ": '" + name + "' is registered twice");
  entries_.push_back({std::move(name), std::move(doc), describe});
}

const RegistryNames::Entry* RegistryNames::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::optional<std::size_t> RegistryNames::entry_named(const std::string& name, const Origin& where,
                                                      Faults& faults) const {
  if (const Entry* entry = find(canonical(name))) return static_cast<std::size_t>(entry - entries_.data());
  faults.add(where, "unknown " + kind_ + " policy '" + name + "'", name_hint(name, names()));
  return std::nullopt;
}

std::optional<RegistryNames::Chosen> RegistryNames::chosen(const Node& block, const std::string& fallback,
                                                           Faults& faults) const {
  if (!block.is_object()) {
    faults.add(block.origin(), "expected an object, got " + block.shown());
    return std::nullopt;
  }
  std::string name = fallback;
  Origin where = block.origin();
  if (const Node* policy = block.find("policy")) {
    where = policy->origin();
    if (policy->is_string()) {
      name = canonical(policy->as_string());
    } else {
      faults.add(where, "expected the name of a policy, got " + policy->shown(), name_hint("", names()));
    }
  }
  for (const auto& [key, value] : block.members()) {
    if (key == "policy" || key == name) continue;
    if (const Entry* other = find(key)) {
      check(static_cast<std::size_t>(other - entries_.data()), value, faults);
    } else {
      std::vector<std::string> known = names();
      known.emplace_back("policy");
      faults.add(value.origin(), "unknown key '" + key + "'", name_hint(key, std::move(known)));
    }
  }
  if (const auto entry = entry_named(name, where, faults)) return Chosen{*entry, block.find(name)};
  return std::nullopt;
}

}  // namespace orrery::sim
