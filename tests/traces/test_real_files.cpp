// Published traces, where the shared data folder is at hand.
#include <filesystem>

#include "support.hpp"
#include "traces/summary.hpp"

namespace test_real_files {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

const std::string kTraces = std::string(ORRERY_SHARED_DIR) + "/data/traces/";

bool absent() {
  if (std::filesystem::exists(kTraces)) return false;
  WARN("skipped: no published traces under " << kTraces);
  return true;
}

TraceSummary summary_of(const TraceParams& params) {
  return inspect(*open_trace(params, all_formats()));
}

}  // namespace

TEST_CASE("the Azure 2023 traces are read whole", "[unit]") {
  if (absent()) return;
  const std::string conv = kTraces + "azure_llm_2023/AzureLLMInferenceTrace_conv.csv";
  std::int64_t past_4096 = 0;
  const auto records = read_all({.path = conv, .format = "azure_llm"});
  for (const TraceRecord& record : records) past_4096 += record.prompt_tokens + record.output_tokens > 4096 ? 1 : 0;
  CHECK(records.size() == 19'366);
  CHECK(past_4096 == 1'612);
  // Second line 18:15:50.9951690, first 18:15:46.6805900: 4.3145790 s.
  CHECK(records[1].arrival_ns == 4'314'579'000);
  // Last line 19:14:08.4025270: 58 min 21.7219370 s after the first.
  CHECK(records.back().arrival_ns == (58 * 60 + 21) * 1'000'000'000LL + 721'937'000);

  const TraceSummary code = summary_of({.path = kTraces + "azure_llm_2023/AzureLLMInferenceTrace_code.csv"});
  CHECK(code.requests == 8'819);
  CHECK(code.span_s == Approx(3435.948056).epsilon(1e-12));  // 18:17:03.9799600 to 19:14:19.9280160
}

TEST_CASE("the Vidur traces are read, stray line and all", "[unit]") {
  if (absent()) return;
  const std::string conv = kTraces + "vidur/splitwise_conv.csv";
  CHECK_THAT(fault_of({.path = conv}), Catch::StartsWith(conv + ":19228: expected 3 fields"));
  const TraceSummary skipping = summary_of({.path = conv, .on_error = OnError::skip});
  CHECK(skipping.requests == 19'226);
  CHECK(skipping.skipped.of(SkipReason::malformed) == 1);
  CHECK(skipping.skipped.total() == 1);
  CHECK(summary_of({.path = kTraces + "vidur/splitwise_code.csv"}).requests == 8'819);
  CHECK(summary_of({.path = kTraces + "vidur_bench/conv2000_x2.csv"}).requests == 2'000);
  const TraceSummary arxiv =
      summary_of({.path = kTraces + "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv"});
  CHECK(arxiv.requests == 28'257);
  CHECK_FALSE(arxiv.has_arrivals);
}

TEST_CASE("the Mooncake traces are read with their prefixes", "[unit]") {
  if (absent()) return;
  const TraceSummary conversation = summary_of({.path = kTraces + "mooncake/conversation_trace.jsonl"});
  CHECK(conversation.requests == 12'031);
  CHECK(conversation.prefixes_given == 12'031);
  const auto synthetic = read_all({.path = kTraces + "mooncake/synthetic_trace.jsonl"});
  REQUIRE(synthetic.size() == 3'993);
  CHECK(synthetic[0].prompt_tokens == 40'160);
  CHECK(synthetic[0].prefix_blocks.size() == 79);  // ceil(40160 / 512)
}

}  // namespace test_real_files
