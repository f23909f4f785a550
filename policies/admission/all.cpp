// Everybody comes in.
#include "policies/admission/admission.hpp"

namespace orrery::policies {
namespace {

class AdmitAll final : public AdmissionControl {
 public:
  std::optional<std::string_view> reject(const AdmissionView&) override { return std::nullopt; }
};

}  // namespace

void add_admit_all(AdmissionRegistry& registry) {
  registry.add<sim::NoParams>("all", "Every request is admitted.",
                              [](const sim::NoParams&) { return std::make_unique<AdmitAll>(); });
}

}  // namespace orrery::policies
