#include "policies/mixture/mixture.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_mixtures(MixtureRegistry& registry) {
  void add_alignment_mixture(MixtureRegistry&); add_alignment_mixture(registry);
  void add_dids_mixture(MixtureRegistry&); add_dids_mixture(registry);
  void add_doremi_mixture(MixtureRegistry&); add_doremi_mixture(registry);
  void add_uniform_mixture(MixtureRegistry&); add_uniform_mixture(registry);
}
// clang-format on

}  // namespace orrery::policies
