// BatchLLM: requests that share a prefix one group after the other, for batches that are known as a whole.
//
// Decides: all that wait are planned together: groups with one shared prefix each (prefix_groups.hpp), in order of
// expected decode tokens over tokens to prefill, most first, so that decodes of early groups run beside prompts of
// later ones. Who comes later waits for the next plan, which is made when nobody of this one waits. A group is admitted
// member by member; while its first one computes the prefix the others wait for it and the next groups are tried. What
// limits admission is memory: a request joins if all that run, and it, have room for what they are expected to become
// (`kv_limit`); an iteration runs all decodes and up to `prefill_tokens` tokens of prompts beside them. Where blocks
// lack all the same the latest is preempted and recomputed; it goes first then. What a group leaves in the prefix cache
// is not asked for again, and goes when somebody needs its place.
//
// Lengths of outputs are predictions, true ones with `oracle`; where there is none only what a request holds counts.
// Source: BatchLLM (MLSys 2026, arXiv 2412.03594). Its attention kernel, which reads a shared prefix once for
// all its readers, is the replica's (read_prefix_once). Left out: the cache is not told when a group ends, it finds out
// by least recent use.
#include <algorithm>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/prefix_groups.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class GroupOrder : std::uint8_t { ratio, reverse, arrival };
constexpr auto enum_names(GroupOrder) {
  using enum GroupOrder;
  return sim::names<GroupOrder>({{"ratio", ratio}, {"reverse", reverse}, {"arrival", arrival}});
}

struct BatchLlmParams {
  GroupOrder order = GroupOrder::ratio;
  std::int64_t prefill_tokens = 2048;
  double kv_limit = 1;
  std::int64_t hold_shared = 32;
  bool oracle = false;

  static constexpr auto fields() {
    using P = BatchLlmParams;
    return sim::FieldTable{
        sim::field("order", &P::order,
                   "Order of groups: by the ratio of decode tokens to prompt tokens, highest first; the reverse; or by "
                   "arrival."),
        sim::field("prefill_tokens", &P::prefill_tokens, sim::Unit::tokens, sim::between(1, 1e12),
                   "Most prompt tokens in an iteration, which also runs all decodes."),
        sim::field("kv_limit", &P::kv_limit, sim::Unit::ratio, sim::between(0.01, 1),
                   "Share of the KV cache that running sequences may be expected to fill by their ends."),
        sim::field(
            "hold_shared", &P::hold_shared, sim::Unit::tokens, sim::at_least(1),
            "Length of a shared prefix from which the other members of its group wait until one has computed it."),
        sim::field("oracle", &P::oracle, "Whether the true output lengths are used in place of predicted ones.")};
  }
};

class BatchLlm final : public Batching {
 public:
  explicit BatchLlm(const BatchLlmParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "batchllm adds up what all that run will hold");
  }
  void decide(const BatchView& view, BatchDecision& out) override {
    BudgetStep step(view, out,
                    {.tokens = view.decode_tokens + params_.prefill_tokens,
                     .sequences = std::numeric_limits<std::int64_t>::max(),
                     .room_for_all = true});
    step.run_running();
    if (out.preempt.empty() && !view.waiting.empty() && !step.full()) admit(view, out, step);
    step.settle();
    for (const Preemption& gone : out.preempt) returned_.push_back({gone.seq, view[gone.seq].order});
  }

 private:
  struct Member {
    SeqId seq;
    std::int64_t order = -1;
  };
  struct Group {
    std::int64_t shared = 0;
    std::int64_t decode = 0, prefill = 0;  // tokens expected, and to compute
    std::vector<Member> members;
    std::size_t next = 0;     // the first one that was not admitted
    Member leader;            // who computes the prefix
    std::int64_t there = -1;  // tokens of the prefix that the cache had when the leader was done
  };

  static bool waits(const BatchView& view, const Member& member) {
    return view[member.seq].order == member.order && view[member.seq].phase == Phase::waiting;
  }
  std::int64_t output(const Sequence& seq) const { return params_.oracle ? seq.output_tokens : seq.predicted_tokens; }
  /// Tokens in the cache when it ends, as far as one can tell.
  std::int64_t final_tokens(const BatchView& view, SeqId id) const {
    const Sequence& seq = view[id];
    return std::max(seq.prompt_tokens + output(seq), seq.prefill_tokens) - (output(seq) > 0 ? 1 : 0);
  }

  void plan(const BatchView& view) {
    groups_.clear();
    at_ = 0;
    std::vector<SeqId> line;
    std::vector<SharedText> texts;
    for (const SeqId id : view.waiting) {
      const Sequence& seq = view[id];
      line.push_back(id);
      texts.push_back({seq.text, seq.prefill_tokens - 1});  // the last token is computed in any case
    }
    if (!view.kv.keeps_prefixes()) std::fill(texts.begin(), texts.end(), SharedText{});
    for (const PrefixGroup& found : prefix_groups(texts)) {
      Group group{.shared = found.shared};
      group.prefill = -found.shared * (std::ssize(found.members) - 1);
      for (const std::size_t i : found.members) {
        group.members.push_back({line[i], view[line[i]].order});
        group.decode += output(view[line[i]]);
        group.prefill += view[line[i]].prefill_tokens;
      }
      groups_.push_back(std::move(group));
    }
    if (params_.order == GroupOrder::arrival) return;
    // Stable: what ties stays as it came.
    std::stable_sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
      const auto more = [](const Group& x, const Group& y) {
        return static_cast<__int128>(x.decode) * y.prefill > static_cast<__int128>(y.decode) * x.prefill;
      };
      return params_.order == GroupOrder::ratio ? more(a, b) : more(b, a);
    });
  }

  /// Blocks that remain once all that run have become what they are expected to. It does not rise while decodes alone
  /// go on, so that a refusal holds.
  std::int64_t slack(const BatchView& view) const {
    const auto kept = static_cast<std::int64_t>((1 - params_.kv_limit) * static_cast<double>(view.kv.total_blocks()));
    std::int64_t blocks = view.kv.available_blocks() - kept;
    for (const SeqId id : view.running) {
      const std::int64_t grown = view.kv.blocks_of(view[id], final_tokens(view, id));
      blocks -= std::max<std::int64_t>(0, grown - view.holds(id, view.kv.held_blocks(id)));
    }
    return blocks;
  }

  /// False if the memory, the budget or the blocks do not allow it: nobody after it is asked either.
  bool take(const BatchView& view, const BatchDecision& out, BudgetStep& step, SeqId id) {
    if (step.full()) return false;
    const bool alone = view.running.empty() && out.admit.empty();
    if (!counted_) {
      slack_ = slack(view);
      counted_ = true;
    }
    const std::int64_t blocks = view.kv.blocks_to_admit(view[id], final_tokens(view, id));
    if (!alone && blocks > slack_) return false;
    if (!step.admit(id)) return false;
    slack_ -= blocks;
    return true;
  }

  void admit(const BatchView& view, BatchDecision& out, BudgetStep& step) {
    counted_ = false;
    while (!returned_.empty()) {
      const Member first = returned_.back();  // the earliest admitted of those that had to go last
      if (waits(view, first) && !step.too_large(first.seq) && !take(view, out, step, first.seq)) return;
      returned_.pop_back();
    }
    while (at_ < groups_.size() && done(view, groups_[at_])) ++at_;
    if (at_ == groups_.size()) {
      if (!out.admit.empty()) return;  // they still stand in the queue
      plan(view);
    }
    for (std::size_t i = at_; i < groups_.size(); ++i)
      if (!admit_group(view, out, step, groups_[i])) return;
  }

  static bool done(const BatchView& view, Group& group) {
    while (group.next < group.members.size() && !waits(view, group.members[group.next])) ++group.next;
    return group.next == group.members.size();
  }

  bool admit_group(const BatchView& view, BatchDecision& out, BudgetStep& step, Group& group) {
    const bool holds = group.shared >= params_.hold_shared && group.members.size() > 1;
    if (holds && group.leader.order >= 0) {
      const Sequence& leader = view[group.leader.seq];
      if (leader.order == group.leader.order && leader.phase == Phase::prefill && leader.prefilled < group.shared)
        return true;  // the next group meanwhile
    }
    while (!done(view, group)) {
      const Member& member = group.members[group.next];
      if (step.too_large(member.seq)) {
        ++group.next;  // it never will; refused when nobody else is there
        continue;
      }
      bool leads = false;
      if (holds) {
        const std::int64_t there = std::min(group.shared, view.kv.match_prefix(view[member.seq]));
        if (group.leader.order < 0) {
          leads = there < group.shared;
        } else {
          // Whole blocks may be less than the prefix: what the leader left is all there is to have.
          if (group.there < 0) group.there = there;
          leads = there < group.there;  // evicted since
        }
      }
      if (!take(view, out, step, member.seq)) return false;
      ++group.next;
      if (leads) {
        group.leader = member;
        return true;
      }
    }
    return true;
  }

  BatchLlmParams params_;
  std::vector<Group> groups_;  // the plan
  std::size_t at_ = 0;         // groups before this one are through
  std::vector<Member> returned_;
  std::int64_t slack_ = 0;  // in blocks, if counted_ in this decision
  bool counted_ = false;
};

}  // namespace

void add_batchllm(BatchingRegistry& registry) {
  registry.add<BatchLlmParams>(
      "batchllm", "BatchLLM: runs groups of requests with a shared prefix, one group after another (MLSys 2026).",
      [](const BatchLlmParams& params) { return std::make_unique<BatchLlm>(params); });
}

}  // namespace orrery::policies
