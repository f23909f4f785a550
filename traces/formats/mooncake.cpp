// mooncake: the traces of Mooncake (Qin et al., FAST 2025), one JSON object a line. The timestamp is in milliseconds;
// hash_ids name the prompt's blocks of 512 tokens, equal where the text up to the end of the block is equal.
#include "traces/formats/formats.hpp"
#include "traces/jsonl.hpp"

namespace orrery::traces::formats {

Format mooncake() {
  static constexpr JsonlFormat kKeys{.arrival = "timestamp",
                                     .arrival_shift = 6,
                                     .prompt = "input_length",
                                     .output = "output_length",
                                     .prefix = "hash_ids"};
  return {"mooncake", "Mooncake traces (JSON lines: timestamp in ms, input_length, output_length[, hash_ids]).",
          [](std::string_view line) { return has_key(line, "input_length") && has_key(line, "output_length"); },
          [](const TraceParams&) { return make_jsonl_parser(kKeys); }};
}

}  // namespace orrery::traces::formats
