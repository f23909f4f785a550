// Virtual token counters: fairness between tenants.
//
// Decides: as vllm_v1, but the next to be admitted is the earliest request of the waiting tenant whose counter is
// lowest. A tenant's counter grows by what it is served: `input_weight` for every prompt token when a request is
// admitted, `output_weight` for every token generated. A tenant that starts to wait is lifted to the lowest counter of
// those that wait (or to that of the last one that did), so that nobody saves up service while idle. Nobody is
// preempted for fairness. Source: Sheng et al., "Fairness in serving large language models" (OSDI 2024), Algorithm 2.
// The queue of tenants is walked at admission: O(running + tenants) while somebody waits and there is room.
#include <algorithm>
#include <deque>
#include <map>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/waiting_order.hpp"

namespace orrery::policies {
namespace {

struct VtcParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  std::int64_t input_weight = 1;
  std::int64_t output_weight = 2;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("token_budget", &VtcParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                                      "Most tokens in an iteration."),
                           sim::field("max_sequences", &VtcParams::max_sequences, sim::Unit::sequences,
                                      sim::at_least(1), "Most sequences that run at once."),
                           sim::field("input_weight", &VtcParams::input_weight, sim::Unit::count, sim::between(0, 1e6),
                                      "Units of service that a prompt token counts for."),
                           sim::field("output_weight", &VtcParams::output_weight, sim::Unit::count,
                                      sim::between(0, 1e6), "Units of service that a generated token counts for.")};
  }
};

class VtcBatching final : public Batching {
 public:
  explicit VtcBatching(const VtcParams& params)
      : params_(params), limits_{.tokens = params.token_budget, .sequences = params.max_sequences} {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "vtc counts what all that run were served");
  }
  void decide(const BatchView& view, BatchDecision& out) override {
    if (!view.waiting.empty()) count_served(view);
    take_in(view);
    BudgetStep step(view, out, limits_);
    step.run_running();
    if (out.preempt.empty()) {
      while (Tenant* tenant = least(view)) {
        const SeqId id = tenant->queue.front().seq;
        if (!step.too_large(id)) {
          if (!step.admit(id)) break;
          const Sequence& seq = view[id];
          if (seq.preemptions == 0) tenant->counter += params_.input_weight * seq.prompt_tokens;
          served_.push_back({id, seq.order, seq.tenant, seq.generated_then, seq.output_tokens});
        }
        last_tenant_ = view[id].tenant;
        tenant->queue.pop_front();
      }
    }
    step.settle();
    if (out.stable_iterations > 1)
      out.stable_iterations = std::min(out.stable_iterations, steps_until_overtaken(view, step));
    for (const Preemption& gone : out.preempt) returned_.add(gone.seq);
  }

  void returned(SeqId id) override { returned_.add(id); }

 private:
  struct Waiting {
    SeqId seq;
    std::int64_t order;
  };
  struct Tenant {
    std::int64_t counter = 0;
    std::deque<Waiting> queue;  // by order
  };
  struct Served {
    SeqId seq;
    std::int64_t order;
    std::int32_t tenant;
    std::int64_t counted;  // output tokens in the counter
    std::int64_t output;   // read only once the sequence has ended: then all of it was generated
  };

  /// Counts tokens generated since the last call.
  void count_served(const BatchView& view) {
    std::erase_if(served_, [&](Served& served) {
      const Sequence& seq = view[served.seq];
      const bool here = seq.order == served.order;
      const std::int64_t generated = here ? view.generated(served.seq) : served.output;
      tenants_[served.tenant].counter += params_.output_weight * (generated - served.counted);
      served.counted = generated;
      return !here || seq.phase == Phase::waiting;
    });
  }

  /// Newcomers, and who came back.
  void take_in(const BatchView& view) {
    const auto join = [&](SeqId id) {
      Tenant& tenant = tenants_[view[id].tenant];
      forget_gone(view, tenant);
      if (tenant.queue.empty()) {
        const Tenant* lowest = least(view);
        if (lowest == nullptr && last_tenant_) lowest = &tenants_[*last_tenant_];
        if (lowest != nullptr) tenant.counter = std::max(tenant.counter, lowest->counter);
      }
      const auto at = std::upper_bound(tenant.queue.begin(), tenant.queue.end(), view[id].order,
                                       [](std::int64_t order, const Waiting& other) { return order < other.order; });
      tenant.queue.insert(at, {id, view[id].order});
    };
    returned_.take(view, last_order_, join);
    last_order_ = take_newcomers(view, last_order_, join);
  }

  static void forget_gone(const BatchView& view, Tenant& tenant) {
    while (!tenant.queue.empty()) {
      const Sequence& seq = view[tenant.queue.front().seq];
      if (seq.order == tenant.queue.front().order && seq.phase == Phase::waiting) return;
      tenant.queue.pop_front();
    }
  }

  /// The waiting tenant with the lowest counter (the lowest number of equal ones), or null.
  Tenant* least(const BatchView& view) {
    Tenant* best = nullptr;
    for (auto& [number, tenant] : tenants_) {
      forget_gone(view, tenant);
      if (!tenant.queue.empty() && (best == nullptr || tenant.counter < best->counter)) best = &tenant;
    }
    return best;
  }

  /// Iterations until another tenant may be the next, who might fit where this one does not.
  std::int64_t steps_until_overtaken(const BatchView& view, const BudgetStep& step) {
    const Tenant* first = least(view);
    if (first == nullptr || step.full()) return kStable;
    std::map<std::int32_t, std::int64_t> rates;  // what a step adds to each counter
    for (const SeqId id : view.running)
      if (view[id].phase == Phase::decode) rates[view[id].tenant] += params_.output_weight;
    std::int64_t first_rate = 0;
    for (const auto& [number, tenant] : tenants_)
      if (&tenant == first && rates.contains(number)) first_rate = rates[number];
    std::int64_t steps = kStable;
    for (const auto& [number, tenant] : tenants_) {
      if (&tenant == first || tenant.queue.empty()) continue;
      const std::int64_t rate = rates.contains(number) ? rates[number] : 0;
      if (first_rate > rate) steps = std::min(steps, (tenant.counter - first->counter) / (first_rate - rate));
    }
    return std::max<std::int64_t>(1, steps);
  }

  VtcParams params_;
  StepLimits limits_;
  std::map<std::int32_t, Tenant> tenants_;
  std::vector<Served> served_;
  Returned returned_;
  std::optional<std::int32_t> last_tenant_;  // the last that was admitted: the one to leave an empty queue behind
  std::int64_t last_order_ = -1;
};

}  // namespace

void add_vtc(BatchingRegistry& registry) {
  registry.add<VtcParams>(
      "vtc", "Virtual token counters: token budget, the tenant with the least service goes first (OSDI 2024).",
      [](const VtcParams& params) { return std::make_unique<VtcBatching>(params); });
}

}  // namespace orrery::policies
