// Plans of APEX+'s measured runs: what a row's name says, what is covered, and that more ranks decode faster.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/measured.hpp"

namespace test_table_apex {

using namespace orrery;
using namespace orrery::experiments;

namespace {

Predictions predict(const std::string& rows) {
  constexpr const char* kHeader =
      "result_file,trace,requests_logged,mean_ttft_s,mean_tpot_s,sum_latency_s,prompt_tokens,output_tokens\n";
  return experiments::test::predict(*serving_apex_tables(), "serving/apex_8xh100_vllm.csv", kHeader + rows);
}

/// Ten requests of 100 tokens in and 20 out.
std::string row(const std::string& file) {
  return file + ",,10,0.05,0.02,0,1000,200\n";
}

}  // namespace

TEST_CASE("APEX rows: plans from the names, other rows counted with a reason", "[unit]") {
  const Predictions out = predict(row("vllm/results/llama_lmsys_05_validation_8TP.txt") +
                                  row("vllm/results/llama_lmsys_05_validation_2DP4TP_1.txt") +
                                  row("vllm/results/llama_lmsys_05_validation_4DP2TP_0.txt") +
                                  row("sglang/results/mistral_tp_8_lmsys_05_validation.txt") +
                                  "vllm/results/llama_creation_025_validation_4DP2TP_0.txt,,0,,,,,\n" +
                                  row("vllm/results/llama_lmsys_1_validation_8TP.txt"));
  const auto& tpot = out.columns().front();
  REQUIRE(tpot.rows.size() == 3);
  CHECK(tpot.uncovered == 3);
  CHECK(tpot.reasons.size() == 3);
  // 141 GB of weights over 8, 4 and 2 parts of 3.35 TB/s: 5.3, 10.5 and 21 ms a token at least.
  CHECK(tpot.rows[0].predicted > 0.0053);
  CHECK(tpot.rows[1].predicted > std::max(0.0105, tpot.rows[0].predicted));
  CHECK(tpot.rows[2].predicted > std::max(0.021, tpot.rows[1].predicted));
}

TEST_CASE("APEX rows: TTFT stands apart where totals are not what the means say", "[unit]") {
  // Ten requests of TTFT 0.05 s and 20 answers of 0.02 s each: 4.5 s of latencies; 9 are twice that.
  const auto file = "vllm/results/llama_lmsys_05_validation_8TP.txt,,10,0.05,0.02,";
  const auto metrics = [](const Predictions& out) {
    std::vector<std::string> names;
    for (const auto& column : out.columns()) names.push_back(column.metric);
    return names;
  };
  CHECK(metrics(predict(std::string(file) + "4.5,1000,200\n")) == std::vector<std::string>{"tpot", "ttft"});
  CHECK(metrics(predict(std::string(file) + "9,1000,200\n")) ==
        std::vector<std::string>{"tpot", "ttft (totals contradict)"});
}

TEST_CASE("APEX rows: what the engine's mechanisms add", "[unit]") {
  const auto ttft = [](const std::string& file, int prompt) {
    const Predictions out = predict(file + ",,10,0.05,0.02,0," + std::to_string(10 * prompt) + ",200\n");
    return out.columns().at(1).rows.at(0).predicted;
  };
  const std::string llama = "vllm/results/llama_lmsys_05_validation_8TP.txt";
  // 14 ms of the request, and 80 layers whose kernels are launched at 17 us each: about 0.2 ms a layer.
  CHECK(ttft(llama, 40) > 0.014 + 80 * 10 * 17e-6);
  // Prompts of 2,700 tokens come in six chunks, each a launch of the model; in one they would take 0.14 s.
  CHECK(ttft(llama, 2700) > 0.2);
}

TEST_CASE("APEX rows give the same figures again", "[unit]") {
  const std::string one = row("vllm/results/mistral_lmsys_025_validation_8TP_fp8.txt");
  CHECK(predict(one).columns().front().rows.at(0).predicted == predict(one).columns().front().rows.at(0).predicted);
}

}  // namespace test_table_apex
