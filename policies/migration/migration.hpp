// Migration: which running requests move between replicas.
//
// A policy is asked now and then, while no round of migrations is under way. It sees a report of every replica and
// pairs sources with destinations; then, for each pair, it names the request that goes. The mechanism (stages, links,
// aborts) is not its business. Contract: pure functions of what they are given; ties go to the lower number or order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/routing/load_report.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Replicas by their place in the reports.
struct MigrationPair {
  std::size_t source = 0, destination = 0;
};

class Migration {
 public:
  virtual ~Migration() = default;
  /// Whether anything is ever to be asked.
  virtual bool active() const { return true; }
  virtual std::vector<MigrationPair> pair(std::span<const LoadReport> loads) = 0;
  /// The sequence of the source that goes, or nothing.
  virtual std::optional<SeqId> victim(const BatchView& source) = 0;
};

using MigrationRegistry = sim::Registry<Migration>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_migrations(MigrationRegistry& registry);

}  // namespace orrery::policies
