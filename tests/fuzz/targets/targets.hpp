// The targets, one function each; the file beside has the name of what they read.
#pragma once

#include <string_view>

namespace orrery::fuzz {

// documents.cpp
void fuzz_document(std::string_view input);
void fuzz_settings(std::string_view input);
void fuzz_config(std::string_view input);
void fuzz_study(std::string_view input);
// expressions.cpp
void fuzz_formula(std::string_view input);
void fuzz_symbolic(std::string_view input);
void fuzz_candidate(std::string_view input);
// graphs.cpp
void fuzz_onnx(std::string_view input);
void fuzz_chakra(std::string_view input);
void fuzz_kineto(std::string_view input);
void fuzz_hf(std::string_view input);
void fuzz_graph_json(std::string_view input);
// traces.cpp
void fuzz_azure_llm(std::string_view input);
void fuzz_burstgpt(std::string_view input);
void fuzz_mooncake(std::string_view input);
void fuzz_orrery_csv(std::string_view input);
void fuzz_orrery_jsonl(std::string_view input);
void fuzz_vidur(std::string_view input);
void fuzz_vllm_log(std::string_view input);
void fuzz_any_trace(std::string_view input);
// tables.cpp
void fuzz_csv_table(std::string_view input);
void fuzz_profile(std::string_view input);
// others.cpp
void fuzz_store(std::string_view input);
void fuzz_proposer(std::string_view input);
void fuzz_helper(std::string_view input);
void fuzz_vllm_words(std::string_view input);
void fuzz_vllm_file(std::string_view input);

}  // namespace orrery::fuzz
