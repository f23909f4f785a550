#include "experiments/study/protocol.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "experiments/base/run_folder.hpp"

namespace orrery::experiments::study {
namespace {

using sim::Node;

constexpr std::int64_t kProtocol = 1;

Node parsed(const std::string& line, std::int64_t number) {
  Node node = sim::parse_json(line, fmt::format("line {}", number));
  if (!node.is_object()) sim::throw_fault(node.origin(), fmt::format("expected an object, got {}", node.shown()));
  return node;
}

RunGoals read_header(const Node& node) {
  const Node* protocol = node.find("protocol");
  if (protocol == nullptr || protocol->kind() != Node::Kind::integer || protocol->as_integer() != kProtocol)
    sim::throw_fault(node.origin_of("protocol"), fmt::format("expected protocol {}", kProtocol));
  const Node* list = node.find("measures");
  if (list == nullptr || !list->is_object()) sim::throw_fault(node.origin_of("measures"), "expected measures by name");
  RunGoals goals;
  for (const auto& [name, path] : list->members()) {
    if (!path.is_string()) sim::throw_fault(path.origin(), "expected a path in summary.json");
    goals.measures.push_back({name, path.as_string(), path.origin()});
  }
  if (const Node* ends = node.find("ends")) {
    if (!ends->is_array()) sim::throw_fault(ends->origin(), "expected a list");
    for (const Node& end : ends->items()) {
      const Node *path = end.find("path"), *above = end.find("above"), *below = end.find("below");
      const Node* bound = above != nullptr ? above : below;
      if (path == nullptr || !path->is_string() || bound == nullptr || !bound->is_number())
        sim::throw_fault(end.origin(), "expected a path in summary.json, and a number 'above' or 'below'");
      goals.ends.push_back({path->as_string(), bound->as_number(), bound == below});
    }
  }
  return goals;
}

RunOutcome failed(std::string reason) {
  return {{.status = TrialStatus::failed, .reason = std::move(reason)}, {}};
}

/// Evaluates one request; `key` becomes that of the run, if it could be read.
RunOutcome evaluate(const Systems& systems, const Node& request, const RunGoals& goals, InputDigests& digests,
                    std::string& key) {
  const Node* config = request.find("config");
  if (config == nullptr || !config->is_object()) return failed("expected a config");
  const Node* wanted = request.find("key");
  const PreparedRun run = prepare_run([&] { return read_experiment(systems, *config); }, digests, goals.ends);
  if (run.key.empty()) return failed(run.faults.front().text());
  key = run.key;
  if (wanted != nullptr && wanted->is_string() && wanted->as_string() != key)
    return failed(fmt::format("the key is {} here: an input file differs from the head's", key));
  return *run_experiment(*run.experiment, goals, {});
}

Node answer(const Node& request, const std::string& key, const RunOutcome& outcome, std::span<const Measure> measures) {
  const RunResult& result = outcome.result;
  Node node = Node::object();
  const Node* id = request.find("id");
  node.set("id", id != nullptr ? *id : Node{});
  node.set("key", key.empty() ? Node{} : Node::string(key));
  node.set("status", Node::string(std::string(sim::to_string(result.status))));
  node.set("reason", result.reason.empty() ? Node{} : Node::string(result.reason));
  Node figures = Node::object();
  for (std::size_t i = 0; i < result.figures.size(); ++i)
    figures.set(measures[i].name, std::isnan(result.figures[i]) ? Node{} : Node::real(result.figures[i]));
  node.set("figures", std::move(figures));
  Node absent = Node::object();
  for (std::size_t i = 0; i < outcome.absent.size(); ++i)
    if (!outcome.absent[i].empty()) absent.set(measures[i].name, Node::string(outcome.absent[i]));
  if (!absent.members().empty()) node.set("absent", std::move(absent));
  return node;
}

}  // namespace

RunOutcome protocol_answer(const Node& node, std::span<const Measure> measures) {
  const auto text = [&](const Node* value) { return value != nullptr && value->is_string() ? value->as_string() : ""; };
  RunOutcome outcome;
  outcome.result.status = status_of(text(node.find("status")));
  outcome.result.reason = text(node.find("reason"));
  const Node* figures = node.find("figures");
  const Node* absent = node.find("absent");
  for (const Measure& measure : measures) {
    const Node* figure = figures != nullptr ? figures->find(measure.name) : nullptr;
    outcome.result.figures.push_back(figure != nullptr && figure->is_number() ? figure->as_number() : std::nan(""));
    outcome.absent.push_back(text(absent != nullptr ? absent->find(measure.name) : nullptr));
  }
  return outcome;
}

Node protocol_header(const Study& study) {
  Node node = Node::object();
  node.set("protocol", Node::integer(kProtocol));
  Node measures = Node::object();
  for (const Measure& measure : study.measures) measures.set(measure.name, Node::string(measure.path));
  node.set("measures", std::move(measures));
  Node ends = Node::array();
  for (const RunEnd& end : study.ends()) {
    Node one = Node::object();
    one.set("path", Node::string(end.path));
    one.set(end.below ? "below" : "above", Node::real(end.bound));
    ends.push(std::move(one));
  }
  if (!ends.items().empty()) node.set("ends", std::move(ends));
  return node;
}

std::string protocol_request(std::int64_t id, const PreparedRun& run) {
  return fmt::format(R"({{"id":{},"key":"{}","config":{}}})", id, run.key, run.text);
}

void evaluate_points(const Systems& systems, std::istream& in, std::ostream& out) {
  std::string line;
  RunGoals goals;
  InputDigests digests;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const Node node = parsed(line, number);
    if (number == 1) {
      goals = read_header(node);
      Node hello = Node::object();
      hello.set("protocol", Node::integer(kProtocol));
      hello.set("version", Node::string(std::string(version())));
      hello.set("build", Node::string(build_id()));
      out << hello.dump() << std::endl;
      continue;
    }
    std::string key;
    const RunOutcome result = evaluate(systems, node, goals, digests, key);
    out << answer(node, key, result, goals.measures).dump() << '\n';
    if (in.rdbuf()->in_avail() <= 0) out.flush();  // whoever sent one line waits for its answer
  }
}

}  // namespace orrery::experiments::study
