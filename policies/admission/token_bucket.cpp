// Token bucket: a bucket of `burst` fills at `rate` a second; a request takes its cost out of it or is turned away
// ("rate_limited"). The cost is 1, or the tokens of the prompt. With `per_tenant` every tenant has a bucket of its own.
#include <map>

#include "policies/admission/admission.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class BucketCost : std::uint8_t { request, prompt_tokens };
constexpr auto enum_names(BucketCost) {
  using enum BucketCost;
  return sim::names<BucketCost>({{"request", request}, {"prompt_tokens", prompt_tokens}});
}

struct TokenBucketParams {
  double rate = 10;
  double burst = 20;
  BucketCost cost = BucketCost::request;
  bool per_tenant = false;

  static constexpr auto fields();
};

constexpr auto TokenBucketParams::fields() {
  using B = TokenBucketParams;
  return sim::FieldTable{
      sim::field("rate", &B::rate, sim::Unit::none, sim::positive(),
                 "Rate at which the bucket fills, in requests or prompt tokens per second (see cost)."),
      sim::field("burst", &B::burst, sim::Unit::none, sim::positive(),
                 "Capacity of the bucket, in requests or prompt tokens (see cost)."),
      sim::field("cost", &B::cost, "What a request takes out of the bucket: 1 (request), or the tokens of its prompt."),
      sim::field("per_tenant", &B::per_tenant, "Whether each tenant has its own bucket.")};
}

class TokenBucket final : public AdmissionControl {
 public:
  explicit TokenBucket(const TokenBucketParams& params) : params_(params) {}
  std::optional<std::string_view> reject(const AdmissionView& view) override {
    const auto [entry, fresh] = buckets_.try_emplace(params_.per_tenant ? view.request.tenant : 0);
    Bucket& bucket = entry->second;
    if (fresh) {
      bucket = {params_.burst, view.now};
    } else {
      const double elapsed =
          static_cast<double>((view.now - bucket.at).ticks) * static_cast<double>(view.ps_per_tick) * 1e-12;
      bucket = {std::min(params_.burst, bucket.level + params_.rate * elapsed), view.now};
    }
    const double cost = params_.cost == BucketCost::request ? 1 : static_cast<double>(view.request.prefill_tokens);
    // One that costs more than the bucket holds comes in when it is full, and leaves a debt.
    if (bucket.level < std::min(cost, params_.burst)) return "rate_limited";
    bucket.level -= cost;
    return std::nullopt;
  }

 private:
  struct Bucket {
    double level = 0;
    sim::Time at;
  };
  TokenBucketParams params_;
  std::map<std::int32_t, Bucket> buckets_;  // by tenant
};

}  // namespace

void add_token_bucket(AdmissionRegistry& registry) {
  registry.add<TokenBucketParams>(
      "token_bucket", "Limits the rate of requests or prompt tokens, with bursts allowed.",
      [](const TokenBucketParams& params) { return std::make_unique<TokenBucket>(params); });
}

}  // namespace orrery::policies
