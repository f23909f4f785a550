// `orrery experts cache|place`: what caches of experts hit and how placements load GPUs, on a router trace
// (docs/explain/experts.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/answers/expert_questions.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

template <class Params>
struct ExpertOptions {
  Params params;
  std::vector<std::string> assignments;
  std::string look_up;
  bool json = false;
};
using CacheOptions = ExpertOptions<experiments::ExpertCacheParams>;
using PlaceOptions = ExpertOptions<experiments::ExpertPlaceParams>;

int cache(const Systems& systems, CacheOptions options) {
  for (const std::string& assignment : options.assignments) sim::assign(options.params.parameters, assignment);
  if (options.look_up == "request") options.params.look_up = experiments::LookUp::request;
  const auto answer = experiments::ask_expert_caches(options.params, systems.registry<policies::ExpertCacheRegistry>());
  fmt::print("{}", options.json ? experiments::expert_cache_node(answer).dump(2) + "\n"
                                : experiments::expert_cache_text(answer));
  return 0;
}

int place(const Systems& systems, PlaceOptions options) {
  for (const std::string& assignment : options.assignments) sim::assign(options.params.parameters, assignment);
  const auto answer =
      experiments::ask_expert_placements(options.params, systems.registry<policies::ExpertPlacementRegistry>());
  fmt::print("{}", options.json ? experiments::expert_place_node(answer).dump(2) + "\n"
                                : experiments::expert_place_text(answer));
  if (!answer.written_by.empty()) fmt::print(stderr, "{}: slots of {}\n", options.params.out, answer.written_by);
  return 0;
}

template <class Options>
void add_choice(CLI::App& command, Options& options) {
  experiments::RouterChoice& choice = options.params;
  command.add_option("TRACE", choice.trace, "Router trace (CSV or binary, docs/explain/router-traces.md)")->required();
  command.add_option(
      "--model", choice.model,
      "Model of the trace, catalog:NAME or a config.json: checks the trace and gives the bytes of experts");
  command.add_option("--layers", choice.layers, "Use only these layers of the trace")->delimiter(',');
  command.add_option("--tokens", choice.tokens, "Use only these tokens of the trace, FIRST:END");
  command.add_option("--experts", choice.experts, "Experts per layer, if neither file nor model says so")
      ->check(CLI::Range(std::int64_t{1}, traces::kMostExpertsOfLayer));
  command.add_option("--context", choice.context, "Tokens per text, if the file does not say so")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--set", options.assignments, "Parameter of a policy: segment.tokens=64")->allow_extra_args(false);
  command.add_flag("--json", options.json, "Print JSON");
}

}  // namespace

void add_experts(CLI::App& app, Action& action) {
  CLI::App* experts =
      app.add_subcommand("experts", "Compare policies for which experts stay in memory, and which GPU holds them");
  experts->require_subcommand(1);

  auto asked = std::make_shared<CacheOptions>();
  CLI::App* caches = experts->add_subcommand("cache", "Print hit rates of expert caches on a router trace");
  add_choice(*caches, *asked);
  caches->add_option("--cache", asked->params.cache, "Cache policies (default: all that the trace allows)")
      ->delimiter(',');
  caches
      ->add_option("--slots", asked->params.slots,
                   "Experts per layer that fit in the cache (default: 1/16 to 3/4 of them)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  caches
      ->add_option(
          "--look-up", asked->look_up,
          "token (default): look up all experts of a token together, and keep those in use; request: one by one")
      ->check(CLI::IsMember({"token", "request"}));
  caches->add_option("--batch", asked->params.batch, "Texts in a batch, whose tokens are looked up together")
      ->check(CLI::Range(1, 1 << 20));
  caches->callback([asked, &action] { action = [asked](const Systems& systems) { return cache(systems, *asked); }; });

  auto placed = std::make_shared<PlaceOptions>();
  CLI::App* places = experts->add_subcommand("place", "Print the imbalance of expert placements on a router trace");
  add_choice(*places, *placed);
  places->add_option("--policy", placed->params.policy, "Placement policies (default: all)")->delimiter(',');
  places->add_option("--gpus", placed->params.gpus, "GPUs that the experts are divided among (8)")
      ->check(CLI::Range(1, 1 << 14));
  places->add_option("--nodes", placed->params.nodes, "Nodes that these GPUs are in (1)")
      ->check(CLI::Range(1, 1 << 14));
  places
      ->add_option("--slots", placed->params.slots,
                   "Expert slots per layer over all GPUs, replicas included (default: no replicas)")
      ->check(CLI::Range(1, 1 << 20));
  places->add_option("--groups", placed->params.groups, "Groups of experts for group-limited routing (1)")
      ->check(CLI::Range(1, 1 << 14));
  places->add_option("--plan", placed->params.plan, "Tokens that placements are planned on (default: the first half)");
  places->add_option("--judge", placed->params.judge,
                     "Tokens that placements are judged on (default: the second half)");
  places->add_option("--batch", placed->params.batch, "Tokens per batch when judging (default: all at once)")
      ->check(CLI::NonNegativeNumber);
  places->add_option("--out", placed->params.out, "CSV file for the slots of the best placement");
  places->add_flag("--force", placed->params.force, "Replace the file if it exists");
  places->callback(
      [placed, &action] { action = [placed](const Systems& systems) { return place(systems, *placed); }; });
}

}  // namespace orrery::tools
