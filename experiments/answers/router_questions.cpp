#include "experiments/answers/router_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/experts/cache_trial.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;
using traces::RouterTrace;

/// Draws of a generator are judged with another seed than those that a fit looked at.
constexpr std::uint64_t kJudgingSeed = 11;

std::size_t layer_of(const RouterTrace& trace, std::int64_t wanted, const std::string& path) {
  if (wanted < 0) return 0;
  const auto at = std::ranges::find(trace.layers, wanted, &traces::RouterLayer::layer);
  if (at == trace.layers.end()) sim::throw_fault({"--layer", ""}, fmt::format("layer {} is not in {}", wanted, path));
  return static_cast<std::size_t>(at - trace.layers.begin());
}

/// Figures of a layer that a generator should have, in percent.
std::vector<RouterFitAnswer::Figure> figures_of(const RouterTrace& trace, std::size_t layer, const Systems& systems) {
  std::vector<RouterFitAnswer::Figure> out;
  const auto add = [&](std::string name, double share, bool fitted) {
    out.push_back({std::move(name), 100 * share, 0, fitted});
  };
  for (const std::int64_t m : {4, 16, 64})
    add(fmt::format("SRP, {} tokens", m), traces::segment_predictability(trace, layer, m), true);
  for (const std::int64_t lag : {1, 32}) add(fmt::format("reuse, lag {}", lag), traces::reuse(trace, layer, lag), true);
  for (const std::int64_t tokens : {32, 128}) {
    add(fmt::format("union, {} consecutive", tokens), traces::union_of_consecutive(trace, layer, tokens), true);
    add(fmt::format("union, {} random", tokens), traces::union_of_random(trace, layer, tokens), true);
  }
  const auto& registry = systems.registry<policies::ExpertCacheRegistry>();
  for (const char* name : {"lru", "belady"}) {
    sim::Faults faults;
    const auto policy = registry.prepare(name, nullptr, {}, faults);
    for (const double share : {1 / 16.0, 0.13, 0.2, 0.3, 0.5, 0.7}) {
      const auto slots = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(trace.experts)));
      const policies::ExpertCounts counts =
          play_layer(trace, layer, policy, {.slots = slots, .look_up = LookUp::request});
      add(fmt::format("hits of {}, {} slots", name, slots), counts.hit_rate(), false);
    }
  }
  return out;
}

}  // namespace

RouterTraceProfile profile_router_trace(const std::string& path) {
  const RouterTrace trace = traces::read_router_trace(path);
  RouterTraceProfile out{.tokens = trace.tokens(),
                         .experts = trace.experts,
                         .top_k = trace.top_k,
                         .context = trace.context,
                         .scores = !trace.layers.front().scores.empty(),
                         .layers = {}};
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer)
    out.layers.push_back(traces::profile_router(trace, layer));
  return out;
}

Node router_profile_node(const RouterTraceProfile& profile) {
  Node node = Node::object();
  node.set("tokens", Node::integer(profile.tokens));
  node.set("experts", Node::integer(profile.experts));
  node.set("experts_per_token", Node::integer(profile.top_k));
  node.set("text_tokens", Node::integer(profile.context));
  node.set("scores", Node::boolean(profile.scores));
  Node layers = Node::array();
  for (const traces::RouterProfile& p : profile.layers) {
    Node one = Node::object();
    one.set("layer", Node::integer(p.layer));
    const std::pair<const char*, double> figures[] = {{"reuse_lag1", p.reuse_1},
                                                      {"reuse_lag4", p.reuse_4},
                                                      {"reuse_lag8", p.reuse_8},
                                                      {"reuse_lag32", p.reuse_32},
                                                      {"reuse_chance", p.by_chance},
                                                      {"srp_m4", p.srp_4},
                                                      {"srp_m16", p.srp_16},
                                                      {"srp_m64", p.srp_64},
                                                      {"union_consecutive_8", p.union_8},
                                                      {"union_consecutive_32", p.union_32},
                                                      {"union_consecutive_128", p.union_128},
                                                      {"union_random_8", p.random_8},
                                                      {"union_random_32", p.random_32},
                                                      {"union_random_128", p.random_128},
                                                      {"top_expert_over_mean", p.busiest}};
    for (const auto& [name, value] : figures) one.set(name, Node::real(value));
    one.set("experts_for_95pct", Node::integer(p.for_95));
    one.set("experts_for_99pct", Node::integer(p.for_99));
    layers.push(std::move(one));
  }
  node.set("layers", std::move(layers));
  return node;
}

std::string router_profile_text(const RouterTraceProfile& profile) {
  std::string out =
      fmt::format("router trace: {} tokens, {} layer{}, {} of {} experts a token{}{}\n\n", profile.tokens,
                  profile.layers.size(), profile.layers.size() == 1 ? "" : "s", profile.top_k, profile.experts,
                  profile.context > 0 ? fmt::format(", texts of {} tokens", profile.context) : "",
                  profile.scores ? ", with scores" : "");
  out += fmt::format("{:>5} |{:^30}|{:^18}|{:^18}|{:^18}|{:>8} |{:>10}\n", "", "reuse after n tokens, %", "SRP, %",
                     "union in a row, %", "union random, %", "busiest", "95 % use");
  out += fmt::format(
      "{:>5} |{:>5}{:>6}{:>6}{:>6}{:>6} |{:>5}{:>6}{:>6} |{:>5}{:>6}{:>6} |{:>5}{:>6}{:>6} |{:>8} |{:>10}\n", "layer",
      1, 4, 8, 32, "any", 4, 16, 64, 8, 32, 128, 8, 32, 128, "/ mean", "experts");
  for (const traces::RouterProfile& p : profile.layers) {
    out += fmt::format("{:>5} |", p.layer);
    const std::vector<double> groups[] = {{p.reuse_1, p.reuse_4, p.reuse_8, p.reuse_32, p.by_chance},
                                          {p.srp_4, p.srp_16, p.srp_64},
                                          {p.union_8, p.union_32, p.union_128},
                                          {p.random_8, p.random_32, p.random_128}};
    for (const std::vector<double>& group : groups) {
      for (std::size_t i = 0; i < group.size(); ++i) out += fmt::format("{:>{}.1f}", 100 * group[i], i == 0 ? 5 : 6);
      out += " |";
    }
    out += fmt::format("{:>8.1f} |{:>10}\n", p.busiest, p.for_95);
  }
  return out;
}

const RouterFitAnswer::Figure* RouterFitAnswer::farthest() const {
  const auto at = std::ranges::max_element(figures, {}, [](const Figure& f) { return std::abs(f.drawn - f.judged); });
  return at == figures.end() ? nullptr : &*at;
}

RouterFitAnswer fit_router_trace(const RouterFitParams& params, const Systems& systems) {
  if (params.trace.empty() == (params.srp == 0))
    sim::throw_fault({"trace fit", ""}, "expected a router trace, or --srp with a model's SRP where there is none");
  if (!params.out.empty() && std::filesystem::exists(params.out) && !params.force)
    sim::throw_fault({params.out, ""}, "expected a file that does not exist yet", "give --force to replace it");
  if (params.top_k > params.experts)
    sim::throw_fault({"--top-k", ""},
                     fmt::format("more activated experts than exist: {} of {}", params.top_k, params.experts));
  RouterFitAnswer out;
  if (params.trace.empty()) {
    out.fit = traces::fit_router_to_srp(params.srp, params.experts, params.top_k);
  } else {
    const RouterTrace trace = traces::read_router_trace(params.trace);
    const std::size_t layer = layer_of(trace, params.layer, params.trace);
    if (trace.tokens() < 1000)
      sim::throw_fault({params.trace, ""},
                       fmt::format("expected 1000 tokens at least to fit to, got {}", trace.tokens()));
    out.fit = traces::fit_router(trace, layer, params.popularity);
    const RouterTrace drawn = traces::generate_router_trace(out.fit.generator, kJudgingSeed);
    out.judge = params.judge.empty() ? params.trace : params.judge;
    const RouterTrace judge = params.judge.empty() ? trace : traces::read_router_trace(params.judge);
    out.figures = figures_of(judge, layer_of(judge, params.layer, out.judge), systems);
    const std::vector<RouterFitAnswer::Figure> of_drawn = figures_of(drawn, 0, systems);
    for (std::size_t i = 0; i < out.figures.size(); ++i) {
      out.figures[i].drawn = of_drawn[i].judged;
      out.figures[i].fitted = out.figures[i].fitted && params.judge.empty();
    }
  }
  if (params.out.empty()) return out;
  Node config = Node::object();
  config.set("router", sim::write_params(out.fit.generator));
  std::ofstream file(params.out);
  file << config.dump(2) << '\n';
  if (!file.flush()) sim::throw_fault({params.out, ""}, "cannot be written");
  return out;
}

Node router_fit_node(const RouterFitAnswer& answer) {
  Node node = Node::object();
  node.set("router", sim::write_params(answer.fit.generator));
  node.set("error_points", Node::real(answer.fit.error));
  Node figures = Node::array();
  for (const RouterFitAnswer::Figure& f : answer.figures) {
    Node one = Node::object();
    one.set("figure", Node::string(f.name));
    one.set("trace", Node::real(f.judged));
    one.set("drawn", Node::real(f.drawn));
    one.set("fitted", Node::boolean(f.fitted));
    figures.push(std::move(one));
  }
  node.set("figures", std::move(figures));
  return node;
}

std::string router_fit_text(const RouterFitAnswer& answer) {
  const traces::RouterGenerator& g = answer.fit.generator;
  std::string out =
      fmt::format("previous {:.3g}, earlier {:.3g} ({} tokens back), common {:.3g}, concentration {:.3g}{}\n",
                  g.previous, g.earlier, g.window, g.common, g.concentration,
                  g.popularity.empty() ? fmt::format(", spread {:.3g}", g.spread) : "");
  if (answer.figures.empty())
    return out +
           "Fitted to SRP alone. SRP does not tell how skewed experts are nor how far reuse reaches: on real\n"
           "traces the hit rates of such a generator are 18 to 30 points off (docs/explain/router-traces.md).\n";
  out += fmt::format("\n{:<28}{:>8}{:>8}{:>12}\n", "%", "trace", "drawn", "difference");
  for (const RouterFitAnswer::Figure& f : answer.figures)
    out += fmt::format("{:<28}{:>8.1f}{:>8.1f}{:>+12.1f}{}\n", f.name, f.judged, f.drawn, f.drawn - f.judged,
                       f.fitted ? "  fitted" : "");
  const RouterFitAnswer::Figure& worst = *answer.farthest();
  return out + fmt::format("\nfarthest: {}, {:.1f} points\n", worst.name, std::abs(worst.drawn - worst.judged));
}

traces::RouterGenerator read_router_generator(const Node& config) {
  struct Config {
    traces::RouterGenerator router;
    static auto fields() {
      return sim::FieldTable{sim::required(sim::field("router", &Config::router, "Generator of a router trace."))};
    }
  };
  sim::Faults faults;
  const auto params = sim::parse_params<Config>(config, faults);
  if (faults.empty()) traces::check_router_generator(*config.find("router"), params.router, faults);
  faults.throw_if_any();
  return params.router;
}

}  // namespace orrery::experiments
