// What the files of the replica share: replica.cpp decides, replica_copies.cpp moves KV to tiers and back,
// replica_batch.cpp says what a decision is as work, replica_leap.cpp advances, replica_end.cpp finishes,
// replica_moves.cpp takes requests away.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string_view>

#include "experiments/systems/serving/replica/lock_step.hpp"
#include "experiments/systems/serving/replica/replica.hpp"

namespace orrery::experiments {

using policies::Admission;
using policies::Item;
using policies::Leave;
using policies::Phase;
using policies::Preempt;
using policies::Preemption;
using policies::SeqId;
using policies::Sequence;

[[noreturn]] inline void broken_policy(std::string_view what) {
  throw std::logic_error(fmt::format("the batching policy broke its contract: {}", what));
}

inline constexpr std::uint64_t kIterationEnd = 0, kDecide = 1;  // payloads

}  // namespace orrery::experiments
