// The registries that a serving config chooses from, and the policies where it names none. For config.cpp, which reads,
// and config_fields.cpp, which describes.
#pragma once

#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

template <class Registry>
Registry filled(const char* kind, void (*add)(Registry&)) {
  Registry registry(kind);
  add(registry);
  return registry;
}
inline hw::CostModelRegistry cost_models() {
  return filled<hw::CostModelRegistry>("cost_model", hw::register_cost_models);
}
inline policies::BatchingRegistry batchings() {
  return filled<policies::BatchingRegistry>("batching", policies::register_batching_policies);
}
inline policies::KvCacheRegistry kv_caches() {
  return filled<policies::KvCacheRegistry>("kvcache", policies::register_kv_caches);
}
inline HostRegistry host_times() {
  return filled<HostRegistry>("host", register_host_times);
}
inline policies::MigrationRegistry migrations() {
  return filled<policies::MigrationRegistry>("migration", policies::register_migrations);
}
inline policies::AdmissionRegistry admissions() {
  return filled<policies::AdmissionRegistry>("admission", policies::register_admission_controls);
}
inline policies::ScalingRegistry scalings() {
  return filled<policies::ScalingRegistry>("scaling", policies::register_scalings);
}
inline policies::ClockRegistry clock_policies() {
  return filled<policies::ClockRegistry>("power", policies::register_clock_policies);
}
inline policies::RouterRegistry routers() {
  return filled<policies::RouterRegistry>("routing", policies::register_routers);
}
inline policies::SpeculationRegistry speculators() {
  return filled<policies::SpeculationRegistry>("speculation", policies::register_speculation);
}

/// Policies where a config names none.
inline constexpr const char* kCostModel = "tiled";
inline constexpr const char* kBatching = "sarathi";
inline constexpr const char* kKvCache = "paged";
inline constexpr const char* kSpeculation = "none";
inline constexpr const char* kHost = "serial";
inline constexpr const char* kRouter = "round_robin";
inline constexpr const char* kDecodeRouter = "least_loaded";
inline constexpr const char* kAdmission = "all";
inline constexpr const char* kScaling = "fixed";
inline constexpr const char* kPower = "highest";
inline constexpr const char* kMigration = "none";

}  // namespace orrery::experiments
