// TensorRT-LLM: in-flight batching of whole prompts with the decodes, and prompts that wait for company.
//
// Decides: every decode runs; then prompts, first come, first served, while tokens, slots and cache last, in the same
// iteration. Prompts run in one piece unless `chunked_context`. `capacity` says when one may start:
//  - guaranteed_no_evict: when the cache has room for its prompt and all of its output, so that nobody ever stops;
//  - max_utilization: when it has room for what is computed now; where decodes find none, the latest started is
//    preempted and recomputed.
// With `batch_wait_timeout_iters` n and `batch_wait_max_tokens_ratio` r, prompts that could start wait while decodes
// run, for n iterations or until an iteration would compute r of `max_num_tokens`: decodes are disturbed less often,
// and the first token comes later. Nobody waits if one of both is 0. Source: TensorRT-LLM 1.0 to 1.2, _torch/pyexecutor
// (scheduler.py: GuaranteedNoEvictPolicy, MaxUtilizationPolicy; py_executor.py: _waiting_requests). The output that
// guaranteed_no_evict sets aside is the request's limit; requests here end at it. Left out: chunks of a prompt under
// way, which the engine lets wait too; adapters, speculation, the balance between ranks of data-parallel attention.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/reservation.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class Capacity : std::uint8_t { guaranteed_no_evict, max_utilization };
constexpr auto enum_names(Capacity) {
  using enum Capacity;
  return sim::names<Capacity>({{"guaranteed_no_evict", guaranteed_no_evict}, {"max_utilization", max_utilization}});
}

struct TensorRtLlmParams {
  std::int64_t max_num_tokens = 8192;
  std::int64_t max_batch_size = 2048;
  Capacity capacity = Capacity::guaranteed_no_evict;
  bool chunked_context = false;
  std::int64_t batch_wait_timeout_iters = 0;
  double batch_wait_max_tokens_ratio = 0;

  static constexpr auto fields() {
    using P = TensorRtLlmParams;
    return sim::FieldTable{
        sim::field("max_num_tokens", &P::max_num_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most tokens in an iteration."),
        sim::field("max_batch_size", &P::max_batch_size, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("capacity", &P::capacity,
                   "How much KV cache must be free before a request starts: room for its prompt and whole output "
                   "(guaranteed_no_evict), or for what is computed now."),
        sim::field("chunked_context", &P::chunked_context,
                   "Whether a prompt may be split into chunks; if not, it waits until all of it fits an iteration."),
        sim::field("batch_wait_timeout_iters", &P::batch_wait_timeout_iters, sim::Unit::count, sim::between(0, 1e6),
                   "Most decode iterations for which prompts wait for others to join them; 0: none."),
        sim::field(
            "batch_wait_max_tokens_ratio", &P::batch_wait_max_tokens_ratio, sim::Unit::ratio, sim::between(0, 1),
            "Share of max_num_tokens in an iteration at which prompts stop waiting for others; 0: they never wait.")};
  }
};

class TensorRtLlmBatching final : public Batching {
 public:
  explicit TensorRtLlmBatching(const TensorRtLlmParams& params)
      : params_(params),
        limits_{.tokens = params.max_num_tokens,
                .sequences = std::min(params.max_batch_size, params.max_num_tokens),
                .chunked = params.chunked_context} {}

  void decide(const BatchView& view, BatchDecision& out) override {
    if (params_.capacity == Capacity::max_utilization) {
      BudgetStep step(view, out, limits_);
      step.run_running();
      if (out.preempt.empty())
        for (const SeqId id : view.waiting)
          if (!step.admit(id)) break;
      step.settle();
    } else {
      admit_with_output(view, out);
    }
    wait_for_others(view, out);
  }

  std::optional<std::string_view> reject(const Sequence& seq, const KvView&, const ReplicaLimits&) const override {
    if (!limits_.chunked && seq.prompt_tokens > limits_.tokens) return "prompt_exceeds_batched_tokens";
    return std::nullopt;
  }

 private:
  void admit_with_output(const BatchView& view, BatchDecision& out) const {
    std::int64_t budget = limits_.tokens - view.decode_tokens;
    for (const SeqId id : view.prefilling) {
      const std::int64_t left = view[id].prefill_left();
      const std::int64_t tokens = limits_.chunked ? std::min(left, budget) : left;
      if (tokens <= 0) break;
      budget -= tokens;
      out.items.push_back({.seq = id, .new_tokens = tokens});
    }
    std::int64_t free = view.kv.available_blocks();
    for (const SeqId id : view.waiting) {
      if (budget <= 0 || view.live() + std::ssize(out.admit) >= limits_.sequences) break;
      const Sequence& seq = view[id];
      const std::int64_t left = tokens_to_compute(view, id);
      if (!limits_.chunked && left > budget) break;
      const std::int64_t reserve = reserved_tokens(seq, Reservation::oracle, view.limits.max_context);
      const std::int64_t blocks = view.kv.blocks_to_admit(seq, reserve);
      if (blocks > free) break;
      free -= blocks;
      out.admit.push_back({id, reserve});
      out.items.push_back({.seq = id, .new_tokens = std::min(left, budget)});
      budget -= out.items.back().new_tokens;
    }
    if (out.items.empty()) out.stable_iterations = steps_until_eviction(view);
  }

  /// Takes admissions back while they should wait. An iteration without decodes is not waited for.
  void wait_for_others(const BatchView& view, BatchDecision& out) {
    if (params_.batch_wait_timeout_iters == 0 || out.admit.empty() || view.decoding == 0) {
      asked_ = kNever;
      if (!out.admit.empty()) waited_ = 0;
      return;
    }
    if (asked_ != kNever) waited_ += view.clock - asked_;
    std::int64_t tokens = view.decode_tokens;
    for (const Item& item : out.items)
      if (view[item.seq].phase != Phase::decode) tokens += item.new_tokens;
    const double enough = params_.batch_wait_max_tokens_ratio * static_cast<double>(params_.max_num_tokens);
    if (static_cast<double>(tokens) >= enough || waited_ >= params_.batch_wait_timeout_iters) {
      asked_ = kNever;
      waited_ = 0;
      return;
    }
    asked_ = view.clock;
    out.items.resize(out.items.size() - out.admit.size());  // an admission's item comes last, one each
    out.admit.clear();
    if (!out.items.empty()) return;
    // What fits may shrink as decodes take blocks, unless theirs are set aside.
    const std::int64_t same = params_.capacity == Capacity::max_utilization ? 1 : steps_until_eviction(view);
    out.stable_iterations = std::min(same, params_.batch_wait_timeout_iters - waited_);
  }

  static constexpr std::int64_t kNever = -1;

  TensorRtLlmParams params_;
  StepLimits limits_;
  std::int64_t waited_ = 0;      // iterations that those who could start have waited
  std::int64_t asked_ = kNever;  // clock at which they were last told to
};

}  // namespace

void add_tensorrt_llm(BatchingRegistry& registry) {
  registry.add<TensorRtLlmParams>(
      "tensorrt_llm", "In-flight batching: whole prompts run with decodes, and start only with room for their output.",
      [](const TensorRtLlmParams& params) { return std::make_unique<TensorRtLlmBatching>(params); });
}

}  // namespace orrery::policies
