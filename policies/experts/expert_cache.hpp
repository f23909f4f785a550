// Expert caches: which experts of a mixture-of-experts model stay in fast memory.
//
// A cache policy says who makes room; ExpertResidency (residency.hpp) keeps the slots and counts. Experts are numbered
// within what the slots are shared by: a layer, where each has slots of its own. Contract: a policy is told of every
// request before it is looked up, in order; what it answers is a pure function of that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What a policy is made with.
struct ExpertCacheSetup {
  std::int64_t experts = 1;  ///< that there are
  std::int64_t slots = 1;    ///< that stay, 1 to `experts`
  std::int64_t top_k = 1;    ///< experts that a token asks for
  /// All requests of the run, in order, for policies that know what comes; empty where nobody does.
  std::span<const std::uint16_t> future;
  /// Requests of other tokens, by which a policy may see what is popular where it does not know what comes.
  std::span<const std::uint16_t> past;
  /// Of nested weights every level of an expert is asked for, and kept, by itself: (layer * experts of a layer +
  /// expert)
  /// * levels + level is its number here, `sizes` has the slots that each takes. Empty: one each.
  std::int64_t levels = 1, layer_experts = 0;  ///< `layer_experts` 0: all are of one layer
  std::span<const std::uint8_t> sizes;
  bool scores = false;    ///< requests come with the router's scores
  bool foretold = false;  ///< a predictor foretells experts
};

/// Experts that are looked up together: those of one request, of a token, or of all tokens of a batch. An expert may
/// come several times.
struct ExpertRequest {
  std::int64_t first = 0;  ///< requests before these
  std::span<const std::uint16_t> experts;
  /// What the router gave all experts, in 65,535ths, token after token; empty where it is not known.
  std::span<const std::uint16_t> scores;
};

class ExpertCache {
 public:
  virtual ~ExpertCache() = default;
  /// Takes note of a request.
  virtual void ask(const ExpertRequest& request) = 0;
  /// Whether it goes by what the router gave the experts that were not chosen (ExpertRequest::scores).
  virtual bool reads_scores() const { return false; }
  /// Takes note that an expert was loaded into a slot.
  virtual void loaded(std::uint16_t /*expert*/) {}
  /// Which of `experts` (never empty; in no order) makes room. The one that comes may be among them: see bypasses().
  virtual std::uint16_t evict(std::span<const std::uint16_t> experts) = 0;
  /// Whether an expert that was just asked for, the missing one included, may be the one that goes. Else it may only
  /// where more experts are asked for than there are slots.
  virtual bool bypasses() const { return false; }
  /// Takes note that an expert is foretold for the request that comes `ahead` requests after the last one; of an
  /// expert, the nearest request first.
  virtual void foretell(std::uint16_t /*expert*/, std::int64_t /*ahead*/) {}
  /// Whether a copy ahead of its request may be refused: evict() is then asked with the one that would come among the
  /// others.
  virtual bool refuses_ahead() const { return false; }
  /// Experts that are there before the first request, at most as many as slots.
  virtual std::vector<std::uint16_t> initial() const { return {}; }
  /// Whether a missing expert takes a slot; else it passes through memory beside the slots.
  virtual bool admits(std::uint16_t /*expert*/) const { return true; }
};

using ExpertCacheRegistry = sim::Registry<ExpertCache, const ExpertCacheSetup&>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_expert_caches(ExpertCacheRegistry& registry);

/// For each request of `future` the next one of the same expert; kNever where there is none.
inline constexpr std::int64_t kNever = std::int64_t{1} << 52;
std::vector<std::int64_t> next_requests(std::span<const std::uint16_t> future, std::int64_t experts);
/// Experts by how often they come in `requests`, the most frequent first, of equals the lowest number.
std::vector<std::uint16_t> by_frequency(std::span<const std::uint16_t> requests, std::int64_t experts);
/// Throws sim::ConfigError unless what comes is known (a trace is replayed).
void need_future(const ExpertCacheSetup& setup, const char* policy);

/// A policy that gives every expert a worth and evicts the least worthy, of equals the lowest number.
class RankedExpertCache : public ExpertCache {
 public:
  explicit RankedExpertCache(const ExpertCacheSetup& setup) : worth_(static_cast<std::size_t>(setup.experts), 0) {}
  std::uint16_t evict(std::span<const std::uint16_t> experts) final {
    std::uint16_t least = experts.front();
    for (const std::uint16_t e : experts)
      if (worth_[e] < worth_[least] || (worth_[e] == worth_[least] && e < least)) least = e;
    return least;
  }

 protected:
  std::vector<double> worth_;  ///< by expert
};

}  // namespace orrery::policies
