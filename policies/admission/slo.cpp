// Turns requests away that would miss their time to first token anyway ("slo"): a request comes in if first_token_s()
// is within `headroom` x the target.
#include <algorithm>

#include "policies/admission/admission.hpp"

namespace orrery::policies {
namespace {

struct SloAdmissionParams {
  std::optional<double> ttft_s;
  double headroom = 1;

  static constexpr auto fields() {
    using S = SloAdmissionParams;
    return sim::FieldTable{sim::field("ttft", &S::ttft_s, sim::Unit::seconds, sim::positive(),
                                      "Target for the time to first token (TTFT); null: slo.ttft, or none without it."),
                           sim::field("headroom", &S::headroom, sim::Unit::ratio, sim::between(0.01, 100),
                                      "Most that a predicted TTFT may be, as a share of the target.")};
  }
};

class SloAdmission final : public AdmissionControl {
 public:
  explicit SloAdmission(const SloAdmissionParams& params) : params_(params) {}
  std::optional<std::string_view> reject(const AdmissionView& view) override {
    std::optional<double> target = params_.ttft_s;
    if (!target && view.ttft_ps) target = static_cast<double>(*view.ttft_ps) * 1e-12;
    if (!target) return std::nullopt;
    const std::optional<double> soonest = first_token_s(view);
    if (!soonest || *soonest <= params_.headroom * *target) return std::nullopt;
    return "slo";
  }

 private:
  SloAdmissionParams params_;
};

}  // namespace

std::optional<double> first_token_s(const AdmissionView& view) {
  std::optional<double> soonest;
  for (const ReplicaFacts& facts : view.replicas) {
    const auto tokens = static_cast<double>(facts.queued_tokens + view.request.prefill_tokens);
    const double seconds = facts.prefill_tokens_per_s > 0 ? tokens / facts.prefill_tokens_per_s : 0;
    soonest = std::min(soonest.value_or(seconds), seconds);
  }
  return soonest;
}

void add_slo_admission(AdmissionRegistry& registry) {
  registry.add<SloAdmissionParams>(
      "slo", "Turns away requests to which no replica would give the first token in time.",
      [](const SloAdmissionParams& params) { return std::make_unique<SloAdmission>(params); });
}

}  // namespace orrery::policies
