#include "traces/formats/formats.hpp"

namespace orrery::traces {

void register_formats(FormatTable& table) {
  table.add(formats::azure_llm());
  table.add(formats::vllm_log());  // before vidur, which it shares the columns of lengths with
  table.add(formats::vidur());
  table.add(formats::mooncake());
  table.add(formats::burstgpt());
  table.add(formats::orrery_csv());
  table.add(formats::orrery_jsonl());
}

}  // namespace orrery::traces
