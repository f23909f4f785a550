// Traces of requests: as columns, what is in them, drawn from a generator, written.
#include <filesystem>

#include "experiments/answers/router_questions.hpp"
#include "tools/python/bindings/bindings.hpp"
#include "traces/generator.hpp"
#include "traces/summary.hpp"
#include "traces/writer.hpp"

namespace orrery::python {
namespace {

std::unique_ptr<traces::TraceSource> open(const experiments::Systems& systems, const std::string& params) {
  const auto& formats = systems.registry<traces::FormatTable>();
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "trace");
  const traces::TraceParams parsed = traces::parse_trace(node, formats, faults);
  faults.throw_if_any();
  return traces::open_trace(parsed, formats);
}

/// Columns of the first `most` requests; those that the trace does not tell are left out.
py::dict read_trace(const experiments::Systems& systems, const std::string& params, std::int64_t most) {
  const auto source = open(systems, params);
  const traces::TraceColumns has = source->columns();
  std::vector<double> arrived;
  std::vector<std::int64_t> prompt, output, priority, tenant, predicted, blocks;
  py::list sessions;
  traces::TraceRecord record;
  while (std::ssize(prompt) < most && source->next(record)) {
    arrived.push_back(static_cast<double>(record.arrival_ns) * 1e-9);
    prompt.push_back(record.prompt_tokens);
    output.push_back(record.output_tokens);
    if (has.priorities) priority.push_back(record.priority);
    if (has.tenants) tenant.push_back(record.tenant);
    if (has.predictions) predicted.push_back(record.predicted_tokens);
    if (has.prefixes) blocks.push_back(std::ssize(record.prefix_blocks));
    if (has.sessions) sessions.append(record.session);
  }
  py::dict table;
  if (has.arrivals) table["arrived_s"] = to_array(std::move(arrived));
  table["prompt_tokens"] = to_array(std::move(prompt));
  table["output_tokens"] = to_array(std::move(output));
  if (has.priorities) table["priority"] = to_array(std::move(priority));
  if (has.tenants) table["tenant"] = to_array(std::move(tenant));
  if (has.predictions) table["predicted_tokens"] = to_array(std::move(predicted));
  if (has.prefixes) table["prefix_blocks"] = to_array(std::move(blocks));
  if (has.sessions) table["session"] = sessions;
  return table;
}

std::int64_t write_trace(const experiments::Systems& systems, const std::string& params, const std::string& format,
                         const std::string& out) {
  const auto source = open(systems, params);
  return traces::write_trace(*source, format, out).records;
}

std::int64_t generate_trace(const experiments::Systems& systems, const std::string& generator, std::int64_t seed,
                            const std::string& format, const std::string& out) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(generator, "generator");
  const traces::GeneratorParams config = traces::parse_generator(node, *systems.registries(), faults);
  faults.throw_if_any();
  const auto source = traces::make_generated_trace(config, static_cast<std::uint64_t>(seed));
  return traces::write_trace(*source, format, out).records;
}

/// What a router trace says of itself, and the choices of each layer as [tokens, top_k].
py::dict read_router_trace(const std::string& path) {
  traces::RouterTrace trace = traces::read_router_trace(path);
  py::dict out, layers;
  const py::ssize_t tokens = trace.tokens(), top_k = trace.top_k;
  out["experts"] = trace.experts;
  out["top_k"] = trace.top_k;
  out["context"] = trace.context;
  for (traces::RouterLayer& layer : trace.layers)
    layers[py::int_(layer.layer)] = to_array(std::move(layer.choices)).reshape({tokens, top_k});
  out["layers"] = layers;
  return out;
}

}  // namespace

void bind_trace(py::module_& module, const SharedKnown& known) {
  module.def(
      "read_trace",
      [known](const std::string& params, std::int64_t most) { return read_trace(known->systems, params, most); },
      py::arg("params"), py::arg("most"));
  module.def(
      "inspect_trace",
      [known](const std::string& params) {
        return to_python(traces::summary_node(traces::inspect(*open(known->systems, params))));
      },
      py::arg("params"));
  module.def(
      "write_trace",
      [known](const std::string& params, const std::string& format, const std::string& out) {
        return write_trace(known->systems, params, format, out);
      },
      py::arg("params"), py::arg("format"), py::arg("out"));
  module.def("read_router_trace", &read_router_trace, py::arg("path"));
  module.def(
      "generate_router_trace",
      [](const std::string& config, std::int64_t seed, const std::string& out) {
        const traces::RouterGenerator generator =
            experiments::read_router_generator(sim::parse_json(config, "generator"));
        traces::write_router_trace(traces::generate_router_trace(generator, static_cast<std::uint64_t>(seed)), out);
      },
      py::arg("config"), py::arg("seed"), py::arg("out"));
  module.def(
      "generate_trace",
      [known](const std::string& generator, std::int64_t seed, const std::string& format, const std::string& out) {
        return generate_trace(known->systems, generator, seed, format, out);
      },
      py::arg("generator"), py::arg("seed"), py::arg("format"), py::arg("out"));
}

}  // namespace orrery::python
