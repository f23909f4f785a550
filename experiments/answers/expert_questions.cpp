#include "experiments/answers/expert_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "experiments/base/experiment.hpp"
#include "experiments/experts/expert_times.hpp"
#include "models/transformer/transformer.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

/// "0:4000" of a trace of so many tokens.
TokenRange token_range(const std::string& text, std::int64_t tokens, const char* option) {
  const std::size_t colon = text.find(':');
  const auto number = [](std::string_view digits) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
  };
  TokenRange range;
  if (colon != std::string::npos) {
    range.first = number(std::string_view(text).substr(0, colon));
    range.last = number(std::string_view(text).substr(colon + 1));
  }
  if (colon == std::string::npos || range.first < 0 || range.last <= range.first || range.last > tokens)
    sim::throw_fault({option, ""},
                     fmt::format("expected tokens FIRST:END of the trace's {}, such as \"0:{}\", got \"{}\"", tokens,
                                 std::max<std::int64_t>(1, tokens / 2), text));
  return range;
}

/// What a question is asked of.
struct Asked {
  traces::RouterTrace trace;
  std::optional<models::ModelConfig> model;
  std::int64_t model_layers = 0;  ///< with experts
};

Asked read(const RouterChoice& choice) {
  Asked out;
  traces::RouterReading reading{.experts = choice.experts, .context = choice.context};
  if (!choice.model.empty()) {
    out.model = models::load_model(choice.model, home_folder() / "models/catalog", {"--model", ""});
    for (std::int64_t layer = 0; layer < out.model->layers; ++layer) out.model_layers += out.model->has_experts(layer);
    if (out.model_layers == 0)
      sim::throw_fault({"--model", ""}, fmt::format("expected a model with experts, {} has none", out.model->name));
    reading.else_experts = out.model->experts.count;
  }
  out.trace = traces::read_router_trace(choice.trace, reading);
  if (out.model)
    traces::check_router_trace(out.trace,
                               {.name = out.model->name,
                                .experts = out.model->experts.count,
                                .top_k = out.model->experts.per_token,
                                .layers = out.model->layers},
                               choice.trace);
  if (!choice.layers.empty()) {
    std::vector<traces::RouterLayer> kept;
    for (const std::int64_t wanted : choice.layers) {
      const auto at = std::ranges::find(out.trace.layers, wanted, &traces::RouterLayer::layer);
      if (at == out.trace.layers.end())
        sim::throw_fault({"--layers", ""}, fmt::format("layer {} is not in {}", wanted, choice.trace));
      kept.push_back(*at);
    }
    out.trace.layers = std::move(kept);
  }
  if (!choice.tokens.empty()) {
    const TokenRange range = token_range(choice.tokens, out.trace.tokens(), "--tokens");
    out.trace = traces::part_of(out.trace, range.first, range.last);
  }
  return out;
}

/// The named policies, or all, with their parameters.
template <class Registry>
std::vector<typename Registry::Choice> choose(const Registry& registry, const std::vector<std::string>& named,
                                              const Node& parameters, const char* option) {
  sim::Faults faults;
  (void)registry.parse_block(parameters, registry.names().front(), faults);
  std::vector<std::string> all = named;
  if (named.empty()) {
    all = registry.names();
    std::erase(all, "expression");  // as it comes it is one of the others
    std::erase(all, "learned");     // needs a file
  }
  std::vector<typename Registry::Choice> out;
  if (faults.empty())
    for (const std::string& name : all)
      out.push_back(registry.prepare(name, parameters.find(name), {option, ""}, faults));
  faults.throw_if_any();
  return out;
}

/// Bytes of the weights of one expert, as published.
double expert_bytes(const models::ModelConfig& model) {
  const models::Transformer t = models::build_transformer(model, model.dtype.value_or(hw::DType::bf16), 1);
  return static_cast<double>(expert_products(t).bytes(t.dtype));
}

std::vector<std::int64_t> usual_slots(std::int64_t experts) {
  std::vector<std::int64_t> out;
  for (const double share : {1 / 16.0, 1 / 8.0, 1 / 4.0, 3 / 8.0, 1 / 2.0, 3 / 4.0}) {
    const auto slots = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(experts)));
    if (out.empty() || out.back() != slots) out.push_back(slots);
  }
  return out;
}

/// Misses a token, over all layers of the trace.
double misses_a_token(const ExpertCacheAnswer& answer, const ExpertCacheAnswer::Row& row) {
  return static_cast<double>(row.counts.misses) / static_cast<double>(answer.tokens);
}

std::string range_text(const TokenRange& range) {
  return fmt::format("{} to {}", range.first, range.last - 1);
}

}  // namespace

ExpertCacheAnswer ask_expert_caches(const ExpertCacheParams& params, const policies::ExpertCacheRegistry& registry) {
  const auto policies = choose(registry, params.cache, params.parameters, "--cache");
  Asked asked = read(params);
  ExpertCacheAnswer out;
  if (params.batch > 1) {
    if (params.look_up == LookUp::request)
      sim::throw_fault({"--batch", ""}, "a batch is looked up together", "leave out --look-up request");
    if (params.batch > asked.trace.tokens())
      sim::throw_fault({"--batch", ""},
                       fmt::format("expected at most the {} tokens of the trace", asked.trace.tokens()));
    asked.trace = traces::side_by_side(asked.trace, params.batch);
  }
  out.tokens = asked.trace.tokens();
  out.layers = static_cast<std::int64_t>(asked.trace.layers.size());
  out.slots = params.slots.empty() ? usual_slots(asked.trace.experts) : params.slots;
  for (const std::int64_t slots : out.slots)
    if (slots > asked.trace.experts)
      sim::throw_fault({"--slots", ""},
                       fmt::format("expected at most the layer's {} experts, got {}", asked.trace.experts, slots));
  for (const auto& policy : policies) {
    // A policy that cannot be made for this trace says so: a fault if it was asked for, else a note.
    try {
      (void)play_layer(traces::part_of(asked.trace, 0, 1), 0, policy, {});
      out.caches.push_back(policy.name);
    } catch (const sim::ConfigError& error) {
      if (!params.cache.empty()) throw;
      out.notes.push_back(error.faults().front().message);
    }
  }
  for (const std::int64_t slots : out.slots)
    for (const auto& policy : policies) {
      if (std::ranges::find(out.caches, policy.name) == out.caches.end()) continue;
      const CacheTrial trial{.slots = slots, .look_up = params.look_up, .batch = params.batch};
      out.rows.push_back({policy.name, slots, play_trace(asked.trace, policy, trial)});
    }
  if (asked.model) {
    out.expert_bytes = expert_bytes(*asked.model);
    out.model_layers = asked.model_layers;
  }
  for (traces::RouterLayer& layer : asked.trace.layers) layer.choices.clear(), layer.scores.clear();
  out.trace = std::move(asked.trace);
  return out;
}

Node expert_cache_node(const ExpertCacheAnswer& answer) {
  Node node = Node::object();
  node.set("tokens", Node::integer(answer.tokens));
  node.set("layers", Node::integer(answer.layers));
  node.set("experts", Node::integer(answer.trace.experts));
  node.set("experts_per_token", Node::integer(answer.trace.top_k));
  if (answer.expert_bytes) node.set("expert_bytes", Node::real(*answer.expert_bytes));
  Node rows = Node::array();
  for (const ExpertCacheAnswer::Row& row : answer.rows) {
    Node one = Node::object();
    one.set("cache", Node::string(row.cache));
    one.set("slots", Node::integer(row.slots));
    one.set("requests", Node::integer(row.counts.requests));
    one.set("misses", Node::integer(row.counts.misses));
    one.set("evictions", Node::integer(row.counts.evictions));
    one.set("hit_rate", Node::real(row.counts.hit_rate()));
    rows.push(std::move(one));
  }
  node.set("caches", std::move(rows));
  return node;
}

std::string expert_cache_text(const ExpertCacheAnswer& answer) {
  std::string out = fmt::format("{} tokens, {} layer{}, {} of {} experts a token\n\nhit rate, %\n{:>6}{:>10}",
                                answer.tokens, answer.layers, answer.layers == 1 ? "" : "s", answer.trace.top_k,
                                answer.trace.experts, "slots", "of layer");
  const auto table = [&](const auto& cell) {
    const auto width = [&](std::size_t k) { return std::max<std::size_t>(10, answer.caches[k].size() + 2); };
    for (std::size_t k = 0; k < answer.caches.size(); ++k) out += fmt::format("{:>{}}", answer.caches[k], width(k));
    std::int64_t slots = 0;
    std::size_t column = 0;
    for (const ExpertCacheAnswer::Row& row : answer.rows) {
      if (row.slots != slots) {
        column = 0;
        out += fmt::format("\n{:>6}{:>8.1f} %", row.slots,
                           100 * static_cast<double>(row.slots) / static_cast<double>(answer.trace.experts));
      }
      slots = row.slots;
      out += fmt::format("{:>{}.1f}", cell(row), width(column++));
    }
    out += '\n';
  };
  table([](const auto& row) { return 100 * row.counts.hit_rate(); });
  if (answer.expert_bytes) {
    // The trace's layers stand for all of the model's.
    const double layers = static_cast<double>(answer.model_layers) / static_cast<double>(answer.layers);
    out += fmt::format("\nloaded for a token, MB in {} layers of {:.2f} MB an expert\n{:>6}{:>10}", answer.model_layers,
                       *answer.expert_bytes * 1e-6, "slots", "of layer");
    table([&](const auto& row) { return misses_a_token(answer, row) * layers * *answer.expert_bytes * 1e-6; });
  }
  for (const std::string& note : answer.notes) out += fmt::format("\nleft out: {}\n", note);
  return out;
}

ExpertPlaceAnswer ask_expert_placements(const ExpertPlaceParams& params,
                                        const policies::ExpertPlacementRegistry& registry) {
  const auto policies = choose(registry, params.policy, params.parameters, "--policy");
  if (!params.out.empty() && std::filesystem::exists(params.out) && !params.force)
    sim::throw_fault({params.out, ""}, "expected a file that does not exist yet", "give --force to replace it");
  const Asked asked = read(params);
  const std::int64_t tokens = asked.trace.tokens();
  if (tokens < 2) sim::throw_fault({params.trace, ""}, "expected two tokens at least: one to plan on, one to judge on");
  ExpertPlaceAnswer out;
  out.plan = params.plan.empty() ? TokenRange{0, tokens / 2} : token_range(params.plan, tokens, "--plan");
  out.judge = params.judge.empty() ? TokenRange{tokens / 2, tokens} : token_range(params.judge, tokens, "--judge");
  policies::ExpertPlacementView view = placement_view(asked.trace, out.plan);
  view.gpus = out.gpus = params.gpus;
  view.nodes = params.nodes;
  view.groups = params.groups;
  view.slots = out.slots = params.slots > 0 ? params.slots : asked.trace.experts;
  out.experts = asked.trace.experts;
  out.layers = static_cast<std::int64_t>(asked.trace.layers.size());
  out.batch = params.batch;
  for (const traces::RouterLayer& layer : asked.trace.layers) out.layer_numbers.push_back(layer.layer);
  const std::string obstacle = policies::placement_obstacle(view);
  if (!obstacle.empty()) sim::throw_fault({"experts", ""}, obstacle);
  for (const auto& policy : policies) {
    const auto placement = policy.make();
    const std::string why = placement->obstacle(view);
    if (!why.empty()) {
      if (!params.policy.empty()) sim::throw_fault({"experts", ""}, why);
      out.notes.push_back(why);
      continue;
    }
    std::vector<policies::LayerPlacement> placed = placement->place(view);
    PlacementJudgement planned = judge_placement(asked.trace, out.plan, params.batch, placed, params.gpus);
    PlacementJudgement judged = judge_placement(asked.trace, out.judge, params.batch, placed, params.gpus);
    out.rows.push_back({policy.name, std::move(planned), std::move(judged), std::move(placed)});
  }
  if (params.out.empty()) return out;
  const auto best = std::ranges::min_element(out.rows, {}, [](const auto& row) { return row.judged.mean(); });
  std::ofstream file(params.out);
  file << "layer,slot,gpu,expert\n";
  for (std::size_t layer = 0; layer < best->placement.size(); ++layer)
    for (std::size_t slot = 0; slot < best->placement[layer].expert.size(); ++slot)
      file << fmt::format("{},{},{},{}\n", out.layer_numbers[layer], slot, best->placement[layer].gpu[slot],
                          best->placement[layer].expert[slot]);
  if (!file.flush()) sim::throw_fault({params.out, ""}, "cannot be written");
  out.written_by = best->policy;
  return out;
}

Node expert_place_node(const ExpertPlaceAnswer& answer) {
  Node node = Node::object();
  node.set("experts", Node::integer(answer.experts));
  node.set("layers", Node::integer(answer.layers));
  node.set("gpus", Node::integer(answer.gpus));
  node.set("slots", Node::integer(answer.slots));
  Node rows = Node::array();
  for (const ExpertPlaceAnswer::Row& row : answer.rows) {
    Node one = Node::object();
    one.set("policy", Node::string(row.policy));
    one.set("imbalance_planned", Node::real(row.planned.mean()));
    one.set("imbalance", Node::real(row.judged.mean()));
    one.set("exchange", Node::real(row.judged.exchange));
    one.set("imbalance_worst_layer", Node::real(row.judged.worst()));
    rows.push(std::move(one));
  }
  node.set("policies", std::move(rows));
  return node;
}

std::string expert_place_text(const ExpertPlaceAnswer& answer) {
  std::string out = fmt::format(
      "{} experts in {} slots on {} GPUs, {} layer{}\nplanned on tokens {}, judged on {}{}\n\n"
      "imbalance, (most - mean) / mean of the GPUs' rows\n{:<14}{:>12}{:>10}{:>14}{:>16}{:>15}\n",
      answer.experts, answer.slots, answer.gpus, answer.layers, answer.layers == 1 ? "" : "s", range_text(answer.plan),
      range_text(answer.judge), answer.batch > 0 ? fmt::format(", batches of {}", answer.batch) : "", "policy",
      "planned on", "judged", "worst layer", "slowest GPU", "busiest pair");
  // Experts in lock step wait for the fullest GPU: its rows over the mean is what their time is multiplied by.
  for (const ExpertPlaceAnswer::Row& row : answer.rows)
    out += fmt::format("{:<14}{:>12.3f}{:>10.3f}{:>14.3f}{:>13.2f} x{:>15}\n", row.policy, row.planned.mean(),
                       row.judged.mean(), row.judged.worst(), 1 + row.judged.mean(),
                       row.judged.exchange > 0 ? fmt::format("{:.2f} x", row.judged.exchange) : "-");
  for (const std::string& note : answer.notes) out += fmt::format("\nleft out: {}\n", note);
  return out;
}

}  // namespace orrery::experiments
