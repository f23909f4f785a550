// Offsets of buffers with known lifetimes in one arena, by one planner or by all (docs/explain/memory-planning.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/base/buffer_file.hpp"
#include "policies/memory/planner.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct PlanParams {
  std::string file, planner, capacity, out;
  sim::Node parameters = sim::Node::object();
  bool force = false;
  static constexpr auto fields() {
    using P = PlanParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(
            sim::field("file", &P::file, Unit::path, sim::any_value(), "CSV file of buffers: id,lower,upper,size.")),
        sim::field("planner", &P::planner, Unit::text, sim::any_value(), "Use this planner only; empty: all."),
        sim::field("capacity", &P::capacity, Unit::text, sim::any_value(),
                   "Capacity that plans are compared with, e.g. \"1 MiB\"; empty: none."),
        sim::field("out", &P::out, Unit::path, sim::any_value(),
                   "CSV file to write, with the offsets of the best plan."),
        sim::field("parameters", &P::parameters, "Parameters of planners, by planner name."),
        sim::field("force", &P::force, "Whether to replace the file if it exists.")};
  }
};

/// Plans, in the order of the planners.
struct BufferPlans {
  struct Plan {
    std::string planner;
    policies::Plan plan;
    double seconds = 0;
  };
  std::vector<Plan> plans;
  std::size_t buffers = 0;
  std::int64_t lower_bound = 0;  ///< most bytes live at once
  std::optional<std::int64_t> capacity;
  std::string written_by;  ///< the planner whose offsets were written; empty: none
};

/// Plans, and writes `out`. Throws sim::ConfigError.
BufferPlans plan_buffers(const PlanParams& params, const policies::MemoryPlannerRegistry& registry);
sim::Node plan_node(const BufferPlans& result);

}  // namespace orrery::experiments
