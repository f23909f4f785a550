// What router traces look like, and generators fitted to them (docs/explain/router-traces.md).
#pragma once

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "sim/base/params.hpp"
#include "traces/router/fit.hpp"
#include "traces/router/profile.hpp"

namespace orrery::experiments {

struct RouterProfileParams {
  std::string trace;
  static constexpr auto fields() {
    return sim::FieldTable{sim::required(
        sim::field("trace", &RouterProfileParams::trace, sim::Unit::path, sim::any_value(), "Router trace."))};
  }
};

/// All layers of a trace in short.
struct RouterTraceProfile {
  std::int64_t tokens = 0, experts = 0, top_k = 0, context = 0;
  bool scores = false;
  std::vector<traces::RouterProfile> layers;
};
RouterTraceProfile profile_router_trace(const std::string& path);
sim::Node router_profile_node(const RouterTraceProfile& profile);
std::string router_profile_text(const RouterTraceProfile& profile);

struct RouterFitParams {
  std::string trace, judge, out;
  std::int64_t layer = -1;
  traces::FittedPopularity popularity = traces::FittedPopularity::own;
  double srp = 0;
  std::int64_t experts = 128, top_k = 8;
  bool force = false;
  static constexpr auto fields() {
    using P = RouterFitParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("trace", &P::trace, Unit::path, sim::any_value(), "Router trace; empty: fit to `srp` alone."),
        sim::field("judge", &P::judge, Unit::path, sim::any_value(),
                   "Another trace to compare the fitted generator with; empty: the fitted one."),
        sim::field("out", &P::out, Unit::path, sim::any_value(), "File to write the generator to (JSON); empty: none."),
        sim::field("layer", &P::layer, Unit::count, sim::at_least(-1), "Layer of the trace; -1: the first."),
        sim::field("popularity", &P::popularity,
                   "Whether experts keep the trace's popularity; if not, one with the same skew is drawn."),
        sim::field("srp", &P::srp, Unit::ratio, sim::between(0, 1), "SRP of 16 tokens, used if there is no trace."),
        sim::field("experts", &P::experts, Unit::count, sim::between(1, 1 << 14), "Experts per layer, with `srp`."),
        sim::field("top_k", &P::top_k, Unit::count, sim::between(1, 1 << 14), "Experts per token, with `srp`."),
        sim::field("force", &P::force, "Whether to replace the file if it exists.")};
  }
};

struct RouterFitAnswer {
  struct Figure {
    std::string name;
    double judged = 0, drawn = 0;  ///< percent; of the trace that judges, and of a drawn one
    bool fitted = false;           ///< the fit looked at it (in the trace that it was fitted to)
  };
  traces::RouterFit fit;
  std::vector<Figure> figures;  ///< none for a fit to SRP alone
  std::string judge;
  const Figure* farthest() const;
};

/// Fits, holds a drawn trace against the one that judges, and writes `out`. Throws sim::ConfigError.
RouterFitAnswer fit_router_trace(const RouterFitParams& params, const Systems& systems);
sim::Node router_fit_node(const RouterFitAnswer& answer);
std::string router_fit_text(const RouterFitAnswer& answer);

/// Reads the generator of a config with a section `router`. Throws sim::ConfigError.
traces::RouterGenerator read_router_generator(const sim::Node& config);

}  // namespace orrery::experiments
