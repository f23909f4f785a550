// burstgpt: the BurstGPT traces (Wang et al., KDD 2025; github.com/HPMLL/BurstGPT). Timestamp is in seconds from the
// start of the collection, kept as given. Some parts carry a session and an elapsed time, others do not. Requests with
// no response tokens failed where they were recorded: they are skipped and counted, or faults, as `failed` says.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"

namespace orrery::traces::formats {

Format burstgpt() {
  static constexpr CsvFormat kColumns{
      .arrival = "Timestamp", .prompt = "Request tokens", .output = "Response tokens", .session = "Session ID"};
  return {"burstgpt", "BurstGPT traces (CSV: Timestamp, Request tokens, Response tokens[, Session ID]).",
          [](std::string_view line) {
            return has_columns(line, {"Timestamp", "Request tokens", "Response tokens"});
          },
          [](const TraceParams& params) {
            CsvFormat columns = kColumns;
            columns.zero_output_is_failed = params.failed == OnFailed::skip;
            columns.zero_output_is_sent = params.failed == OnFailed::send;
            return make_csv_parser(columns);
          }};
}

}  // namespace orrery::traces::formats
