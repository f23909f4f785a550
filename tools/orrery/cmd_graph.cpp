// `orrery graph SOURCE`: what is in a graph of a builder or a file: ops by kind, parameters, work, what was not mapped.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include "experiments/systems/graph/source.hpp"
#include "models/graph/graph_dot.hpp"
#include "models/graph/graph_json.hpp"
#include "models/graph/graph_lowering.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

using models::Imported;
using models::OpGraph;
using models::SymExpr;

struct GraphOptions {
  std::string source, format, dot, json;
  std::vector<std::string> assignments, binds;
  bool print = false;
};

constexpr std::size_t kLongestFormula = 400;

Imported loaded(const Systems& systems, const GraphOptions& options) {
  sim::Node params = sim::Node::object();
  params.set_origin({"--set", ""});
  for (const std::string& assignment : options.assignments) sim::assign(params, assignment);
  return experiments::graph::load_graph(systems.registry<models::BuilderRegistry>(), options.source, options.format,
                                        params);
}

/// "batch=8,tokens=128" for the dimensions that the graph has.
models::Bindings bindings_of(const GraphOptions& options, const OpGraph& graph) {
  std::vector<std::pair<std::string, std::string>> sizes;
  for (const std::string& bind : options.binds) {
    const auto equals = bind.find('=');
    sizes.emplace_back(bind.substr(0, equals), equals == std::string::npos ? "" : bind.substr(equals + 1));
  }
  return experiments::graph::bind_sizes(graph, sizes);
}

void count_kinds(const OpGraph& graph, std::map<std::string, std::int64_t>& kinds) {
  for (const models::OpId id : graph.ops()) {
    ++kinds[std::string(to_string(graph.op(id).kind))];
    for (const auto& region : graph.op(id).regions) count_kinds(*region, kinds);
  }
}

/// Counts, the most first.
void print_counts(const std::vector<std::pair<std::string, std::int64_t>>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted = counts;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, count] : sorted) fmt::print("  {:>8}  {}\n", count, name);
}

void print_formula(std::string_view label, const SymExpr& formula) {
  std::string text = formula.to_string();
  if (text.size() > kLongestFormula)
    text = fmt::format("{} … ({} characters)", text.substr(0, kLongestFormula), text.size());
  fmt::print("{:<12} {}\n", label, text);
}

void print_work(const OpGraph& graph, const models::OpWork& work, const std::vector<models::Symbol>& symbols,
                const models::Bindings& bindings) {
  print_formula("FLOPs", work.flops());
  print_formula("bytes read", work.read_bytes);
  print_formula("written", work.write_bytes);
  if (!symbols.empty() && bindings.values().empty()) return;
  std::string where;
  for (const auto& [symbol, value] : bindings.values())
    where += fmt::format("{}{} = {}", where.empty() ? " at " : ", ", symbol.name(), value);
  const models::OpWork bound = total_work(graph, bindings);
  const models::GraphLaunches launches = lower(graph, bindings);
  const auto value = [](const SymExpr& e) { return static_cast<double>(e.constant().value_or(0)); };
  fmt::print("work{}: {:.6g} FLOPs ({:.6g} of products), {:.6g} bytes read, {:.6g} written, {} kernels, {} transfers\n",
             where, value(bound.flops()), value(bound.matrix_flops), value(bound.read_bytes), value(bound.write_bytes),
             launches.kernels.size(), launches.transfers.size());
}

void print_summary(const Imported& imported, const models::Bindings& bindings) {
  const OpGraph& graph = imported.graph;
  const std::vector<models::Symbol> symbols = graph.symbols();
  std::map<std::string, std::int64_t> kinds;
  count_kinds(graph, kinds);
  SymExpr parameters = 0, parameter_bytes = 0;
  for (const models::TensorId id : graph.with_role(models::TensorRole::parameter)) {
    const models::Tensor& tensor = graph.tensor(id);
    try {
      parameters += tensor.elements();
      parameter_bytes += tensor.bytes();
    } catch (const std::overflow_error& error) {
      throw std::overflow_error(fmt::format("parameter '{}': {}", tensor.name, error.what()));
    }
  }
  const models::OpWork work = total_work(graph);  // before anything is printed, for it may not fit
  fmt::print("graph \"{}\": {} ops, {} tensors\n", graph.name, graph.op_count(), graph.tensor_count());
  std::string dims;
  for (const models::Symbol symbol : symbols) dims += (dims.empty() ? "" : ", ") + symbol.name();
  if (dims.size() > kLongestFormula)
    dims = fmt::format("{} …, {} in all", dims.substr(0, kLongestFormula), symbols.size());
  fmt::print("{:<12} {}\n", "dimensions", dims.empty() ? "none" : dims);
  print_formula("parameters", parameters);
  print_formula("their bytes", parameter_bytes);
  print_work(graph, work, symbols, bindings);
  fmt::print("ops by kind:\n");
  print_counts({kinds.begin(), kinds.end()});
  if (!imported.unmapped.empty()) {
    fmt::print("not mapped, kept as custom ops:\n");
    print_counts(imported.unmapped);
  }
  for (const std::string& note : imported.notes) fmt::print("note: {}\n", note);
}

void write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) sim::throw_fault({file, ""}, "expected a file that can be written");
}

int graph_command(const Systems& systems, const GraphOptions& options) {
  const Imported imported = loaded(systems, options);
  const models::Bindings bindings = bindings_of(options, imported.graph);
  try {
    if (options.print)
      fmt::print("{}", to_string(imported.graph));
    else
      print_summary(imported, bindings);
  } catch (const std::overflow_error& error) {  // sizes of the file, or of --bind
    sim::throw_fault({options.source, ""}, error.what());
  }
  if (!options.dot.empty()) write_file(options.dot, to_dot(imported.graph));
  if (!options.json.empty()) write_file(options.json, json_text(imported.graph));
  return 0;
}

}  // namespace

void add_graph(CLI::App& app, Action& action) {
  auto options = std::make_shared<GraphOptions>();
  CLI::App* command = app.add_subcommand("graph", "Show the operator graph of a builder or of a model file");
  command
      ->add_option("SOURCE", options->source,
                   "Name of a builder, or a file: ONNX, Chakra, profiler trace, config.json, JSON")
      ->required();
  command->add_option("--format", options->format,
                      "Format of the file: chakra, hf, json, kineto or onnx (default: by its name)");
  command->add_option("--set", options->assignments, "Set a parameter of the builder: layers=2")
      ->allow_extra_args(false);
  command->add_option("--bind", options->binds, "Sizes of dimensions: batch=8,tokens=128")->delimiter(',');
  command->add_option("--dot", options->dot, "File to write the graph to, in Graphviz format");
  command->add_option("--json", options->json, "File to write the graph to, as JSON");
  command->add_flag("--print", options->print, "Print all tensors and operators in place of the summary");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return graph_command(systems, *options); }; });
}

}  // namespace orrery::tools
