// orrery_jsonl: Orrery's own JSON lines, the format that holds everything a record can carry.
#include "traces/formats/formats.hpp"
#include "traces/jsonl.hpp"

namespace orrery::traces::formats {

Format orrery_jsonl() {
  static constexpr JsonlFormat kKeys{.arrival = "arrived_s",
                                     .prompt = "prompt_tokens",
                                     .output = "output_tokens",
                                     .session = "session",
                                     .prefix = "prefix_blocks",
                                     .extras = true};
  return {"orrery_jsonl",
          "Orrery's JSON lines: arrived_s, prompt_tokens, output_tokens[, session, prefix_blocks, priority, tenant, "
          "predicted_tokens].",
          [](std::string_view line) { return has_key(line, "prompt_tokens") && has_key(line, "output_tokens"); },
          [](const TraceParams&) { return make_jsonl_parser(kKeys); }};
}

}  // namespace orrery::traces::formats
