#include "policies/speculation/speculation.hpp"

namespace orrery::policies {

void add_draft_model(SpeculationRegistry& registry);
void add_mtp(SpeculationRegistry& registry);
void add_n_gram(SpeculationRegistry& registry);
void add_no_speculation(SpeculationRegistry& registry);

void register_speculation(SpeculationRegistry& registry) {
  add_draft_model(registry);
  add_mtp(registry);
  add_n_gram(registry);
  add_no_speculation(registry);
}

}  // namespace orrery::policies
