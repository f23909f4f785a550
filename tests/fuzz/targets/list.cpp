#include <array>

#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kAll = {
      Target{"any_trace", [](std::string_view input) { fuzz_trace(input, nullptr); }},
      Target{"azure_llm", [](std::string_view input) { fuzz_trace(input, "azure_llm"); }},
      Target{"burstgpt", [](std::string_view input) { fuzz_trace(input, "burstgpt"); }},
      Target{"candidate", fuzz_candidate},
      Target{"chakra", fuzz_chakra},
      Target{"config", fuzz_config},
      Target{"csv_table", fuzz_csv_table},
      Target{"document", fuzz_document},
      Target{"formula", fuzz_formula},
      Target{"graph_json", fuzz_graph_json},
      Target{"helper", fuzz_helper},
      Target{"hf", fuzz_hf},
      Target{"kineto", fuzz_kineto},
      Target{"mooncake", [](std::string_view input) { fuzz_trace(input, "mooncake"); }},
      Target{"onnx", fuzz_onnx},
      Target{"orrery_csv", [](std::string_view input) { fuzz_trace(input, "orrery_csv"); }},
      Target{"orrery_jsonl", [](std::string_view input) { fuzz_trace(input, "orrery_jsonl"); }},
      Target{"profile", fuzz_profile},
      Target{"proposer", fuzz_proposer},
      Target{"router_trace", fuzz_router_trace},
      Target{"settings", fuzz_settings},
      Target{"store", fuzz_store},
      Target{"study", fuzz_study},
      Target{"symbolic", fuzz_symbolic},
      Target{"training_words", fuzz_training_words},
      Target{"vidur", [](std::string_view input) { fuzz_trace(input, "vidur"); }},
      Target{"vllm_file", fuzz_vllm_file},
      Target{"vllm_log", [](std::string_view input) { fuzz_trace(input, "vllm_log"); }},
      Target{"vllm_words", fuzz_vllm_words},
  };
  return kAll;
}

}  // namespace orrery::fuzz
