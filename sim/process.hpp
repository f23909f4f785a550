#pragma once
#include "sim/engine.hpp"
namespace orrery::sim {
class Delay {};
class Processes {
 public:
  explicit Processes(Engine&) {}
  void check_deadlock() {}
};
}  // namespace orrery::sim
