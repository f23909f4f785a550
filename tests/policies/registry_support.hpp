// Policies of any kind, by name and parameters.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "sim/base/document.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies::test {

/// The policy called `name` among those that `add` registers. Throws sim::ConfigError for faults in its parameters.
template <class Interface, class... Args>
std::unique_ptr<Interface> made(void (*add)(sim::Registry<Interface, Args...>&), const std::string& name,
                                const std::string& params, std::type_identity_t<Args>... args) {
  sim::Registry<Interface, Args...> registry("policy");
  add(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make(std::move(args)...);
}

}  // namespace orrery::policies::test
