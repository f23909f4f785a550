// A bound on what is there: requests, and tokens still to prefill, a replica on the mean. Whoever comes beyond it is
// turned away ("queue_full"), as a server with a bounded queue does.
#include "policies/admission/admission.hpp"

namespace orrery::policies {
namespace {

struct QueueLimitParams {
  std::optional<std::int64_t> requests = 256;
  std::optional<std::int64_t> queued_tokens;

  static constexpr auto fields() {
    using Q = QueueLimitParams;
    return sim::FieldTable{sim::field("requests", &Q::requests, sim::Unit::requests, sim::between(1, 1e12),
                                      "Most requests per replica on average; null: no bound."),
                           sim::field("queued_tokens", &Q::queued_tokens, sim::Unit::tokens, sim::between(1, 1e12),
                                      "Most tokens still to prefill per replica on average; null: no bound.")};
  }
};

class QueueLimit final : public AdmissionControl {
 public:
  explicit QueueLimit(const QueueLimitParams& params) : params_(params) {}
  std::optional<std::string_view> reject(const AdmissionView& view) override {
    std::int64_t requests = view.parked, queued = 0;
    for (const ReplicaFacts& facts : view.replicas) {
      requests += facts.requests;
      queued += facts.queued_tokens;
    }
    const auto replicas = std::max<std::int64_t>(1, std::ssize(view.replicas));
    if (params_.requests && requests + 1 > *params_.requests * replicas) return "queue_full";
    if (params_.queued_tokens && queued + view.request.prefill_tokens > *params_.queued_tokens * replicas)
      return "queue_full";
    return std::nullopt;
  }

 private:
  QueueLimitParams params_;
};

}  // namespace

void add_queue_limit(AdmissionRegistry& registry) {
  registry.add<QueueLimitParams>(
      "queue_limit", "Turns requests away beyond a number of requests, or of tokens to prefill, per replica.",
      [](const QueueLimitParams& params) { return std::make_unique<QueueLimit>(params); });
}

}  // namespace orrery::policies
