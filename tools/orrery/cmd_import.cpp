// `orrery import PROGRAM ARGS…`: what an engine or a training run was started with, as a config on stdout
// (docs/how-to/vllm-config.md, docs/how-to/training-config.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/import/training_args.hpp"
#include "experiments/import/vllm_args.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct ImportCommand {
  std::string file, part, model, trace;
  std::vector<std::string> words;
};

int tell(const experiments::ImportedConfig& imported) {
  fmt::print("{}\n", imported.config.dump(2));
  for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::string& argument : imported.ignored) fmt::print(stderr, "not carried over: {}\n", argument);
  return 0;
}

int import_engine(const ImportCommand& options) {
  using namespace experiments;
  EngineArguments arguments;
  if (!options.file.empty()) arguments = engine_arguments(std::filesystem::path(options.file));
  for (auto& [name, value] : engine_arguments(options.words)) arguments[name] = value;
  const auto given = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  const ImportedConfig imported =
      import_vllm(arguments, {given(options.part), given(options.model), given(options.trace)});
  return tell(imported);
}

struct TrainingCommand {
  std::string file, part, model;
  std::int64_t devices = 0;
  std::vector<std::string> words;
};

using ImportTraining = experiments::ImportedConfig (*)(const experiments::EngineArguments&,
                                                       const experiments::TrainingImport&);

int import_training(ImportTraining import, const TrainingCommand& options) {
  const auto given = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  return tell(import(experiments::launch_arguments(options.file, options.words),
                     {given(options.part), given(options.model),
                      options.devices > 0 ? std::optional(options.devices) : std::nullopt}));
}

void add_training(CLI::App& import, Action& action, const char* name, const char* doc, ImportTraining reader) {
  auto options = std::make_shared<TrainingCommand>();
  CLI::App* command = import.add_subcommand(name, doc);
  command->add_option("--file", options->file, "JSON file of arguments; nested ones by their path");
  command->add_option("--part", options->part, "Part from the catalog (default: h100-sxm5-80gb)");
  command->add_option("--devices", options->devices, "Number of devices (default: as the arguments say)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--model-config", options->model, "Model, \"catalog:NAME\" or a config.json, in place of sizes");
  command->add_option("ARGS", options->words, "Arguments as on the program's command line, after --");
  command->callback([options, reader, &action] {
    action = [options, reader](const Systems&) { return import_training(reader, *options); };
  });
}

}  // namespace

void add_import(CLI::App& app, Action& action) {
  CLI::App* import = app.add_subcommand("import", "Turn the arguments of an engine or of a training run into a config");
  import->require_subcommand(1);
  auto options = std::make_shared<ImportCommand>();
  CLI::App* vllm = import->add_subcommand("vllm", "vLLM: engine arguments after --, or a JSON file of them");
  vllm->add_option("--file", options->file,
                   "JSON file of engine arguments, or of metadata with engine_kwargs and resolved_config");
  vllm->add_option("--part", options->part, "Part from the catalog (default: by the device name in the metadata)");
  vllm->add_option("--model-config", options->model, "Model: its config.json, or \"catalog:NAME\"");
  vllm->add_option("--trace", options->trace, "Request log to replay (format vllm_log)");
  vllm->add_option("ARGS", options->words, "Arguments as on vLLM's command line: -- --model NAME --max-num-seqs 256 …");
  vllm->callback([options, &action] { action = [options](const Systems&) { return import_engine(*options); }; });
  add_training(*import, action, "megatron", "Megatron-LM: arguments of pretrain_gpt.py after --",
               experiments::import_megatron);
  add_training(*import, action, "deepspeed", "DeepSpeed: its config by --file, with --model-config",
               experiments::import_deepspeed);
  add_training(*import, action, "torchtitan", "torchtitan: arguments after --", experiments::import_torchtitan);
}

}  // namespace orrery::tools
