// `orrery trace inspect|convert|generate|fit`: what a trace holds, in another format, drawn from a generator, or a
// generator for it. Traces of requests, and of the routers of experts.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "experiments/answers/router_questions.hpp"
#include "tools/orrery/commands.hpp"
#include "traces/generator.hpp"
#include "traces/summary.hpp"
#include "traces/writer.hpp"

namespace orrery::tools {
namespace {

struct TraceOptions {
  std::string input, output, input_format, output_format;
  bool skip_faults = false, json = false, force = false;
  std::int64_t seed = 1;
};

struct FitOptions {
  experiments::RouterFitParams params;
  bool drawn = false, json = false;
};

std::unique_ptr<traces::TraceSource> open(const Systems& systems, const TraceOptions& options) {
  const auto& formats = systems.registry<traces::FormatTable>();
  traces::TraceParams params;
  params.path = options.input;
  if (!options.input_format.empty()) {
    if (formats.find(options.input_format) == nullptr)
      sim::throw_fault({"--format", ""}, fmt::format("unknown trace format '{}'", options.input_format),
                       sim::name_hint(options.input_format, formats.names()));
    params.format = options.input_format;
  }
  params.on_error = options.skip_faults ? traces::OnError::skip : traces::OnError::stop;
  return traces::open_trace(params, formats);
}

int inspect(const Systems& systems, const TraceOptions& options) {
  if (options.input_format.empty() && traces::is_router_trace(options.input)) {
    const experiments::RouterTraceProfile profile = experiments::profile_router_trace(options.input);
    fmt::print("{}", options.json ? experiments::router_profile_node(profile).dump(2) + "\n"
                                  : experiments::router_profile_text(profile));
    return 0;
  }
  const auto source = open(systems, options);
  const traces::TraceSummary summary = traces::inspect(*source);
  if (options.json) {
    fmt::print("{}\n", traces::summary_node(summary).dump(2));
    return 0;
  }
  fmt::print("requests      {}\n", summary.requests);
  if (summary.skipped.total() > 0) fmt::print("skipped lines {}\n", summary.skipped.text());
  if (summary.has_arrivals) {
    fmt::print("span          {:.6g} s\nrate          {:.4g} requests/s\ngaps' CV      {:.4g}\n", summary.span_s,
               summary.rate_per_s, summary.gap_cv);
  } else {
    fmt::print("arrivals      none: give workload.arrivals to draw them\n");
  }
  if (summary.sessions_named > 0) fmt::print("in sessions   {}\n", summary.sessions_named);
  if (summary.prefixes_given > 0) fmt::print("with prefixes {}\n", summary.prefixes_given);
  fmt::print("\n{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "tokens", "mean", "p50", "p90", "p99", "max");
  for (const auto& [name, l] :
       {std::pair{"prompt", summary.prompt}, {"output", summary.output}, {"total", summary.total}})
    fmt::print("{:<14}{:>10.1f}{:>10.0f}{:>10.0f}{:>10.0f}{:>10}\n", name, l.mean, l.p50, l.p90, l.p99, l.max);
  return 0;
}

/// Throws sim::ConfigError if the output is there and is not to be replaced.
void check_output(const TraceOptions& options) {
  if (std::filesystem::exists(options.output) && !options.force)
    sim::throw_fault({options.output, ""}, "expected a file that does not exist yet", "give --force to replace it");
}

int write_router(const traces::RouterTrace& trace, const TraceOptions& options) {
  check_output(options);
  if (!options.output_format.empty())
    sim::throw_fault({"--to", ""}, "a router trace is written by the name's ending: .csv, else binary");
  traces::write_router_trace(trace, options.output);
  fmt::print(stderr, "{}: {} tokens, {} layers\n", options.output, trace.tokens(), trace.layers.size());
  return 0;
}

int write(traces::TraceSource& source, const TraceOptions& options) {
  check_output(options);
  std::string format = options.output_format;
  if (format.empty()) {
    if (options.output.ends_with(".csv")) format = "orrery_csv";
    if (options.output.ends_with(".jsonl")) format = "orrery_jsonl";
    if (format.empty())
      sim::throw_fault({options.output, ""}, "expected a name that ends in .csv or .jsonl",
                       "or give the format with --to");
  }
  const traces::WrittenTrace written = traces::write_trace(source, format, options.output);
  fmt::print(stderr, "{}: {} requests ({})\n", options.output, written.records, format);
  if (source.skipped().total() > 0) fmt::print(stderr, "note: skipped lines: {}\n", source.skipped().text());
  return 0;
}

int convert(const Systems& systems, const TraceOptions& options) {
  if (options.input_format.empty() && traces::is_router_trace(options.input))
    return write_router(traces::read_router_trace(options.input), options);
  const auto source = open(systems, options);
  return write(*source, options);
}

int generate(const Systems& systems, const TraceOptions& options) {
  sim::Faults faults;
  const sim::Node node = sim::read_config(options.input);
  if (node.find("router") != nullptr)
    return write_router(traces::generate_router_trace(experiments::read_router_generator(node),
                                                      static_cast<std::uint64_t>(options.seed)),
                        options);
  const traces::GeneratorParams generator = traces::parse_generator(node, *systems.registries(), faults);
  faults.throw_if_any();
  const auto source = traces::make_generated_trace(generator, static_cast<std::uint64_t>(options.seed));
  return write(*source, options);
}

int fit(const Systems& systems, const FitOptions& options) {
  const experiments::RouterFitAnswer answer = experiments::fit_router_trace(options.params, systems);
  fmt::print("{}",
             options.json ? experiments::router_fit_node(answer).dump(2) + "\n" : experiments::router_fit_text(answer));
  if (!options.params.out.empty()) fmt::print(stderr, "wrote {}\n", options.params.out);
  return 0;
}

void add_input(CLI::App& command, TraceOptions& options) {
  command.add_option("TRACE", options.input, "Trace file")->required();
  command.add_option("--format", options.input_format, "Format of the trace (default: recognised by its first line)");
  command.add_flag("--skip-faults", options.skip_faults, "Skip and count faulty lines instead of stopping");
}

void add_output(CLI::App& command, TraceOptions& options) {
  command.add_option("OUTPUT", options.output, "File to write")->required();
  command.add_option("--to", options.output_format,
                     "Output format: orrery_csv or orrery_jsonl (default: by the file name's ending)");
  command.add_flag("--force", options.force, "Replace the file if it exists");
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* trace = app.add_subcommand("trace", "Inspect, convert or generate traces, or fit a generator to one");
  trace->require_subcommand(1);
  auto options = std::make_shared<TraceOptions>();

  CLI::App* inspect_command = trace->add_subcommand(
      "inspect", "Print rates and lengths of a trace, or expert reuse and unions of a router trace");
  add_input(*inspect_command, *options);
  inspect_command->add_flag("--json", options->json, "Print JSON");
  inspect_command->callback(
      [options, &action] { action = [options](const Systems& systems) { return inspect(systems, *options); }; });

  CLI::App* convert_command = trace->add_subcommand("convert", "Convert a trace to one of Orrery's own formats");
  add_input(*convert_command, *options);
  add_output(*convert_command, *options);
  convert_command->callback(
      [options, &action] { action = [options](const Systems& systems) { return convert(systems, *options); }; });

  CLI::App* generate_command = trace->add_subcommand("generate", "Draw a trace from a generator's config");
  generate_command
      ->add_option("CONFIG", options->input, "Generator config (JSON): requests, arrivals, lengths, limits; or router")
      ->required();
  add_output(*generate_command, *options);
  generate_command->add_option("--seed", options->seed, "Seed of the random streams")->check(CLI::NonNegativeNumber);
  generate_command->callback(
      [options, &action] { action = [options](const Systems& systems) { return generate(systems, *options); }; });

  auto fitted = std::make_shared<FitOptions>();
  CLI::App* fit_command = trace->add_subcommand("fit", "Fit a generator to a router trace");
  fit_command->add_option("TRACE", fitted->params.trace, "Router trace (not with --srp)");
  fit_command->add_option("--layer", fitted->params.layer, "Layer of the trace (default: the first)");
  fit_command->add_flag("--drawn", fitted->drawn, "Draw a popularity with the same skew in place of the trace's own");
  fit_command->add_option("--judge", fitted->params.judge, "Another trace to compare the generator with");
  fit_command->add_option("--srp", fitted->params.srp, "Fit only to a model's SRP of 16 tokens (0 to 1)")
      ->check(CLI::Range(0.0, 1.0));
  fit_command->add_option("--experts", fitted->params.experts, "With --srp: experts per layer (128)")
      ->check(CLI::Range(std::int64_t{1}, traces::kMostExpertsOfLayer));
  fit_command->add_option("--top-k", fitted->params.top_k, "With --srp: experts per token (8)")
      ->check(CLI::Range(std::int64_t{1}, traces::kMostExpertsOfLayer));
  fit_command->add_option("--out", fitted->params.out, "File to write the generator to (JSON)");
  fit_command->add_flag("--force", fitted->params.force, "Replace the file if it exists");
  fit_command->add_flag("--json", fitted->json, "Print JSON");
  fit_command->callback([fitted, &action] {
    if (fitted->drawn) fitted->params.popularity = traces::FittedPopularity::drawn;
    action = [fitted](const Systems& systems) { return fit(systems, *fitted); };
  });
}

}  // namespace orrery::tools
