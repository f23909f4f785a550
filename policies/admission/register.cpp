#include "policies/admission/admission.hpp"

namespace orrery::policies {

// One line a policy: each is declared and called here, and defined in its own file.
// clang-format off
void register_admission_controls(AdmissionRegistry& registry) {
  void add_admit_all(AdmissionRegistry&); add_admit_all(registry);
  void add_expression_admission(AdmissionRegistry&); add_expression_admission(registry);
  void add_queue_limit(AdmissionRegistry&); add_queue_limit(registry);
  void add_slo_admission(AdmissionRegistry&); add_slo_admission(registry);
  void add_token_bucket(AdmissionRegistry&); add_token_bucket(registry);
}
// clang-format on

}  // namespace orrery::policies
