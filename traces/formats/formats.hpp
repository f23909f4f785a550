// The trace formats: one file each, listed in register_formats (register.cpp).
#pragma once

#include "traces/file_trace.hpp"

namespace orrery::traces::formats {

Format azure_llm();
Format burstgpt();
Format mooncake();
Format orrery_csv();
Format orrery_jsonl();
Format vidur();
Format vllm_log();

}  // namespace orrery::traces::formats
