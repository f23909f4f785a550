// orrery_csv: Orrery's own table. arrived_s in decimal seconds, exact to the nanosecond; session is optional, and so is
// arrived_s, for length-only traces.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"

namespace orrery::traces::formats {

Format orrery_csv() {
  static constexpr CsvFormat kColumns{.arrival = "arrived_s",
                                      .arrival_optional = true,
                                      .prompt = "prompt_tokens",
                                      .output = "output_tokens",
                                      .session = "session"};
  return {"orrery_csv", "Orrery's table (CSV: [arrived_s,] prompt_tokens, output_tokens[, session])",
          [](std::string_view line) {
            return has_columns(line, {"prompt_tokens", "output_tokens"});
          },
          [](const TraceParams&) { return make_csv_parser(kColumns); }};
}

}  // namespace orrery::traces::formats
