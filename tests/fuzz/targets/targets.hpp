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
// traces.cpp: of a format by name; null: of any, by the first line
void fuzz_trace(std::string_view input, const char* format);
void fuzz_router_trace(std::string_view input);
// tables.cpp
void fuzz_csv_table(std::string_view input);
void fuzz_profile(std::string_view input);
// others.cpp
void fuzz_store(std::string_view input);
void fuzz_proposer(std::string_view input);
void fuzz_helper(std::string_view input);
void fuzz_training_words(std::string_view input);
void fuzz_vllm_words(std::string_view input);
void fuzz_vllm_file(std::string_view input);

}  // namespace orrery::fuzz
