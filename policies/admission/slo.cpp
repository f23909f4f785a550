// Turns requests away that would miss their time to first token anyway ("slo"): predicted at every replica as
//     (queued tokens + tokens of the request) / prefill rate measured lately,
// a request comes in if the best of them is within `headroom` x the target. A replica not measured yet counts as idle.
#include "policies/admission/admission.hpp"

namespace orrery::policies {
namespace {

struct SloAdmissionParams {
  std::optional<double> ttft_s;
  double headroom = 1;

  static constexpr auto fields() {
    using S = SloAdmissionParams;
    return sim::FieldTable{sim::field("ttft", &S::ttft_s, sim::Unit::seconds, sim::positive(),
                                      "Target for the time to first token; null: slo.ttft, and without that none."),
                           sim::field("headroom", &S::headroom, sim::Unit::ratio, sim::between(0.01, 100),
                                      "Share of the target that a prediction may take.")};
  }
};

class SloAdmission final : public AdmissionControl {
 public:
  explicit SloAdmission(const SloAdmissionParams& params) : params_(params) {}
  std::optional<std::string_view> reject(const AdmissionView& view) override {
    std::optional<double> target = params_.ttft_s;
    if (!target && view.ttft_ps) target = static_cast<double>(*view.ttft_ps) * 1e-12;
    if (!target) return std::nullopt;
    for (const ReplicaFacts& facts : view.replicas) {
      if (facts.prefill_tokens_per_s <= 0) return std::nullopt;
      const auto tokens = static_cast<double>(facts.queued_tokens + view.request.prefill_tokens);
      if (tokens / facts.prefill_tokens_per_s <= params_.headroom * *target) return std::nullopt;
    }
    if (view.replicas.empty()) return std::nullopt;
    return "slo";
  }

 private:
  SloAdmissionParams params_;
};

}  // namespace

void add_slo_admission(AdmissionRegistry& registry) {
  registry.add<SloAdmissionParams>(
      "slo", "Turns away whom no replica would give a first token in time.",
      [](const SloAdmissionParams& params) { return std::make_unique<SloAdmission>(params); });
}

}  // namespace orrery::policies
