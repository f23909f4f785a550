// vidur: the traces of the Vidur simulator (Agrawal et al., MLSys 2024). Seconds from the start; token counts may be
// written as "374.0"; length-only files (arxiv_summarization) have no arrived_at and must be re-timed.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"

namespace orrery::traces::formats {

Format vidur() {
  static constexpr CsvFormat kColumns{
      .arrival = "arrived_at", .arrival_optional = true, .prompt = "num_prefill_tokens", .output = "num_decode_tokens"};
  return {"vidur", "Vidur traces (CSV: [arrived_at,] num_prefill_tokens, num_decode_tokens).",
          [](std::string_view line) {
            return has_columns(line, {"num_prefill_tokens", "num_decode_tokens"});
          },
          [](const TraceParams&) { return make_csv_parser(kColumns); }};
}

}  // namespace orrery::traces::formats
