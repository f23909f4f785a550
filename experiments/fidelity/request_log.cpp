#include "experiments/fidelity/request_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "sim/base/document.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

/// One of the arrays of a benchmark's result, or a fault that says how to get it.
const Node* array_of(const Node& root, const char* name, sim::Faults& faults) {
  const Node* found = root.find(name);
  if (found != nullptr && found->is_array()) return found;
  faults.add(root.origin_of(name), fmt::format("expected an array '{}', one number a request", name),
             "`vllm bench serve --save-result --save-detailed` and `sglang.bench_serving --output-details` write it");
  return nullptr;
}

double number_at(const Node& array, std::size_t i, sim::Faults& faults) {
  const Node& item = array.items()[i];
  if (item.is_number()) return item.as_number();
  faults.add(item.origin(), fmt::format("expected a number, got {}", item.shown()));
  return 0;
}

/// Time from the first token to the last: the sum of the gaps.
double gaps_of(const Node& gaps, sim::Faults& faults) {
  if (!gaps.is_array()) {
    faults.add(gaps.origin(), fmt::format("expected a list of gaps, got {}", gaps.shown()));
    return 0;
  }
  double sum = 0;
  for (std::size_t i = 0; i < gaps.items().size(); ++i) sum += number_at(gaps, i, faults);
  return sum;
}

RequestLog from_benchmark(const Node& root) {
  sim::Faults faults;
  const Node *prompts = array_of(root, "input_lens", faults), *outputs = array_of(root, "output_lens", faults),
             *ttfts = array_of(root, "ttfts", faults), *gaps = array_of(root, "itls", faults),
             *starts = array_of(root, "start_times", faults);
  faults.throw_if_any();
  const std::size_t count = ttfts->items().size();
  for (const Node* array : {prompts, outputs, gaps, starts})
    if (array->items().size() != count)
      faults.add(array->origin(),
                 fmt::format("expected as many numbers as 'ttfts' has, {}, got {}", count, array->items().size()));
  faults.throw_if_any();
  RequestLog log{"JSON of a benchmark", {}, 0};
  for (std::size_t i = 0; i < count; ++i) {
    LoggedRequest r{number_at(*starts, i, faults), static_cast<std::int64_t>(number_at(*prompts, i, faults)),
                    static_cast<std::int64_t>(number_at(*outputs, i, faults)), number_at(*ttfts, i, faults), 0};
    r.last_token_s = r.first_token_s + gaps_of(gaps->items()[i], faults);
    log.requests.push_back(r);
  }
  faults.throw_if_any();
  return log;
}

RequestLog from_csv(const std::filesystem::path& file) {
  const sim::CsvTable table = sim::CsvTable::read(file.parent_path(), file.filename().string());
  RequestLog log{"CSV", {}, 0};
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double arrived = table.number(row, "arrived_at");
    log.requests.push_back({arrived, table.count(row, "num_prefill_tokens"), table.count(row, "num_decode_tokens"),
                            table.number(row, "first_token_at") - arrived,
                            table.number(row, "last_token_at") - arrived});
  }
  return log;
}

/// Drops what failed, and lets time begin with the first request.
void settle(const std::filesystem::path& file, RequestLog& log) {
  log.failed = std::erase_if(log.requests, [](const LoggedRequest& r) {
    return !(r.first_token_s > 0) || r.prompt_tokens <= 0 || r.output_tokens <= 0 ||
           !(r.last_token_s >= r.first_token_s);
  });
  if (log.requests.size() < kFewestLogged)
    sim::throw_fault({file.string(), ""}, fmt::format("expected at least {} requests that were answered, got {}",
                                                      kFewestLogged, log.requests.size()));
  std::stable_sort(log.requests.begin(), log.requests.end(),
                   [](const LoggedRequest& a, const LoggedRequest& b) { return a.arrived_s < b.arrived_s; });
  const double first = log.requests.front().arrived_s;
  for (LoggedRequest& r : log.requests) r.arrived_s -= first;
}

}  // namespace

RequestLog read_request_log(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) sim::throw_fault({file.string(), ""}, "cannot be read");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  RequestLog log;
  if (start != std::string::npos && text[start] == '{') {
    // The last line of a JSONL file is the last run; a document of several lines is one.
    const std::size_t end = text.find_last_not_of(" \t\r\n"), line = text.rfind("\n{", end);
    if (line != std::string::npos && text[end] == '}') text = text.substr(line + 1);
    log = from_benchmark(sim::parse_json(text, file.string()));
  } else {
    log = from_csv(file);
  }
  settle(file, log);
  return log;
}

}  // namespace orrery::experiments
