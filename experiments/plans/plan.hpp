// A plan: one way to serve a workload, and what came of it; the lists that span plans.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/plans/prices.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {
namespace plans {

enum class Objective : std::uint8_t { latency, ttft, throughput, energy, cost, slo, capacity };
constexpr auto enum_names(Objective) {
  using enum Objective;
  return sim::names<Objective>({{"latency", latency},
                                {"ttft", ttft},
                                {"throughput", throughput},
                                {"energy", energy},
                                {"cost", cost},
                                {"slo", slo},
                                {"capacity", capacity}});
}

}  // namespace plans
namespace plans {

struct PartParams {
  std::string part;
  static constexpr auto fields() {
    return sim::FieldTable{
        names_part(sim::required(sim::field("part", &PartParams::part, sim::Unit::reference, sim::any_value(),
                                            "Part from the catalog, or a JSON file like the catalog's.")))};
  }
};

/// Replicas that are not all alike.
struct MixParams {
  std::string name;
  std::vector<ReplicaGroupParams> replicas;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("name", &MixParams::name, "Name of the mix in the rows of plans.")),
        sim::required(
            sim::field("replicas", &MixParams::replicas,
                       "Groups of replicas, as in cluster.replicas; they determine how many devices the plan takes."))};
  }
};

struct PlansParams : Prices {
  std::vector<PartParams> parts;
  std::vector<std::int64_t> devices, tensor_parallel, pipeline_parallel, data_parallel, expert_parallel;
  bool disaggregated = false;
  std::vector<MixParams> mixes;
  sim::TextList batching, dtypes;
  std::vector<double> clocks;
  std::optional<std::string> price_file;
  std::vector<Objective> objectives{Objective::latency, Objective::throughput, Objective::energy};
  Objective rank = Objective::latency;
  bool capacity = false, once = false;
  std::int64_t jobs = 1;

  static constexpr auto fields() {
    using sim::Unit;
    using P = PlansParams;
    constexpr auto kCounts = sim::between(1, 4096);
    return sim::joined(
        sim::inherited<P>(Prices::fields()),
        sim::FieldTable{
            sim::field("parts", &P::parts, "Hardware parts to try; empty: the config's."),
            sim::field("devices", &P::devices, Unit::count, kCounts, "Numbers of devices to try; empty: the config's."),
            sim::field("tensor_parallel", &P::tensor_parallel, Unit::count, kCounts,
                       "Degrees of tensor parallelism to try; empty: every power of two up to the number of devices."),
            sim::field("pipeline_parallel", &P::pipeline_parallel, Unit::count, kCounts,
                       "Numbers of pipeline stages to try; empty: 1."),
            sim::field("data_parallel", &P::data_parallel, Unit::count, kCounts,
                       "Data-parallel lanes of a replica to try, each with attention of its own and shared experts; "
                       "empty: 1."),
            sim::field("expert_parallel", &P::expert_parallel, Unit::count, kCounts,
                       "Degrees of expert parallelism to try, where they divide the experts; empty: the config's "
                       "replica.expert_parallel."),
            sim::field("disaggregated", &P::disaggregated,
                       "Whether to also try every division of the devices between prefill and decode replicas: each "
                       "pair of tensor_parallel, each number of prefill replicas."),
            sim::field("mixes", &P::mixes, "Further plans: mixed groups of replicas."),
            sim::field("batching", &P::batching,
                       "Batching policies to try, with the config's parameters; empty: the config's."),
            sim::field("dtypes", &P::dtypes, "Number formats of the model to try; empty: the config's."),
            sim::field("clocks", &P::clocks, Unit::hertz, sim::positive(),
                       "Clocks of the devices to try; empty: the config's."),
            sim::field("price_file", &P::price_file, Unit::path, sim::any_value(),
                       "File with prices, currency and price of energy (example: docs/how-to/prices.json); values "
                       "given here take precedence."),
            sim::field("objectives", &P::objectives, "Objectives of the Pareto front."),
            sim::field("rank", &P::rank, "Objective by which the best plan is chosen."),
            sim::field("capacity", &P::capacity,
                       "Whether to find every plan's capacity (section `capacity`) and compare plans there, in place "
                       "of at the workload's own rate."),
            sim::field("once", &P::once,
                       "Whether to run the workload once, as it is: a job to be completed, not a continuous load, so a "
                       "growing queue is no fault."),
            sim::field("jobs", &P::jobs, Unit::count, sim::between(1, 1024),
                       "Number of threads; results do not depend on it.")});
  }
};

/// What a plan comes to.
struct PlanFigures {
  std::string status = "ok", reason;
  std::string binds;  ///< "tbt (prompt_chunk)": the target that most requests miss, and why; empty: none
  double tpot = NAN, e2e = NAN, ttft_p99 = NAN, tbt_p99 = NAN, tokens_per_s = NAN, requests_per_s = NAN;
  double energy_per_token = NAN, attainment = NAN, capacity = NAN;
  double cost_per_million = NAN, input_cost = NAN, output_cost = NAN, energy_cost_share = NAN;  ///< as Cost has them
  double rate = NAN;                                                                            ///< the workload's own
  double fleet_devices = NAN, fleet_cost = NAN;  ///< as many such plans as take it at their capacity; an hour of these
};

struct Plan : PlanFigures {
  std::string part, batching, dtype;
  std::optional<double> clock_hz, price;
  std::string mix;   // name of unlike replicas, and
  sim::Node groups;  // what they are; else
  std::int64_t devices = 1, tp = 1, pp = 1, lanes = 1, ep = 1, replicas = 1;
  bool front = false;

  /// It fits, and has figures: of the load, or (overloaded, too_short) of as many requests as were sent.
  bool ran() const { return status == "ok" || status == "overloaded" || status == "too_short"; }

  /// Smaller is better.
  double score(Objective objective) const {
    switch (objective) {
      case Objective::latency:
        return e2e;
      case Objective::ttft:
        return ttft_p99;
      case Objective::throughput:
        return -tokens_per_s;
      case Objective::energy:
        return energy_per_token;
      case Objective::cost:
        return cost_per_million;
      case Objective::slo:
        return -attainment;
      case Objective::capacity:
        return -capacity;
    }
    return NAN;
  }
};

/// Every plan that the lists span, in the order in which they stand in the files; `root` is the config, `config` its
/// serving part.
std::vector<Plan> enumerate(const PlansParams& params, const sim::Node& root, const ServingConfig& config);

}  // namespace plans
}  // namespace orrery::experiments
