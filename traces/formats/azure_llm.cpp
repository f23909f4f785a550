// azure_llm: the Azure LLM inference traces (Patel et al., "Splitwise", ISCA 2024;
// github.com/Azure/AzurePublicDataset). TIMESTAMP is the time of day in UTC with 100 ns digits; records count from the
// first one.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"

namespace orrery::traces::formats {

Format azure_llm() {
  static constexpr CsvFormat kColumns{
      .arrival = "TIMESTAMP", .clock = CsvFormat::Clock::utc, .prompt = "ContextTokens", .output = "GeneratedTokens"};
  return {"azure_llm", "Azure LLM inference traces (CSV: TIMESTAMP, ContextTokens, GeneratedTokens).",
          [](std::string_view line) {
            return has_columns(line, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"});
          },
          [](const TraceParams&) { return make_csv_parser(kColumns); }};
}

}  // namespace orrery::traces::formats
