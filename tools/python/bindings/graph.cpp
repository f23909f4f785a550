// Operator graphs: of a builder or a file, bound to sizes, rewritten by passes, as tables.
#include "tools/python/bindings/graph.hpp"

#include <fmt/format.h>

#include "models/graph/graph_dot.hpp"
#include "models/graph/graph_json.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::python {
namespace {

using models::OpGraph;
using models::SymExpr;
namespace graphs = experiments::graph;

using Sizes = std::vector<std::pair<std::string, std::string>>;

double number(const SymExpr& expression) {
  return static_cast<double>(expression.constant().value_or(0));
}

PyGraph load(const Known& known, const std::string& source, const std::string& format, const std::string& params,
             const Sizes& sizes) {
  sim::Node node = sim::parse_json(params, "--set");
  models::Imported imported =
      graphs::load_graph(known.systems.registry<models::BuilderRegistry>(), source, format, node);
  PyGraph made{.unmapped = std::move(imported.unmapped), .notes = std::move(imported.notes)};
  made.sizes = graphs::bind_sizes(imported.graph, sizes);
  made.graph = std::make_shared<const OpGraph>(std::move(imported.graph));
  return made;
}

std::vector<std::string> dimensions(const PyGraph& graph) {
  std::vector<std::string> names;
  for (const models::Symbol symbol : graph.graph->symbols()) names.push_back(symbol.name());
  return names;
}

/// Every dimension has a size, or a fault says which has none.
void require_sizes(const PyGraph& graph) {
  sim::Faults faults;
  for (const models::Symbol symbol : graph.graph->symbols())
    if (!graph.sizes.find(symbol))
      faults.add({"--bind", ""}, fmt::format("no value for dimension '{}'", symbol.name()));
  faults.throw_if_any();
}

std::string shapes_text(const OpGraph& graph, const models::OpNode& op, const models::Bindings& sizes) {
  std::string text;
  for (const models::TensorId id : op.outputs) {
    text += text.empty() ? "" : "; ";
    text += fmt::format("{}[", to_string(graph.tensor(id).type));
    bool first = true;
    for (const std::int64_t size : models::sizes(graph, id, sizes)) {
      text += fmt::format("{}{}", first ? "" : ", ", size);
      first = false;
    }
    text += "]";
  }
  return text;
}

py::dict operators(const PyGraph& g) {
  require_sizes(g);
  Rows rows;
  for (const models::OpId id : g.graph->ops()) {
    const models::OpNode& op = g.graph->op(id);
    const models::OpWork work = models::work(*g.graph, id, g.sizes);
    rows.text("name", op.name);
    rows.text("op", to_string(op.kind));
    rows.text("class", to_string(op.op_class));
    rows.text("scope", op.scope);
    rows.text("phase", to_string(op.phase));
    rows.text("output", shapes_text(*g.graph, op, g.sizes));
    rows.number("flops", number(work.flops()));
    rows.number("matrix_flops", number(work.matrix_flops));
    rows.number("read_bytes", number(work.read_bytes));
    rows.number("write_bytes", number(work.write_bytes));
    rows.number("bytes", number(work.bytes()));
  }
  return rows.take();
}

py::dict formulas(const PyGraph& g) {
  const models::OpWork work = models::total_work(*g.graph);
  SymExpr parameters = 0, parameter_bytes = 0;
  for (const models::TensorId id : g.graph->with_role(models::TensorRole::parameter)) {
    parameters += g.graph->tensor(id).elements();
    parameter_bytes += g.graph->tensor(id).bytes();
  }
  py::dict all;
  const auto add = [&](const char* name, const SymExpr& formula) { all[name] = formula.to_string(); };
  add("parameters", parameters);
  add("parameter_bytes", parameter_bytes);
  add("flops", work.flops());
  add("matrix_flops", work.matrix_flops);
  add("read_bytes", work.read_bytes);
  add("write_bytes", work.write_bytes);
  return all;
}

py::dict totals(const PyGraph& g) {
  require_sizes(g);
  const models::OpWork work = models::total_work(*g.graph, g.sizes);
  SymExpr parameters = 0, parameter_bytes = 0;
  for (const models::TensorId id : g.graph->with_role(models::TensorRole::parameter)) {
    parameters += g.graph->tensor(id).elements();
    parameter_bytes += g.graph->tensor(id).bytes();
  }
  const models::GraphLaunches launches = models::lower(*g.graph, g.sizes);
  py::dict all;
  all["ops"] = g.graph->op_count();
  all["tensors"] = g.graph->tensor_count();
  all["kernels"] = launches.kernels.size();
  all["transfers"] = launches.transfers.size();
  all["parameters"] = parameters.eval(g.sizes);
  all["parameter_bytes"] = parameter_bytes.eval(g.sizes);
  all["flops"] = number(work.flops());
  all["matrix_flops"] = number(work.matrix_flops);
  all["read_bytes"] = number(work.read_bytes);
  all["write_bytes"] = number(work.write_bytes);
  return all;
}

/// The graph after a pass, and what the pass tells of itself. Prices are those of the machine, if one is given.
py::tuple apply(const policies::PassRegistry& passes, const PyGraph& g, const std::string& name,
                const std::string& params, const PyMachine* machine) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, name);
  const auto choice = passes.prepare(name, &node, {"apply", ""}, faults);
  faults.throw_if_any();
  policies::PassContext context;
  context.typical = g.sizes;
  if (machine != nullptr) {
    context = experiments::pass_context(machine->device().device, g.sizes);
    context.launch_s = machine->device().call_s;
  }
  context.seen = {g.sizes};
  policies::PassReport report;
  PyGraph made{.sizes = g.sizes, .unmapped = g.unmapped, .notes = g.notes};
  try {
    made.graph = std::make_shared<const OpGraph>(choice.make()->run(*g.graph, context, report));
  } catch (const models::GraphError& error) {
    sim::throw_fault({"apply", ""}, fmt::format("pass '{}': {}", name, error.what()));
  } catch (const models::UnboundSymbol& error) {
    sim::throw_fault({"--bind", ""}, fmt::format("pass '{}': {}", name, error.what()));
  } catch (const std::logic_error& error) {
    sim::throw_fault({"apply", ""}, fmt::format("pass '{}': {}", name, error.what()),
                     machine == nullptr ? "give it a machine, whose prices it may need" : "");
  }
  py::dict figures;
  for (const auto& [figure, value] : report.figures) figures[py::str(figure)] = value;
  return py::make_tuple(std::move(made), figures, report.notes);
}

}  // namespace

void bind_graph(py::module_& module, const SharedKnown& known) {
  py::class_<PyGraph>(module, "Graph")
      .def(py::init([known](const std::string& source, const std::string& format, const std::string& params,
                            const Sizes& sizes) { return load(*known, source, format, params, sizes); }),
           py::arg("source"), py::arg("format"), py::arg("params"), py::arg("sizes"))
      .def("name", [](const PyGraph& g) { return g.graph->name; })
      .def("op_count", [](const PyGraph& g) { return g.graph->op_count(); })
      .def("dimensions", &dimensions)
      .def("sizes",
           [](const PyGraph& g) {
             py::dict all;
             for (const auto& [symbol, value] : g.sizes.values()) all[py::str(symbol.name())] = value;
             return all;
           })
      .def("bind",
           [](const PyGraph& g, const Sizes& sizes) {
             PyGraph other = g;
             other.sizes = graphs::bind_sizes(*g.graph, sizes);
             return other;
           })
      .def("operators", &operators)
      .def("formulas", &formulas)
      .def("totals", &totals)
      .def(
          "apply",
          [known](const PyGraph& g, const std::string& name, const std::string& params, const PyMachine* machine) {
            return apply(known->systems.registry<policies::PassRegistry>(), g, name, params, machine);
          },
          py::arg("pass_"), py::arg("params"), py::arg("machine").none(true))
      .def("unmapped", [](const PyGraph& g) { return g.unmapped; })
      .def("notes", [](const PyGraph& g) { return g.notes; })
      .def("dot", [](const PyGraph& g) { return models::to_dot(*g.graph); })
      .def("json", [](const PyGraph& g) { return models::json_text(*g.graph); })
      .def("text", [](const PyGraph& g) { return to_string(*g.graph); });
}

}  // namespace orrery::python
