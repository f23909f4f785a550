// Expert schedules: where the activated experts of a layer are computed when some of them are not in the GPU's memory.
//
// Asked once a layer, when its router has chosen. Contract: a pure function of the view. Experts that are there are
// computed by the GPU together; what is fetched follows in the order of the answer, each once it has arrived; the host
// computes beside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Where an expert is computed: by the GPU that holds it, by the GPU after a copy over the link, by the host.
enum class ExpertPlace : std::uint8_t { gpu, fetched, host };

struct ExpertWork {
  std::uint16_t expert = 0;
  std::int64_t tokens = 0;
  bool here = false;          ///< in the GPU's memory, or on its way there
  std::int64_t ready_ps = 0;  ///< until it is, from now on
};

/// Times of one expert with so many tokens, in ps.
class ExpertPrices {
 public:
  virtual ~ExpertPrices() = default;
  virtual std::int64_t gpu_ps(std::int64_t tokens) const = 0;
  virtual std::int64_t host_ps(std::int64_t tokens) const = 0;
  virtual std::int64_t copy_ps() const = 0;
};

struct ExpertScheduleView {
  std::span<const ExpertWork> work;  ///< each with at least one token
  const ExpertPrices& prices;
  std::int64_t link_busy_ps = 0;  ///< until the link is free, from now on
  bool host_computes = true;      ///< there is a host that can
};

class ExpertSchedule {
 public:
  virtual ~ExpertSchedule() = default;
  /// A place for each of `view.work`; `gpu` for those that are here, unless the host is faster.
  virtual std::vector<ExpertPlace> place(const ExpertScheduleView& view) const = 0;
};

using ExpertScheduleRegistry = sim::Registry<ExpertSchedule>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_expert_schedules(ExpertScheduleRegistry& registry);

}  // namespace orrery::policies
