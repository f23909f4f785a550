// `orrery import vllm ARGS…`: the arguments of an engine as a serving config on stdout (docs/questions.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/import/vllm_args.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct ImportCommand {
  std::string file, part, model, trace;
  std::vector<std::string> words;
};

int import_engine(const ImportCommand& options) {
  using namespace experiments;
  EngineArguments arguments;
  if (!options.file.empty()) arguments = engine_arguments(std::filesystem::path(options.file));
  for (auto& [name, value] : engine_arguments(options.words)) arguments[name] = value;
  const auto given = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  const ImportedConfig imported =
      import_vllm(arguments, {given(options.part), given(options.model), given(options.trace)});
  fmt::print("{}\n", imported.config.dump(2));
  for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::string& argument : imported.ignored) fmt::print(stderr, "not carried over: {}\n", argument);
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Action& action) {
  CLI::App* import = app.add_subcommand("import", "Turn a real engine's arguments into a config");
  import->require_subcommand(1);
  auto options = std::make_shared<ImportCommand>();
  CLI::App* vllm = import->add_subcommand("vllm", "vLLM: engine arguments after --, or a JSON file of them");
  vllm->add_option("--file", options->file, "JSON: engine arguments, or metadata with engine_kwargs, resolved_config");
  vllm->add_option("--part", options->part, "Part of the catalog (default: by the metadata's device name)");
  vllm->add_option("--model-config", options->model, "The model's config.json, or \"catalog:NAME\"");
  vllm->add_option("--trace", options->trace, "Request log to replay (format vllm_log)");
  vllm->add_option("ARGS", options->words, "As on vLLM's command line: -- --model NAME --max-num-seqs 256 …");
  vllm->callback([options, &action] { action = [options](const Systems&) { return import_engine(*options); }; });
}

}  // namespace orrery::tools
