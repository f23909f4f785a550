// Registries: named implementations of one interface, each with its parameter table.
//
// A folder fills its registries in one explicit function (`register_batching_policies(registry)`), called by main() and
// by tests: nothing registers itself behind the scenes, and a test can have a registry of its own. A config chooses by
// name in a policy block, where every policy's parameters stand under its own name:
//   {"policy": "sarathi", "sarathi": {"token_budget": 512}, "vllm_v0": {"max_batched_tokens": 4096}}
// The blocks of all policies are checked, the chosen one is used.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/name_match.hpp"
#include "sim/base/params.hpp"

namespace orrery::sim {

/// `Args` are what a factory needs besides its parameters (a device, a model …); they are given when it is made.
template <class Interface, class... Args>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Interface>(Args...)>;

  /// A choice read from a config: name, resolved parameters, and the way to make it (as often as wanted).
  struct Choice {
    using From = Registry;
    std::string name;
    Node params;
    Factory make;
  };

  explicit Registry(std::string kind) : kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

  /// Adds `name`; `make(const P&, Args...)` returns a std::unique_ptr<Interface>. Throws std::logic_error on a name
  /// that is taken.
  template <Parameters P, class Make>
  void add(std::string name, std::string doc, Make make) {
    if (find(name) != nullptr) throw std::logic_error(kind_ + ": '" + name + "' is registered twice");
    Entry entry;
    entry.name = std::move(name);
    entry.doc = std::move(doc);
    entry.describe = [] { return describe_params<P>(); };
    entry.prepare = [make](const Node* node, Faults& faults) {
      const P params = node != nullptr ? parse_params<P>(*node, faults) : P{};
      return Choice{{}, write_params(params), [params, make](Args... args) -> std::unique_ptr<Interface> {
                      return make(params, args...);
                    }};
    };
    entries_.push_back(std::move(entry));
  }

  /// Names in sorted order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Entry& entry : entries_) all.push_back(entry.name);
    std::sort(all.begin(), all.end());
    return all;
  }

  std::vector<ComponentInfo> components() const {
    std::vector<ComponentInfo> all;
    for (const std::string& name : names()) {
      const Entry& entry = *find(name);
      all.push_back({kind_, entry.name, entry.doc, entry.describe()});
    }
    return all;
  }

  /// Calls `visit` for what names a file in a policy block, resolved or not (sim::for_each_path).
  void for_each_path(Node& block, const PathVisitor& visit) const {
    for (const std::string& name : names())
      if (Node* params = block.find(name); params != nullptr && params->is_object())
        sim::for_each_path(find(name)->describe(), *params, visit);
  }

  /// The registered name of the same spelling (sim/base/name_match.hpp); `name` as it is if there is none.
  std::string canonical(const std::string& name) const {
    return find(name) != nullptr ? name : same_spelling(name, names());
  }

  /// The choice of a name with given or default parameters (`node` may be null); an unknown name is a fault at `where`.
  Choice prepare(const std::string& name, const Node* node, const Origin& where, Faults& faults) const {
    const Entry* entry = find(canonical(name));
    if (entry == nullptr) {
      faults.add(where, "unknown " + kind_ + " policy '" + name + "'", name_hint(name, names()));
      return {};
    }
    Choice choice = entry->prepare(node, faults);
    choice.name = entry->name;
    return choice;
  }

  /// Reads a policy block; `fallback` is the policy when the block names none. Reports every fault in it.
  Choice parse_block(const Node& block, const std::string& fallback, Faults& faults) const {
    if (!block.is_object()) {
      faults.add(block.origin(), "expected an object, got " + block.shown());
      return {};
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
        (void)other->prepare(&value, faults);
      } else {
        std::vector<std::string> known = names();
        known.emplace_back("policy");
        faults.add(value.origin(), "unknown key '" + key + "'", name_hint(key, std::move(known)));
      }
    }
    return prepare(name, block.find(name), where, faults);
  }

  /// Block as it would stand in a resolved config.
  static Node write_block(const Choice& choice) {
    Node block = Node::object();
    block.set("policy", Node::string(choice.name));
    block.set(choice.name, choice.params);
    return block;
  }

 private:
  struct Entry {
    std::string name, doc;
    std::vector<FieldInfo> (*describe)() = nullptr;  ///< called when it is asked: there are hundreds of policies
    std::function<Choice(const Node*, Faults&)> prepare;
  };
  const Entry* find(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace orrery::sim
