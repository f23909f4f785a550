// Requests as a client logged them against a running engine: when each was sent, its lengths, when its tokens came.
//
// Three formats, told apart by their content:
//   vLLM    the JSON file of `vllm bench serve --save-result --save-detailed` (arrays input_lens, output_lens, ttfts,
//           itls, start_times; seconds)
//   SGLang  a line of the JSONL file of `sglang.bench_serving --output-details` (the same arrays)
//   CSV     arrived_at, num_prefill_tokens, num_decode_tokens, first_token_at, last_token_at, in s
// Requests that failed (no first token) are left out and counted; what they took from others is not known.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace orrery::experiments {

struct LoggedRequest {
  double arrived_s = 0;  ///< since the first one
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  double first_token_s = 0, last_token_s = 0;  ///< since its arrival
};

struct RequestLog {
  std::string format;                   ///< "JSON of a benchmark", "CSV"
  std::vector<LoggedRequest> requests;  ///< by arrival
  std::size_t failed = 0;
};

/// Reads a log. Throws sim::ConfigError with the faults of the file, and where fewer than kFewestLogged are left.
RequestLog read_request_log(const std::filesystem::path& file);

inline constexpr std::size_t kFewestLogged = 30;

}  // namespace orrery::experiments
