// Reading traces: lines a second of CPU time, from a file in the page cache.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "experiments/systems/serving/config/config.hpp"
#include "tests/systems.hpp"

namespace {

using namespace orrery;

void read_trace(benchmark::State& state, const char* format, const std::string& header, const std::string& line) {
  const auto path = std::filesystem::temp_directory_path() / ("orrery-bench-" + std::to_string(getpid()));
  constexpr int kLines = 200'000;
  {
    std::ofstream file(path);
    file << header;
    for (int i = 0; i < kLines; ++i) file << line;
  }
  std::int64_t records = 0;
  for (auto _ : state) {
    traces::TraceParams params;
    params.path = path.string();
    params.format = format;
    const auto source = traces::open_trace(params, test_systems().registry<traces::FormatTable>());
    traces::TraceRecord record;
    while (source->next(record)) ++records;
  }
  state.SetItemsProcessed(records);
  std::filesystem::remove(path);
}
BENCHMARK_CAPTURE(read_trace, orrery_csv, "orrery_csv", "arrived_s,prompt_tokens,output_tokens\n",
                  "1234.567891,1020,211\n");
BENCHMARK_CAPTURE(read_trace, azure_llm, "azure_llm", "TIMESTAMP,ContextTokens,GeneratedTokens\n",
                  "2023-11-16 18:15:46.6805900,374,44\n");
BENCHMARK_CAPTURE(read_trace, mooncake, "mooncake", "",
                  "{\"timestamp\": 27482, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 14, 15, "
                  "16, 17, 18, 19]}\n");

}  // namespace

BENCHMARK_MAIN();
