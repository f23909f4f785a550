// All registries of a program as one value: made where a program starts (main(), the Python module, a test), passed to
// whoever reads or describes configs.
//
// Registries are held by their type, so a reader asks for the one it needs and includes no other:
//   registries.get<policies::BatchingRegistry>().names()
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>

namespace orrery::sim {

class RegistrySet {
 public:
  /// Adds a registry of its type. Throws std::logic_error if there is one already.
  template <class R>
  void add(R registry) {
    Held held(new R(std::move(registry)), [](void* all) { delete static_cast<R*>(all); });
    if (!held_.emplace(typeid(R), std::move(held)).second)
      throw std::logic_error(std::string("two registries of type ") + typeid(R).name());
  }
  /// The registry of that type, or null.
  template <class R>
  const R* find() const {
    const auto place = held_.find(typeid(R));
    return place != held_.end() ? static_cast<const R*>(place->second.get()) : nullptr;
  }
  /// The registry of that type, which must be there: std::logic_error otherwise.
  template <class R>
  const R& get() const {
    if (const R* registry = find<R>()) return *registry;
    throw std::logic_error(std::string("no registry of type ") + typeid(R).name());
  }

 private:
  using Held = std::unique_ptr<void, void (*)(void*)>;
  std::map<std::type_index, Held> held_;
};

}  // namespace orrery::sim
