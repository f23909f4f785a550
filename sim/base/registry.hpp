// Registries: named implementations of one interface, each with its parameter table.
//
// A folder fills its registries in one explicit function (`register_batching_policies(registry)`), called by main() and
// by tests: nothing registers itself behind the scenes, and a test can have a registry of its own. A config chooses by
// name in a policy block, where every policy's parameters stand under its own name:
//   {"policy": "sarathi", "sarathi": {"token_budget": 512}, "vllm_v0": {"max_batched_tokens": 4096}}
// The blocks of all policies are checked, the chosen one is used.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/params.hpp"

namespace orrery::sim {

/// What registries of all kinds of implementation do alike: names, descriptions, which policy a block chooses.
class RegistryNames {
 public:
  const std::string& kind() const { return kind_; }
  /// Names in sorted order.
  std::vector<std::string> names() const;
  std::vector<ComponentInfo> components() const;
  /// Calls `visit` for what names a file in a policy block, resolved or not (sim::for_each_path).
  void for_each_path(Node& block, const PathVisitor& visit) const;
  /// The registered name of the same spelling (sim/base/name_match.hpp); `name` as it is if there is none.
  std::string canonical(const std::string& name) const;

 protected:
  using Describe = std::vector<FieldInfo> (*)();  // called when it is asked: there are hundreds of policies
  struct Chosen {
    std::size_t entry = 0;
    const Node* params = nullptr;  ///< null: all defaults
  };

  explicit RegistryNames(std::string kind) : kind_(std::move(kind)) {}
  RegistryNames(const RegistryNames&) = default;
  RegistryNames(RegistryNames&&) noexcept = default;
  RegistryNames& operator=(const RegistryNames&) = default;
  RegistryNames& operator=(RegistryNames&&) noexcept = default;
  virtual ~RegistryNames() = default;

  /// Throws std::logic_error on a name that is taken.
  void add_name(std::string name, std::string doc, Describe describe);
  const std::string& name(std::size_t entry) const { return entries_[entry].name; }
  /// Nothing, and a fault at `where`, for an unknown name.
  std::optional<std::size_t> entry_named(const std::string& name, const Origin& where, Faults& faults) const;
  /// The policy that a block chooses; nothing, and a fault, where it chooses none. Blocks of the others are checked.
  std::optional<Chosen> chosen(const Node& block, const std::string& fallback, Faults& faults) const;
  /// Reads the parameters of an entry for their faults alone.
  virtual void check(std::size_t entry, const Node& params, Faults& faults) const = 0;

 private:
  struct Entry {
    std::string name, doc;
    Describe describe = nullptr;
  };
  const Entry* find(const std::string& name) const;

  std::string kind_;
  std::vector<Entry> entries_;
};

/// `Args` are what a factory needs besides its parameters (a device, a model …); they are given when it is made.
template <class Interface, class... Args>
class Registry final : public RegistryNames {
 public:
  using Factory = std::function<std::unique_ptr<Interface>(Args...)>;

  /// A choice read from a config: name, resolved parameters, and the way to make it (as often as wanted).
  struct Choice {
    using From = Registry;
    std::string name;
    Node params;
    Factory make;
  };

  explicit Registry(std::string kind) : RegistryNames(std::move(kind)) {}

  /// Adds `name`; `make(const P&, Args...)` returns a std::unique_ptr<Interface>. Throws std::logic_error on a name
  /// that is taken.
  template <Parameters P, class Make>
  void add(std::string name, std::string doc, Make make) {
    add_name(std::move(name), std::move(doc), [] { return describe_params<P>(); });
    prepare_.push_back([make](const Node* node, Faults& faults) {
      const P params = node != nullptr ? parse_params<P>(*node, faults) : P{};
      return Choice{{}, write_params(params), [params, make](Args... args) -> std::unique_ptr<Interface> {
                      return make(params, args...);
                    }};
    });
  }

  /// The choice of a name with given or default parameters (`node` may be null); an unknown name is a fault at `where`.
  Choice prepare(const std::string& name, const Node* node, const Origin& where, Faults& faults) const {
    const auto entry = entry_named(name, where, faults);
    return entry ? made(*entry, node, faults) : Choice{};
  }

  /// Reads a policy block; `fallback` is the policy when the block names none. Reports every fault in it.
  Choice parse_block(const Node& block, const std::string& fallback, Faults& faults) const {
    const auto policy = chosen(block, fallback, faults);
    return policy ? made(policy->entry, policy->params, faults) : Choice{};
  }

  /// Block as it would stand in a resolved config.
  static Node write_block(const Choice& choice) {
    Node block = Node::object();
    block.set("policy", Node::string(choice.name));
    block.set(choice.name, choice.params);
    return block;
  }

 private:
  void check(std::size_t entry, const Node& params, Faults& faults) const override {
    (void)prepare_[entry](&params, faults);
  }
  Choice made(std::size_t entry, const Node* params, Faults& faults) const {
    Choice choice = prepare_[entry](params, faults);
    choice.name = name(entry);
    return choice;
  }

  std::vector<std::function<Choice(const Node*, Faults&)>> prepare_;  ///< by entry
};

}  // namespace orrery::sim
