#include "experiments/base/built_graphs.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

namespace orrery::experiments {
namespace {

constexpr std::size_t kGraphsHeld = 32;  // some MB each

}  // namespace

struct BuiltGraphs::Held {
  /// One of the graphs, which is null until it is built.
  struct Slot {
    std::mutex building;
    Shared graph;
  };
  std::mutex mutex;
  std::list<std::pair<std::string, std::shared_ptr<Slot>>> slots;  // the one asked for last in front
};

BuiltGraphs::BuiltGraphs() : held_(std::make_shared<Held>()) {}

BuiltGraphs::Shared BuiltGraphs::get(const std::string& key, const std::function<Shared()>& build) const {
  std::shared_ptr<Held::Slot> slot;
  {
    const std::lock_guard lock(held_->mutex);
    auto& slots = held_->slots;
    const auto known = std::ranges::find_if(slots, [&](const auto& held) { return held.first == key; });
    if (known != slots.end()) {
      slots.splice(slots.begin(), slots, known);
    } else {
      slots.emplace_front(key, std::make_shared<Held::Slot>());
      if (slots.size() > kGraphsHeld) slots.pop_back();
    }
    slot = slots.front().second;
  }
  const std::lock_guard lock(slot->building);
  if (slot->graph == nullptr) slot->graph = build();
  return slot->graph;
}

}  // namespace orrery::experiments
