// What a driver keeps of its proposals until their results come: a step, a chain, a path down a tree.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

template <class Note>
class Waiting {
 public:
  explicit Waiting(const Space& space) : space_(space) {}

  /// In can_ask(): proposals that are not out any more are forgotten.
  void keep(std::span<const Proposal> out) {
    std::vector<std::string> keys;
    for (const Proposal& proposal : out) keys.push_back(space_.key(proposal.point));
    std::sort(keys.begin(), keys.end());
    std::erase_if(notes_, [&](const auto& one) { return !std::binary_search(keys.begin(), keys.end(), one.first); });
    kept_ = true;
  }
  /// At the start of ask(): if nobody asked can_ask() since the last one, nothing is out.
  void begin() {
    if (!std::exchange(kept_, false)) notes_.clear();
  }
  void add(const Point& point, Note note) { notes_.emplace_back(space_.key(point), std::move(note)); }
  /// Of a point with its result; nothing if it was not proposed.
  std::optional<Note> take(const Point& point) {
    const std::string key = space_.key(point);
    const auto found = std::find_if(notes_.begin(), notes_.end(), [&](const auto& one) { return one.first == key; });
    if (found == notes_.end()) return std::nullopt;
    Note note = std::move(found->second);
    notes_.erase(found);
    return note;
  }
  std::size_t size() const { return notes_.size(); }

 private:
  const Space& space_;
  std::vector<std::pair<std::string, Note>> notes_;  ///< by key, in the order of proposal
  bool kept_ = false;
};

}  // namespace orrery::experiments::search
