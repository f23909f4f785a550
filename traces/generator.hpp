// Generated traces: arrivals from an arrival process, lengths from a length sampler, each a registered policy.
//
//   {"requests": 2000, "arrivals": {"policy": "gamma", "gamma": {"rate": "2 1/s", "cv": 1.5}},
//    "lengths": {"policy": "log_normal", "log_normal": {…}}, "limits": {"total_max": 4096}}
//
// Arrivals draw from the stream "trace/arrivals" and lengths from "trace/lengths", so that another rate leaves the
// lengths as they are, and the other way round; priorities from "trace/priorities". A trace from a file can be re-timed
// by an arrival process alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sim/base/random.hpp"
#include "sim/base/registry.hpp"
#include "traces/file_trace.hpp"
#include "traces/trace.hpp"

namespace orrery::traces {

/// Decides when requests arrive. An object serves one trace from its start; it may keep state.
class ArrivalProcess {
 public:
  virtual ~ArrivalProcess() = default;
  /// Time of the next arrival, not before `previous_ns` (0 at the start of the trace). Draws only from `random`.
  virtual std::int64_t next(std::int64_t previous_ns, sim::RandomStream& random) = 0;
};

/// Lengths of a request.
struct Lengths {
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
};

/// Decides how long prompts and answers are. Draws only from `random`; every draw is independent of those before it.
class LengthSampler {
 public:
  virtual ~LengthSampler() = default;
  /// Both lengths >= 1.
  virtual Lengths sample(sim::RandomStream& random) = 0;
};

using ArrivalRegistry = sim::Registry<ArrivalProcess>;
using LengthRegistry = sim::Registry<LengthSampler>;

/// Adds at_once, diurnal, fixed, gamma, poisson, windowed_gamma.
void register_arrival_processes(ArrivalRegistry& registry);
/// Adds burstgpt, fixed, log_normal, geometric, quantiles, rank_power, uniform, zipf, empirical; the last reads files
/// in `formats`.
void register_length_samplers(LengthRegistry& registry, const FormatTable& formats);

/// Bounds that lengths must keep; a draw outside is drawn again, whole, so the distribution is cut and not piled up.
struct LengthLimits {
  std::int64_t prompt_min = 1;
  std::optional<std::int64_t> prompt_max;
  std::int64_t output_min = 1;
  std::optional<std::int64_t> output_max;
  std::optional<std::int64_t> total_max;
  static sim::FieldRows<LengthLimits> fields();
  bool allow(const Lengths& lengths) const;
};

/// A tree of shared prefixes: every request begins with the text along a path from the root to a leaf, drawn evenly,
/// before the prompt that is its own. Nodes are whole prefix blocks, of the 512 tokens that blocks of generated traces
/// have.
struct PrefixTree {
  std::int64_t depth = 0;
  std::int64_t fanout = 4;
  std::int64_t node_blocks = 1;
  static sim::FieldRows<PrefixTree> fields();
};
inline constexpr std::int64_t kPrefixBlockTokens = 512;

/// `workload.generator` of a config.
struct GeneratorParams {
  std::int64_t requests = 1000;
  LengthLimits limits;
  PrefixTree prefixes;
  double high_share = 0;
  ArrivalRegistry::Choice arrivals;
  LengthRegistry::Choice lengths;
  static sim::FieldRows<GeneratorParams> fields();
};

/// Adds the formats of traces and what a generator is read with: every FormatTable, ArrivalRegistry and LengthRegistry.
void add_trace_registries(sim::RegistrySet& all);

/// Reads a generator. Reports every fault.
GeneratorParams parse_generator(const sim::Node& node, const sim::RegistrySet& registries, sim::Faults& faults);
/// What the field table does not say: reports trees of prefixes that are too large. `node` is the generator as written.
void check_generator(const sim::Node& node, const GeneratorParams& params, sim::Faults& faults);

/// The trace that a generator draws with `seed`. Throws sim::ConfigError, at once or from next(), if a sampler's file
/// is faulty, if 100,000 draws in a row break the limits, or if arrivals pass the 292 years that 64 bits of ns hold.
std::unique_ptr<TraceSource> make_generated_trace(const GeneratorParams& params, std::uint64_t seed);

/// The records of `source` with arrivals from `arrivals` in place of their own; lengths and order stay.
std::unique_ptr<TraceSource> retime(std::unique_ptr<TraceSource> source, const ArrivalRegistry::Choice& arrivals,
                                    std::uint64_t seed);

/// `previous_ns` plus a gap in seconds, rounded to the nearest nanosecond. Throws sim::ConfigError past 292 years. For
/// arrival processes.
std::int64_t advance(std::int64_t previous_ns, double gap_s);
/// A length from a real draw: the nearest whole number, 1 to kMaxTokens. For length samplers.
std::int64_t to_tokens(double draw);

}  // namespace orrery::traces
