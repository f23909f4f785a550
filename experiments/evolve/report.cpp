#include "experiments/evolve/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace orrery::experiments::evolve {

namespace {

using sim::Node;

/// Median and quartiles of the figures that are there.
struct Spread {
  std::size_t there = 0;
  std::optional<double> median, low, high;
};

Spread spread_of(const Figures& figures) {
  std::vector<double> values;
  for (const RunFigure& one : figures)
    if (one.value) values.push_back(*one.value);
  return {values.size(), quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75)};
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

std::string spread_text(const Figures& figures) {
  const Spread spread = spread_of(figures);
  return fmt::format("{:>10} {:>21}", number_text(spread.median),
                     fmt::format("{} .. {}", number_text(spread.low), number_text(spread.high)));
}

/// Everything that is compared, the best last.
std::vector<const Comparison*> rows_of(const EvolveResult& result) {
  std::vector<const Comparison*> all;
  for (const Comparison& one : result.baselines) all.push_back(&one);
  if (result.best) all.push_back(&*result.best);
  return all;
}

std::string label_of(const EvolveResult& result, const Comparison& one) {
  return result.best && &one == &*result.best ? "best" : one.name;
}

Node optional_node(const std::optional<double>& value) {
  return value ? Node::real(*value) : Node{};
}

std::string bound_text(const BoundParams& bound) {
  std::string text;
  if (bound.at_most) text += fmt::format("at most {:.4g}", *bound.at_most);
  if (bound.at_least) text += fmt::format("{}at least {:.4g}", text.empty() ? "" : ", ", *bound.at_least);
  return bound.of.empty() ? text : text + " of " + bound.of;
}

/// What a bound holds for something: its mean, as a ratio to that of the baseline where it is of one.
std::optional<double> bounded_value(const EvolveStudy& study, const EvolveResult& result, std::size_t bound,
                                    const Comparison& row, Figures Comparison::*runs) {
  const auto mean = bounded_means(study, row.*runs)[bound];
  if (!mean || study.objective.bounds[bound].of.empty()) return mean;
  for (const Comparison& one : result.baselines) {
    if (one.name != study.objective.bounds[bound].of) continue;
    const auto of = bounded_means(study, one.*runs)[bound];
    if (of && *of != 0) return *mean / *of;
  }
  return std::nullopt;
}

Node figures_node(const Figures& figures, const std::vector<Scenario>& scenarios) {
  const Spread spread = spread_of(figures);
  Node node = Node::object();
  node.set("median", optional_node(spread.median));
  node.set("p25", optional_node(spread.low));
  node.set("p75", optional_node(spread.high));
  Node runs = Node::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    Node run = Node::object();
    run.set("scenario", Node::string(scenarios[i].name));
    run.set("figure", optional_node(figures[i].value));
    if (!figures[i].reason.empty()) run.set("why", Node::string(figures[i].reason));
    runs.push(std::move(run));
  }
  node.set("runs", std::move(runs));
  return node;
}

Node bounds_node(const EvolveStudy& study, const EvolveResult& result, const Comparison& row) {
  Node all = Node::array();
  for (std::size_t i = 0; i < study.objective.bounds.size(); ++i) {
    Node node = Node::object();
    node.set("figure", Node::string(study.objective.bounds[i].figure));
    node.set("bound", Node::string(bound_text(study.objective.bounds[i])));
    node.set("training", optional_node(bounded_value(study, result, i, row, &Comparison::training)));
    if (!study.held_out.empty())
      node.set("held_out", optional_node(bounded_value(study, result, i, row, &Comparison::held_out)));
    all.push(std::move(node));
  }
  return all;
}

/// The best, what it was made of, and so on to the first.
Node lineage_node(const EvolveStudy& study, const EvolveResult& result) {
  const double sign = study.objective.goal == Goal::maximise ? -1 : 1;
  Node all = Node::array();
  for (const std::size_t entry : result.lineage) {
    const Candidate& one = result.archive[entry];
    Node node = Node::object();
    node.set("candidate", Node::integer(static_cast<std::int64_t>(entry)));
    node.set("generation", Node::integer(one.generation));
    node.set("island", Node::integer(one.from.island));
    node.set("how", Node::string(one.from.how));
    node.set("figure", one.fitness ? Node::real(sign * *one.fitness) : Node{});
    node.set("expression", Node::string(one.text));
    all.push(std::move(node));
  }
  return all;
}

Node generation_node(const GenerationRow& row) {
  Node node = Node::object();
  node.set("proposed", Node::integer(row.proposed));
  node.set("evaluated", Node::integer(row.fresh));
  node.set("known", Node::integer(row.known));
  node.set("refused", Node::integer(row.refused));
  node.set("best", optional_node(row.best));
  node.set("median", optional_node(row.median));
  node.set("best_nodes", Node::integer(static_cast<std::int64_t>(row.best_nodes)));
  node.set("best_beyond_bounds", Node::real(row.best_violation));
  return node;
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

}  // namespace

std::string result_text(const EvolveStudy& study, const EvolveResult& result) {
  std::string text = fmt::format("{}{}{}\n", study.name, study.title.empty() ? "" : ": ", study.title);
  text += fmt::format("{}, {} {}; {} runs of {} expressions\n\n", study.path,
                      study.objective.goal == Goal::maximise ? "most" : "least", study.objective.figure, result.runs,
                      result.archive.size());
  text += "generation  proposed  evaluated  refused        best      median  nodes\n";
  for (std::size_t i = 0; i < result.generations.size(); ++i) {
    const GenerationRow& row = result.generations[i];
    text += fmt::format("{:>10}  {:>8}  {:>9}  {:>7}  {:>10}  {:>10}  {:>5}\n", i, row.proposed, row.fresh, row.refused,
                        number_text(row.best), number_text(row.median), row.best_nodes);
  }
  const bool held = !study.held_out.empty();
  text += fmt::format(
      "\n{:<12} {:>10} {:>21}{}\n", "", "training", fmt::format("quartiles of {}", study.training.size()),
      held ? fmt::format(" {:>10} {:>21}", "held out", fmt::format("quartiles of {}", study.held_out.size())) : "");
  for (const Comparison* row : rows_of(result))
    text += fmt::format("{:<12} {}{}\n", label_of(result, *row), spread_text(row->training),
                        held ? " " + spread_text(row->held_out) : "");
  for (std::size_t i = 0; i < study.objective.bounds.size(); ++i) {
    const BoundParams& bound = study.objective.bounds[i];
    text += fmt::format("\n{} {}{}\n", bound.figure, bound_text(bound),
                        bound.of.empty() ? "" : "; ratios of means over runs");
    for (const Comparison* row : rows_of(result))
      text += fmt::format("{:<12} {:>10}{}\n", label_of(result, *row),
                          number_text(bounded_value(study, result, i, *row, &Comparison::training)),
                          held ? fmt::format(" {:>21} {:>10}", "",
                                             number_text(bounded_value(study, result, i, *row, &Comparison::held_out)))
                               : "");
  }
  text += result.best ? fmt::format("\nbest: {}\n", result.best->name) : "\nno expression could be evaluated\n";
  const auto refused = [&](std::int64_t count, const char* why) {
    if (count > 0) text += fmt::format("note: {} proposals {}\n", count, why);
  };
  refused(result.faulty, "are no expression");
  refused(result.too_large, "pass the bounds of size");
  refused(result.forbidden, "use names that this study does not have");
  for (const std::string& note : result.notes) text += "note: " + note + "\n";
  return text;
}

Node result_node(const EvolveStudy& study, const EvolveResult& result) {
  Node root = Node::object();
  root.set("study", Node::string(study.name));
  root.set("path", Node::string(study.path));
  Node objective = Node::object();
  objective.set("figure", Node::string(study.objective.figure));
  objective.set("goal", Node::string(study.objective.goal == Goal::maximise ? "maximise" : "minimise"));
  root.set("objective", std::move(objective));
  root.set("best", result.best ? Node::string(result.best->name) : Node{});
  root.set("lineage", lineage_node(study, result));
  Node rows = Node::array();
  for (const Comparison* one : rows_of(result)) {
    Node row = Node::object();
    row.set("name", Node::string(label_of(result, *one)));
    row.set("training", figures_node(one->training, study.training));
    if (!study.held_out.empty()) row.set("held_out", figures_node(one->held_out, study.held_out));
    if (!study.objective.bounds.empty()) row.set("bounds", bounds_node(study, result, *one));
    rows.push(std::move(row));
  }
  root.set("compared", std::move(rows));
  Node generations = Node::array();
  for (const GenerationRow& row : result.generations) generations.push(generation_node(row));
  root.set("generations", std::move(generations));
  Node refused = Node::object();
  refused.set("faulty", Node::integer(result.faulty));
  refused.set("too_large", Node::integer(result.too_large));
  refused.set("forbidden_names", Node::integer(result.forbidden));
  root.set("refused", std::move(refused));
  root.set("expressions", Node::integer(static_cast<std::int64_t>(result.archive.size())));
  root.set("runs", Node::integer(result.runs));
  Node notes = Node::array();
  for (const std::string& note : result.notes) notes.push(Node::string(note));
  root.set("notes", std::move(notes));
  return root;
}

std::string candidates_csv(const EvolveStudy& study, const EvolveResult& result) {
  const double sign = study.objective.goal == Goal::maximise ? -1 : 1;
  std::string text = "candidate,generation,island,how,parents,nodes,figure,beyond_bounds,expression,why\n";
  for (std::size_t i = 0; i < result.archive.size(); ++i) {
    const Candidate& one = result.archive[i];
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{}\n", i, one.generation, one.from.island, one.from.how,
        fmt::join(one.from.parents, " "), one.tree.size(), one.fitness ? fmt::format("{}", sign * *one.fitness) : "",
        one.fitness ? fmt::format("{}", one.violation) : "", quoted(one.text), one.why.empty() ? "" : quoted(one.why));
  }
  return text;
}

}  // namespace orrery::experiments::evolve
