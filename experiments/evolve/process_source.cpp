#include "experiments/evolve/process_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace orrery::experiments::evolve {

namespace {

using Clock = std::chrono::steady_clock;
using sim::Node;

constexpr std::int64_t kMostLines = 1000;  // of garbage in a generation, after which it has none
constexpr std::size_t kMostWhy = 300;      // characters of a reason
constexpr double kWriteLimit = 10;         // seconds for a line to go out

template <class T>
Node strings(const T& all) {
  Node list = Node::array();
  for (const auto& one : all) list.push(Node::string(std::string(one)));
  return list;
}

Node number_or_null(const std::optional<double>& value) {
  return value ? Node::real(*value) : Node{};
}

Node candidate_node(const EvolveStudy& study, const Candidate& candidate) {
  const double sign = study.objective.goal == Goal::maximise ? -1 : 1;
  Node node = Node::object();
  node.set("expression", Node::string(candidate.text));
  node.set("figure", candidate.fitness ? Node::real(sign * *candidate.fitness) : Node{});
  node.set("nodes", Node::integer(std::ssize(candidate.tree)));
  node.set("generation", Node::integer(candidate.generation));
  Node runs = Node::array();
  for (const RunFigure& one : candidate.figures) runs.push(number_or_null(one.value));
  node.set("runs", std::move(runs));
  if (!study.objective.bounds.empty()) node.set("beyond_bounds", Node::real(candidate.violation));
  if (!candidate.why.empty()) node.set("why", Node::string(candidate.why.substr(0, kMostWhy)));
  return node;
}

}  // namespace

Node problem_message(const EvolveStudy& study) {
  Node node = Node::object();
  node.set("type", Node::string("problem"));
  node.set("protocol", Node::integer(1));
  node.set("title", Node::string(study.title));
  node.set("path", Node::string(study.path));
  node.set("meaning", Node::string(study.subject->doc));
  Node objective = Node::object();
  objective.set("figure", Node::string(study.objective.figure));
  objective.set("goal", Node::string(study.objective.goal == Goal::maximise ? "maximise" : "minimise"));
  objective.set("over", Node::string("mean of the training scenarios"));
  Node bounds = Node::array();
  for (const BoundParams& bound : study.objective.bounds) bounds.push(sim::write_params(bound));
  objective.set("bounds", std::move(bounds));
  node.set("objective", std::move(objective));
  Node scenarios = Node::array();
  for (const Scenario& one : study.training) scenarios.push(Node::string(one.name));
  node.set("training", std::move(scenarios));
  Node fields = Node::array();
  for (const std::uint32_t slot : study.material.names) {
    const policies::NameInfo& info = study.subject->names[slot];
    Node field = Node::object();
    field.set("name", Node::string(info.name));
    field.set("unit", Node::string(std::string(symbol(info.unit))));
    field.set("doc", Node::string(info.doc));
    fields.push(std::move(field));
  }
  node.set("fields", std::move(fields));
  Node functions = Node::array();
  for (const Function& one : kFunctions) {
    Node function = Node::object();
    function.set("name", Node::string(std::string(one.name)));
    function.set("arguments", Node::integer(static_cast<std::int64_t>(one.arguments)));
    functions.push(std::move(function));
  }
  node.set("functions", std::move(functions));
  Node limits = Node::object();
  limits.set("nodes", Node::integer(static_cast<std::int64_t>(study.material.most_nodes)));
  limits.set("depth", Node::integer(static_cast<std::int64_t>(study.material.most_depth)));
  limits.set("characters", Node::integer(static_cast<std::int64_t>(policies::kMostExpressionText)));
  limits.set("candidates", Node::integer(study.proposer.candidates));
  limits.set("answer_s", Node::real(study.proposer.limit_s));
  limits.set("generations", Node::integer(study.search.generations));
  node.set("limits", std::move(limits));
  node.set("starts", strings(study.starts));
  node.set("seed", Node::integer(study.search.seed));
  return node;
}

ProcessSource::ProcessSource(const EvolveStudy& study, const std::string& command)
    : study_(study),
      command_(command),
      process_(std::make_unique<sim::LineProcess>(std::vector<std::string>{"/bin/sh", "-c", command})) {
  say(problem_message(study));
}

ProcessSource::~ProcessSource() {
  Node end = Node::object();
  end.set("type", Node::string("end"));
  end.set("best", best_);
  say(end);
}

void ProcessSource::say(const Node& message) {
  if (!counts_.gone && !process_->write(message.dump(), kWriteLimit)) counts_.gone = true;
}

std::vector<Proposal> ProcessSource::propose(std::int64_t generation, const Archive&) {
  std::vector<Proposal> proposals;
  for (std::string& text : asked(generation)) proposals.push_back({.text = std::move(text)});
  if (counts_.gone && counts_.answers == 0)  // it never was one; a search without it is not what was asked for
    sim::throw_fault({"--proposer", ""},
                     fmt::format("expected a program that proposes: '{}' ended before its first answer", command_));
  return proposals;
}

std::vector<std::string> ProcessSource::asked(std::int64_t generation) {
  Node message = Node::object();
  message.set("type", Node::string("propose"));
  message.set("generation", Node::integer(generation));
  message.set("results", std::move(results_));
  message.set("best", best_);
  results_ = Node::array();
  say(message);
  const auto end = Clock::now() + std::chrono::duration<double>(study_.proposer.limit_s);
  for (std::int64_t line_count = 0; line_count < kMostLines && !counts_.gone; ++line_count) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    const auto line = process_->read(std::max(left, 0.0));
    counts_.overlong = process_->overlong();
    if (!line) {
      if (process_->ended()) {
        counts_.gone = true;
      } else {
        ++counts_.late;
      }
      return {};
    }
    if (auto texts = read_answer(*line, generation, study_.proposer.candidates, counts_)) return std::move(*texts);
  }
  return {};
}

std::optional<std::vector<std::string>> read_answer(const std::string& line, std::int64_t generation, std::int64_t most,
                                                    ProposerCounts& counts) {
  Node root;
  try {
    root = sim::parse_json(line, "proposer");
  } catch (const sim::ConfigError&) {
    ++counts.garbage;
    return std::nullopt;
  }
  const Node* list = root.is_object() ? root.find("candidates") : nullptr;
  if (list == nullptr || !list->is_array()) {
    ++counts.garbage;
    return std::nullopt;
  }
  const Node* of = root.find("generation");
  if (of != nullptr && of->is_number() && of->as_number() != static_cast<double>(generation)) {
    ++counts.stale;
    return std::nullopt;
  }
  ++counts.answers;
  std::vector<std::string> texts;
  for (const Node& item : list->items()) {
    if (!item.is_string()) {
      ++counts.no_text;
    } else if (std::ssize(texts) >= most) {
      ++counts.surplus;
    } else {
      texts.push_back(item.as_string());
    }
  }
  return texts;
}

void ProcessSource::told(std::span<const Verdict> verdicts, const Archive& archive) {
  for (const Verdict& one : verdicts) {
    Node node = Node::object();
    if (one.entry) {
      node = candidate_node(study_, archive[*one.entry]);
      node.set("proposed", Node::string(one.text));
      node.set("known", Node::boolean(!one.fresh));
    } else {
      node.set("proposed", Node::string(one.text.substr(0, policies::kMostExpressionText)));
      node.set("figure", Node{});
      node.set("why", Node::string(one.refusal.why.substr(0, kMostWhy)));
    }
    results_.push(std::move(node));
  }
  if (const auto best = archive.best()) best_ = candidate_node(study_, archive[*best]);
}

std::vector<std::string> ProcessSource::notes() const {
  std::vector<std::string> all;
  const auto note = [&](std::int64_t count, const char* text) {
    if (count > 0) all.push_back(fmt::format("the proposer: {} {}", count, text));
  };
  note(counts_.garbage, "lines that are no answer");
  note(counts_.overlong, "lines too long to be read");
  note(counts_.late, "generations without an answer in time");
  note(counts_.stale, "answers to a generation that was over");
  note(counts_.surplus, "candidates past the most of an answer");
  note(counts_.no_text, "candidates that are no text");
  if (counts_.gone) all.emplace_back("the proposer ended before the search did");
  return all;
}

}  // namespace orrery::experiments::evolve
