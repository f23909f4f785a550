#include <array>

#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kAll = {
      Target{"any_trace", fuzz_any_trace},
      Target{"azure_llm", fuzz_azure_llm},
      Target{"burstgpt", fuzz_burstgpt},
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
      Target{"mooncake", fuzz_mooncake},
      Target{"onnx", fuzz_onnx},
      Target{"orrery_csv", fuzz_orrery_csv},
      Target{"orrery_jsonl", fuzz_orrery_jsonl},
      Target{"profile", fuzz_profile},
      Target{"proposer", fuzz_proposer},
      Target{"settings", fuzz_settings},
      Target{"store", fuzz_store},
      Target{"study", fuzz_study},
      Target{"symbolic", fuzz_symbolic},
      Target{"vidur", fuzz_vidur},
      Target{"vllm_file", fuzz_vllm_file},
      Target{"vllm_log", fuzz_vllm_log},
      Target{"vllm_words", fuzz_vllm_words},
  };
  return kAll;
}

}  // namespace orrery::fuzz
