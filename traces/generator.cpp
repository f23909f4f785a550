#include "traces/generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::traces {
namespace {

constexpr std::int64_t kMostLeaves = 1'000'000'000'000;
constexpr int kMostDraws = 100'000;  // of one request, before the limits are called impossible

class GeneratedTrace final : public TraceSource {
 public:
  GeneratedTrace(const GeneratorParams& params, std::uint64_t seed)
      : params_(params),
        arrivals_(params.arrivals.make()),
        lengths_(params.lengths.make()),
        arrival_random_(seed, "trace/arrivals"),
        length_random_(seed, "trace/lengths"),
        prefix_random_(seed, "trace/prefixes"),
        priority_random_(seed, "trace/priorities") {}

  bool next(TraceRecord& record) override {
    if (drawn_ == params_.requests) return false;
    now_ns_ = arrivals_->next(now_ns_, arrival_random_);
    const Lengths lengths = draw_lengths();
    record.arrival_ns = now_ns_;
    record.prompt_tokens = lengths.prompt_tokens;
    record.output_tokens = lengths.output_tokens;
    record.line = ++drawn_;
    clear_extras(record);
    if (params_.prefixes.depth > 0) draw_prefix(record);
    if (params_.high_share > 0) record.priority = priority_random_.uniform() < params_.high_share ? 1 : 0;
    return true;
  }

  const SkipCounts& skipped() const override { return skipped_; }
  TraceColumns columns() const override {
    return {.prefixes = params_.prefixes.depth > 0, .priorities = params_.high_share > 0};
  }

 private:
  /// A path from the root: ids of its blocks, whose tokens come before the prompt.
  void draw_prefix(TraceRecord& record) {
    const PrefixTree& tree = params_.prefixes;
    std::int64_t node = 0;
    for (std::int64_t level = 0; level < tree.depth; ++level) {
      const std::uint64_t child = prefix_random_.below(static_cast<std::uint64_t>(tree.fanout));
      node = node * tree.fanout + 1 + static_cast<std::int64_t>(child);
      for (std::int64_t block = 0; block < tree.node_blocks; ++block)
        record.prefix_blocks.push_back(node * tree.node_blocks + block);
    }
    record.prompt_tokens += tree.depth * tree.node_blocks * kPrefixBlockTokens;
  }

  Lengths draw_lengths() {
    for (int i = 0; i < kMostDraws; ++i) {
      const Lengths lengths = lengths_->sample(length_random_);
      if (params_.limits.allow(lengths)) return lengths;
    }
    sim::throw_fault({"generated trace", ""}, fmt::format("no lengths within the limits in {} draws", kMostDraws),
                     "widen limits, or bring the distribution closer to them");
  }

  GeneratorParams params_;
  std::unique_ptr<ArrivalProcess> arrivals_;
  std::unique_ptr<LengthSampler> lengths_;
  sim::RandomStream arrival_random_;
  sim::RandomStream length_random_;
  sim::RandomStream prefix_random_;
  sim::RandomStream priority_random_;
  SkipCounts skipped_;
  std::int64_t now_ns_ = 0;
  std::int64_t drawn_ = 0;
};

class RetimedTrace final : public TraceSource {
 public:
  RetimedTrace(std::unique_ptr<TraceSource> source, std::unique_ptr<ArrivalProcess> arrivals, std::uint64_t seed)
      : source_(std::move(source)), arrivals_(std::move(arrivals)), random_(seed, "trace/arrivals") {}

  bool next(TraceRecord& record) override {
    if (!source_->next(record)) return false;
    now_ns_ = arrivals_->next(now_ns_, random_);
    record.arrival_ns = now_ns_;
    return true;
  }

  const SkipCounts& skipped() const override { return source_->skipped(); }
  TraceColumns columns() const override {
    TraceColumns columns = source_->columns();
    columns.arrivals = true;
    return columns;
  }

 private:
  std::unique_ptr<TraceSource> source_;
  std::unique_ptr<ArrivalProcess> arrivals_;
  sim::RandomStream random_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

bool LengthLimits::allow(const Lengths& lengths) const {
  return lengths.prompt_tokens >= prompt_min && lengths.output_tokens >= output_min &&
         (!prompt_max || lengths.prompt_tokens <= *prompt_max) &&
         (!output_max || lengths.output_tokens <= *output_max) &&
         (!total_max || lengths.prompt_tokens + lengths.output_tokens <= *total_max);
}

void add_trace_registries(sim::RegistrySet& all) {
  FormatTable formats;
  register_formats(formats);
  ArrivalRegistry arrivals("arrivals");
  register_arrival_processes(arrivals);
  LengthRegistry lengths("lengths");
  register_length_samplers(lengths, formats);
  all.add(std::move(formats));
  all.add(std::move(arrivals));
  all.add(std::move(lengths));
}

GeneratorParams parse_generator(const sim::Node& node, const sim::RegistrySet& registries, sim::Faults& faults) {
  auto params = sim::parse_params<GeneratorParams>(node, registries, faults);
  check_generator(node, params, faults);
  return params;
}

void check_generator(const sim::Node& node, const GeneratorParams& params, sim::Faults& faults) {
  const PrefixTree& tree = params.prefixes;
  std::int64_t leaves = 1;
  for (std::int64_t level = 0; level < tree.depth && leaves <= kMostLeaves; ++level)
    leaves *= std::max<std::int64_t>(1, tree.fanout);
  if (leaves > kMostLeaves)
    faults.add(node.find("prefixes")->origin(), fmt::format("expected at most {} leaves, got {} to the power of {}",
                                                            kMostLeaves, tree.fanout, tree.depth));
}

std::unique_ptr<TraceSource> make_generated_trace(const GeneratorParams& params, std::uint64_t seed) {
  return std::make_unique<GeneratedTrace>(params, seed);
}

std::unique_ptr<TraceSource> retime(std::unique_ptr<TraceSource> source, const ArrivalRegistry::Choice& arrivals,
                                    std::uint64_t seed) {
  return std::make_unique<RetimedTrace>(std::move(source), arrivals.make(), seed);
}

std::int64_t advance(std::int64_t previous_ns, double gap_s) {
  const double gap_ns = std::floor(gap_s * 1e9 + 0.5);
  if (!(static_cast<double>(previous_ns) + gap_ns < 9.2e18))
    sim::throw_fault({"generated trace", ""}, "arrivals pass 292 years, the most that 64 bits of nanoseconds hold",
                     "raise the rate or ask for fewer requests");
  return previous_ns + static_cast<std::int64_t>(gap_ns);
}

std::int64_t to_tokens(double draw) {
  return static_cast<std::int64_t>(std::clamp(std::floor(draw + 0.5), 1.0, static_cast<double>(kMaxTokens)));
}

sim::FieldRows<LengthLimits> LengthLimits::fields() {
  using sim::Unit;
  constexpr auto kTokens = sim::between(1, static_cast<double>(kMaxTokens));
  static const sim::FieldTable table{
      sim::field("prompt_min", &LengthLimits::prompt_min, Unit::tokens, kTokens, "Shortest prompt."),
      sim::field("prompt_max", &LengthLimits::prompt_max, Unit::tokens, kTokens, "Longest prompt; null: any."),
      sim::field("output_min", &LengthLimits::output_min, Unit::tokens, kTokens, "Shortest output."),
      sim::field("output_max", &LengthLimits::output_max, Unit::tokens, kTokens, "Longest output; null: any."),
      sim::field("total_max", &LengthLimits::total_max, Unit::tokens, kTokens,
                 "Most tokens of prompt and output together; null: any.")};
  return table;
}

sim::FieldRows<PrefixTree> PrefixTree::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("depth", &PrefixTree::depth, Unit::count, sim::between(0, 16),
                 "Depth of the tree of shared prefixes: nodes on each path; 0: prompts share nothing."),
      sim::field("fanout", &PrefixTree::fanout, Unit::count, sim::between(1, 1e6),
                 "Children of each node, including the root; all leaves together are at most 1e12."),
      sim::field("node_blocks", &PrefixTree::node_blocks, Unit::count, sim::between(1, 1000),
                 "Length of each node's text, in blocks of 512 tokens.")};
  return table;
}

sim::FieldRows<GeneratorParams> GeneratorParams::fields() {
  using G = GeneratorParams;
  static const sim::FieldTable table{
      sim::required(sim::field("requests", &G::requests, sim::Unit::requests, sim::at_least(1),
                               "Number of requests in the trace.")),
      sim::field("limits", &G::limits, "Bounds of the lengths; a draw outside them is repeated."),
      sim::field("prefixes", &G::prefixes, "Text shared by prompts at their beginning."),
      sim::field("high_share", &G::high_share, sim::Unit::ratio, sim::between(0, 1),
                 "Share of the requests, drawn at random, that have priority 1; the others have 0."),
      sim::required(sim::choice("arrivals", &G::arrivals, "poisson", "When requests arrive.")),
      sim::required(sim::choice("lengths", &G::lengths, "log_normal", "How long prompts and outputs are."))};
  return table;
}

}  // namespace orrery::traces
