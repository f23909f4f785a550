// A policy of its folder, with its parameters as shipped or some changed.
#pragma once

#include <string>

#include "sim/base/registry.hpp"

namespace orrery::experiments {

template <class Registry>
typename Registry::Choice shipped_policy(void (*fill)(Registry&), const char* kind, const std::string& name,
                                         const sim::Node& params = sim::Node::object()) {
  Registry registry(kind);
  fill(registry);
  sim::Faults faults;
  auto choice = registry.prepare(name, &params, {}, faults);
  faults.throw_if_any();
  return choice;
}

}  // namespace orrery::experiments
