// The slots of an expert cache: who is there, who comes, who goes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {

struct ExpertCounts {
  std::int64_t requests = 0;  ///< experts asked for; one that several tokens of a batch ask for counts once
  std::int64_t misses = 0;
  std::int64_t evictions = 0;
  ExpertCounts& operator+=(const ExpertCounts& other) {
    requests += other.requests;
    misses += other.misses;
    evictions += other.evictions;
    return *this;
  }
  double hit_rate() const { return requests > 0 ? 1 - static_cast<double>(misses) / static_cast<double>(requests) : 0; }
};

/// Experts of a request are looked up together and stay until all are done: none of them makes room for another while
/// any other expert can. Where they are more than the slots, the policy says which of them stay; the others pass
/// through memory beside the slots. Asked for one expert at a time it is the textbook's cache.
class ExpertResidency {
 public:
  ExpertResidency(std::unique_ptr<ExpertCache> policy, const ExpertCacheSetup& setup);

  /// Looks the experts up: missing() are those that are not there. Counts requests and misses.
  void look_up(const ExpertRequest& request);
  /// Gives an expert a slot, if the policy wants it to have one. It must not be there.
  void load(std::uint16_t expert);
  /// The same ahead of a request: experts in use stay, and the policy may refuse (see holds()).
  void load_ahead(std::uint16_t expert);
  bool refuses_ahead() const { return policy_->refuses_ahead(); }
  void foretell(std::uint16_t expert, std::int64_t ahead) { policy_->foretell(expert, ahead); }
  /// The experts of the last request are no longer in use: any of them may make room.
  void release() { ++request_; }
  /// Looks the experts up and loads those that are missing; how many were.
  std::int64_t use(const ExpertRequest& request);

  bool holds(std::uint16_t expert) const { return place_[expert] >= 0; }
  /// Experts of the last request that were not there, in its order.
  const std::vector<std::uint16_t>& missing() const { return missing_; }
  const ExpertCounts& counts() const { return counts_; }

 private:
  void put(std::uint16_t expert);
  void remove(std::uint16_t expert);
  /// Whether there is room for an expert, once the policy has said who goes.
  bool make_room(std::uint16_t expert);
  bool make_room_ahead(std::uint16_t expert);
  bool evict_one(std::uint16_t expert);  // of loose_; false: the expert itself
  std::size_t size_of(std::uint16_t expert) const { return sizes_.empty() ? 1 : sizes_[expert]; }
  bool fits(std::uint16_t expert) const { return used_ + size_of(expert) <= slots_; }

  std::unique_ptr<ExpertCache> policy_;
  std::size_t slots_, used_ = 0;
  std::vector<std::uint8_t> sizes_;  // by expert, in slots; empty: one each
  std::vector<std::int32_t> place_;  // by expert: where in held_; -1: not there
  std::vector<std::uint16_t> held_;  // in no order
  std::vector<std::int64_t> asked_;  // by expert: the last request that named it
  std::int64_t request_ = 0;
  std::vector<std::uint16_t> missing_, loose_;
  ExpertCounts counts_;
};

}  // namespace orrery::policies
