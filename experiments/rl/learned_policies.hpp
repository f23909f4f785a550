// `policies.<decision>.policy = learned`: decisions of a run taken by a policy from a file (policy_file.hpp).
//
// Routing, batching, admission, scaling and the clock of batches in serving, and which expert makes room in runs that
// offload experts: the same policies that ask in training (envs/decisions.hpp), with a loaded learner behind the port,
// which acts greedily.
#pragma once

#include "policies/registries.hpp"

namespace orrery::experiments::rl {

/// Adds `learned` to the kinds of decision that environments train. `policies` are those that a batching
/// policy may choose among.
void add_learned_policies(policies::Registries& policies);

/// Where in a config the decision of an environment stands ("routing" of serving_routing); empty: nowhere.
std::string decision_of(std::string_view env);

}  // namespace orrery::experiments::rl
