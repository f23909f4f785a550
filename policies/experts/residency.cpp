#include "policies/experts/residency.hpp"

namespace orrery::policies {

ExpertResidency::ExpertResidency(std::unique_ptr<ExpertCache> policy, const ExpertCacheSetup& setup)
    : policy_(std::move(policy)),
      slots_(static_cast<std::size_t>(setup.slots)),
      sizes_(setup.sizes.begin(), setup.sizes.end()),
      place_(static_cast<std::size_t>(setup.experts), -1),
      asked_(static_cast<std::size_t>(setup.experts), 0) {
  held_.reserve(slots_);
  for (const std::uint16_t e : policy_->initial())
    if (fits(e)) put(e);
}

void ExpertResidency::put(std::uint16_t expert) {
  place_[expert] = static_cast<std::int32_t>(held_.size());
  used_ += size_of(expert);
  held_.push_back(expert);
}

void ExpertResidency::remove(std::uint16_t expert) {
  const auto at = static_cast<std::size_t>(place_[expert]);
  held_[at] = held_.back();
  place_[held_[at]] = static_cast<std::int32_t>(at);
  held_.pop_back();
  place_[expert] = -1;
  used_ -= size_of(expert);
}

bool ExpertResidency::make_room(std::uint16_t expert) {
  while (!fits(expert)) {
    loose_.clear();
    if (!policy_->bypasses())
      for (const std::uint16_t e : held_)
        if (asked_[e] != request_) loose_.push_back(e);
    if (loose_.empty()) {
      loose_ = held_;
      loose_.push_back(expert);
    }
    if (!evict_one(expert)) return false;
  }
  return true;
}

bool ExpertResidency::evict_one(std::uint16_t expert) {
  const std::uint16_t gone = policy_->evict(loose_);
  if (gone == expert) return false;
  remove(gone);
  ++counts_.evictions;
  return true;
}

bool ExpertResidency::make_room_ahead(std::uint16_t expert) {
  while (!fits(expert)) {
    loose_.clear();
    for (const std::uint16_t e : held_)
      if (asked_[e] != request_) loose_.push_back(e);
    if (loose_.empty()) return false;
    if (policy_->refuses_ahead()) loose_.push_back(expert);
    if (!evict_one(expert)) return false;
  }
  return true;
}

void ExpertResidency::look_up(const ExpertRequest& request) {
  ++request_;
  missing_.clear();
  for (const std::uint16_t e : request.experts) {
    if (asked_[e] == request_) continue;
    asked_[e] = request_;
    ++counts_.requests;
    if (place_[e] < 0) missing_.push_back(e);
  }
  counts_.misses += static_cast<std::int64_t>(missing_.size());
  policy_->ask(request);
}

void ExpertResidency::load(std::uint16_t expert) {
  if (!policy_->admits(expert) || !make_room(expert)) return;
  put(expert);
  policy_->loaded(expert);
}

void ExpertResidency::load_ahead(std::uint16_t expert) {
  if (!policy_->admits(expert) || !make_room_ahead(expert)) return;
  put(expert);
  policy_->loaded(expert);
}

std::int64_t ExpertResidency::use(const ExpertRequest& request) {
  look_up(request);
  for (const std::uint16_t e : missing_) load(e);
  return static_cast<std::int64_t>(missing_.size());
}

}  // namespace orrery::policies
