// The section `cluster` of a serving config: which replicas there are, and how they are made.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

/// Which part of a request's way a replica takes.
enum class Role : std::uint8_t {
  both,
  prefill,  ///< up to the first token; the KV cache then goes to a replica that decodes
  decode    ///< what others prefilled
};

}  // namespace orrery::experiments

template <>
struct orrery::sim::EnumNames<orrery::experiments::Role> {
  using E = orrery::experiments::Role;
  static constexpr std::array<std::pair<std::string_view, E>, 3> names{
      {{"both", E::both}, {"prefill", E::prefill}, {"decode", E::decode}}};
};

namespace orrery::experiments {

inline std::string_view to_string(Role role) {
  return sim::EnumNames<Role>::names[static_cast<std::size_t>(role)].first;
}

/// Equal replicas.
struct ReplicaGroupParams {
  std::string name = "replicas";
  std::int64_t count = 1;
  std::int64_t device_group = 0;
  std::optional<std::int64_t> tensor_parallel;
  std::int64_t pipeline_parallel = 1;
  Role role = Role::both;
  double weight = 1;
  sim::Node batching, kvcache;

  static constexpr auto fields() {
    using G = ReplicaGroupParams;
    return std::tuple{
        sim::field("name", &G::name, "What the summary calls them."),
        sim::field("count", &G::count, sim::Unit::count, sim::between(1, 16384), "How many equal replicas."),
        sim::field("device_group", &G::device_group, sim::Unit::none, sim::at_least(0),
                   "The group of machine.devices that they are made of, counted from 0."),
        sim::field("tensor_parallel", &G::tensor_parallel, sim::Unit::count, sim::at_least(1),
                   "Devices that share every layer; null: replica.tensor_parallel, else 1."),
        sim::field("pipeline_parallel", &G::pipeline_parallel, sim::Unit::count, sim::between(1, 1024),
                   "Stages that share the layers, each of tensor_parallel devices."),
        sim::field("role", &G::role, "Which part of a request they do."),
        sim::field("weight", &G::weight, sim::Unit::none, sim::positive(),
                   "Their share of the load against other replicas: routers divide loads by it."),
        sim::field("batching", &G::batching, "A batching policy of their own, as in policies.batching."),
        sim::field("kvcache", &G::kvcache, "A KV cache of their own, as in policies.kvcache.")};
  }
};

struct ClusterParams {
  std::vector<ReplicaGroupParams> replicas;

  static constexpr auto fields() {
    return std::tuple{sim::field("replicas", &ClusterParams::replicas,
                                 "Groups of equal replicas; none: one replica as section `replica` says.")};
  }
};

/// A group as read: parameters and the policies that its replicas run.
struct ReplicaGroup {
  ReplicaGroupParams params;
  std::int64_t tensor_parallel = 1;  ///< as it comes out
  policies::BatchingRegistry::Choice batching;
  policies::KvCacheRegistry::Choice kvcache;

  std::int64_t devices() const { return tensor_parallel * params.pipeline_parallel; }  ///< of one replica
};

}  // namespace orrery::experiments
