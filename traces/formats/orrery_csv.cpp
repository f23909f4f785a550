// orrery_csv: Orrery's own table. arrived_s in decimal seconds, exact to the nanosecond; it may be missing (length-only
// traces), and so may session, prefix_blocks, priority, tenant and predicted_tokens.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"

namespace orrery::traces::formats {

Format orrery_csv() {
  static constexpr CsvFormat kColumns{.arrival = "arrived_s",
                                      .arrival_optional = true,
                                      .prompt = "prompt_tokens",
                                      .output = "output_tokens",
                                      .session = "session",
                                      .extras = true};
  return {"orrery_csv",
          "Orrery's table (CSV: [arrived_s,] prompt_tokens, output_tokens[, session, prefix_blocks, priority, tenant, "
          "predicted_tokens]).",
          [](std::string_view line) {
            return has_columns(line, {"prompt_tokens", "output_tokens"});
          },
          [](const TraceParams&) { return make_csv_parser(kColumns); }};
}

}  // namespace orrery::traces::formats
