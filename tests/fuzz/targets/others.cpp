// Stores of studies, what other processes answer, and engine arguments of vLLM.
#include <sstream>
#include <string>
#include <vector>

#include "experiments/evolve/process_source.hpp"
#include "experiments/import/training_args.hpp"
#include "experiments/import/vllm_args.hpp"
#include "experiments/study/protocol.hpp"
#include "experiments/study/results.hpp"
#include "sim/base/document.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {

/// A store is told to be damaged, or it is exported.
void fuzz_store(std::string_view input) {
  const std::filesystem::path file = as_file(input, "study.sqlite");
  std::ostringstream out;
  experiments::study::export_csv(std::span(&file, 1), out);
}

void fuzz_proposer(std::string_view input) {
  experiments::evolve::ProposerCounts counts;
  const auto texts = experiments::evolve::read_answer(std::string(input), 3, 8, counts);
  require(!texts || texts->size() <= 8, "no more candidates than asked for");
  require(texts.has_value() == (counts.answers == 1), "an answer is counted");
  require(texts.has_value() || counts.garbage + counts.stale == 1, "so is another line");
}

/// What a helper that runs points answers to its head.
void fuzz_helper(std::string_view input) {
  const std::vector<experiments::Measure> measures{{"ttft", "ttft_s.p99", {}},
                                                   {"speed", "throughput.output_tokens_per_s", {}}};
  (void)experiments::study::protocol_answer(sim::parse_json(input, "helper"), measures);
}

/// Words of a command line, one a line.
std::vector<std::string> words_of(std::string_view input) {
  std::istringstream lines{std::string(input)};
  std::vector<std::string> words;
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  return words;
}

void fuzz_vllm_words(std::string_view input) {
  (void)experiments::import_vllm(experiments::engine_arguments(words_of(input)), {});
}

/// The same for the programs that people train with, whose arguments no catalog model completes.
void fuzz_training_words(std::string_view input) {
  const experiments::EngineArguments arguments = experiments::launch_arguments(words_of(input));
  const experiments::TrainingImport options{.part = "l40s", .model = "catalog:llama-3.2-1b", .devices = {}};
  (void)experiments::import_megatron(arguments, options);
  (void)experiments::import_torchtitan(arguments, options);
  (void)experiments::import_deepspeed(arguments, options);
}

void fuzz_vllm_file(std::string_view input) {
  (void)experiments::import_vllm(experiments::engine_arguments(as_file(input, "engine.json")), {});
}

}  // namespace orrery::fuzz
