#include "traces/summary.hpp"

#include <cmath>

#include "sim/statistics.hpp"

namespace orrery::traces {
namespace {

LengthSummary summarise(const sim::SampleStats& stats) {
  return {stats.mean(), stats.quantile(0.5), stats.quantile(0.9), stats.quantile(0.99), stats.max()};
}

/// Mean and variance of the gaps in one pass (Welford 1962).
struct GapMoments {
  std::int64_t count = 0;
  double mean = 0;
  double squares = 0;
  void add(double gap) {
    ++count;
    const double delta = gap - mean;
    mean += delta / static_cast<double>(count);
    squares += delta * (gap - mean);
  }
  double cv() const { return count < 2 || mean == 0 ? 0 : std::sqrt(squares / static_cast<double>(count - 1)) / mean; }
};

}  // namespace

TraceSummary inspect(TraceSource& source) {
  TraceSummary summary;
  sim::SampleStats prompt, output, total;
  GapMoments gaps;
  std::int64_t first_ns = 0, last_ns = 0;
  TraceRecord record;
  while (source.next(record)) {
    if (summary.requests++ == 0)
      first_ns = record.arrival_ns;
    else
      gaps.add(static_cast<double>(record.arrival_ns - last_ns) * 1e-9);
    last_ns = record.arrival_ns;
    prompt.add(record.prompt_tokens);
    output.add(record.output_tokens);
    total.add(record.prompt_tokens + record.output_tokens);
    if (!record.session.empty()) ++summary.sessions_named;
    if (!record.prefix_blocks.empty()) ++summary.prefixes_given;
  }
  summary.skipped = source.skipped();
  summary.has_arrivals = source.columns().arrivals;
  summary.first_s = static_cast<double>(first_ns) * 1e-9;
  summary.span_s = static_cast<double>(last_ns - first_ns) * 1e-9;
  if (summary.span_s > 0) summary.rate_per_s = static_cast<double>(gaps.count) / summary.span_s;
  summary.gap_cv = gaps.cv();
  summary.prompt = summarise(prompt);
  summary.output = summarise(output);
  summary.total = summarise(total);
  return summary;
}

namespace {

sim::Node lengths_node(const LengthSummary& lengths) {
  sim::Node node = sim::Node::object();
  node.set("mean", sim::Node::real(lengths.mean));
  node.set("p50", sim::Node::real(lengths.p50));
  node.set("p90", sim::Node::real(lengths.p90));
  node.set("p99", sim::Node::real(lengths.p99));
  node.set("max", sim::Node::integer(lengths.max));
  return node;
}

}  // namespace

sim::Node summary_node(const TraceSummary& summary) {
  sim::Node node = sim::Node::object();
  node.set("requests", sim::Node::integer(summary.requests));
  node.set("skipped", sim::Node::integer(summary.skipped.total()));
  node.set("span_s", sim::Node::real(summary.span_s));
  node.set("rate_per_s", sim::Node::real(summary.rate_per_s));
  node.set("gap_cv", sim::Node::real(summary.gap_cv));
  node.set("sessions_named", sim::Node::integer(summary.sessions_named));
  node.set("prefixes_given", sim::Node::integer(summary.prefixes_given));
  node.set("prompt_tokens", lengths_node(summary.prompt));
  node.set("output_tokens", lengths_node(summary.output));
  node.set("total_tokens", lengths_node(summary.total));
  return node;
}

}  // namespace orrery::traces
