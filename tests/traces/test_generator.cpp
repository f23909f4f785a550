// Generators as a whole: configs, independent streams, re-timing, and the shipped sample.
#include <map>

#include "sim/base/document.hpp"
#include "support.hpp"
#include "traces/summary.hpp"
#include "traces/writer.hpp"

namespace test_generator {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

constexpr const char* kChat = R"({"requests": 500, "arrivals": {"policy": "poisson", "poisson": {"rate": "2 req/s"}},
                                  "lengths": {"policy": "log_normal"}})";

std::vector<TraceRecord> draw(const std::string& json, std::uint64_t seed = 1) {
  return read_all(*make_generated_trace(generator(json), seed));
}

template <class T, class Base>  // prompt_tokens and its like are of a base of the record
std::vector<T> column(const std::vector<TraceRecord>& records, T Base::*field) {
  std::vector<T> values;
  for (const TraceRecord& record : records) values.push_back(record.*field);
  return values;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

const std::string kSamples = std::string(ORRERY_SOURCE_DIR) + "/traces/samples/";

}  // namespace

TEST_CASE("one seed draws one trace, another seed another", "[unit][prop]") {
  CHECK(short_form(draw(kChat)) == short_form(draw(kChat)));
  CHECK(short_form(draw(kChat, 1)) != short_form(draw(kChat, 2)));
  const auto records = draw(kChat);
  CHECK(records.size() == 500);
  CHECK(records[0].line == 1);
  CHECK(records[499].line == 500);
}

TEST_CASE("arrivals and lengths draw from streams of their own", "[unit][prop]") {
  const auto base = draw(kChat);
  const auto other_arrivals = draw(replaced(kChat, R"({"policy": "poisson", "poisson": {"rate": "2 req/s"}})",
                                            R"({"policy": "gamma", "gamma": {"cv": 3}})"));
  CHECK(column(base, &TraceRecord::prompt_tokens) == column(other_arrivals, &TraceRecord::prompt_tokens));
  CHECK(column(base, &TraceRecord::output_tokens) == column(other_arrivals, &TraceRecord::output_tokens));
  CHECK(column(base, &TraceRecord::arrival_ns) != column(other_arrivals, &TraceRecord::arrival_ns));
  const auto other_lengths = draw(replaced(kChat, R"("log_normal")", R"("zipf")"));
  CHECK(column(base, &TraceRecord::arrival_ns) == column(other_lengths, &TraceRecord::arrival_ns));
  // A longer trace begins with the shorter one.
  auto longer = short_form(draw(replaced(kChat, "500", "600")));
  longer.resize(500);
  CHECK(longer == short_form(base));
}

TEST_CASE("a trace is re-timed by an arrival process", "[unit]") {
  const Scratch scratch;
  const std::string path = scratch.file("t", "num_prefill_tokens,num_decode_tokens\n10,1\n20,2\n30,3\nx\n");
  const GeneratorParams config =
      generator(R"({"requests": 1, "lengths": {}, "arrivals": {"policy": "fixed", "fixed": {"rate": "4 req/s"}}})");
  const auto source = retime(open_trace({.path = path, .on_error = OnError::skip}, all_formats()), config.arrivals, 1);
  CHECK(source->columns().arrivals);
  CHECK(short_form(read_all(*source)) ==
        std::vector<std::string>{"250000000/10/1", "500000000/20/2", "750000000/30/3"});
  CHECK(source->skipped().total() == 1);
  // The same process and seed give the same arrivals to a trace as to a generator.
  const GeneratorParams chat = generator(kChat);
  const auto retimed = retime(make_generated_trace(config, 9), chat.arrivals, 1);
  CHECK(read_all(*retimed)[0].arrival_ns == draw(kChat)[0].arrival_ns);
}

TEST_CASE("a generator is written as it was read", "[unit]") {
  const GeneratorParams config = generator(R"({"requests": 7, "limits": {"total_max": 99},
      "arrivals": {"gamma": {"cv": 2}, "policy": "gamma"}, "lengths": {"policy": "uniform"}})");
  const std::string text = orrery::sim::write_params(config).dump();
  CHECK(orrery::sim::write_params(generator(text)).dump() == text);
  CHECK(text.find(R"("arrivals":{"policy":"gamma","gamma":{"rate":"1 1/s","cv":2)") != std::string::npos);
}

TEST_CASE("all faults of a generator are told at once", "[unit]") {
  CHECK(fault_of([] {
          generator(R"({"request": 5, "limits": {"total": 1}, "arrivals": {"policy": "poison"},
                        "lengths": {"policy": "fixed", "fixed": {"prompt": 0}}})");
        }) ==
        "g.json:/request: unknown key 'request' (did you mean 'requests'?)\n"
        "g.json:/requests: missing: expected a whole number\n"
        "g.json:/limits/total: unknown key 'total' (did you mean 'total_max'?)\n"
        "g.json:/arrivals/policy: unknown arrivals policy 'poison' (did you mean 'poisson'?)\n"
        "g.json:/lengths/fixed/prompt: expected 1 to 1000000000, got 0");
  CHECK(fault_of([] { generator(R"({"requests": 0})"); }) ==
        "g.json:/requests: expected >= 1, got 0\n"
        "g.json:/arrivals: missing: expected a policy block (such as {\"policy\": \"poisson\"})\n"
        "g.json:/lengths: missing: expected a policy block (such as {\"policy\": \"log_normal\"})");
  CHECK(fault_of([] { generator("[]"); }) == "g.json: expected an object, got an array");
  CHECK(fault_of([] { generator(R"({"requests": 1, "lengths": {}, "arrivals": {"poisson": {"rate": 2}}})"); }) ==
        "g.json:/arrivals/poisson/rate: expected a quantity in 1/s such as \"2.5 req/s\", got 2");
}

TEST_CASE("generated prefixes are paths of one tree, before the prompts that are drawn without them", "[unit][prop]") {
  const auto base = draw(kChat);
  const auto with =
      draw(replaced(kChat, "\"lengths\"", R"("prefixes": {"depth": 3, "fanout": 4, "node_blocks": 2}, "lengths")"));
  REQUIRE(with.size() == base.size());
  CHECK(column(base, &TraceRecord::output_tokens) == column(with, &TraceRecord::output_tokens));
  CHECK(column(base, &TraceRecord::arrival_ns) == column(with, &TraceRecord::arrival_ns));
  std::map<std::int64_t, std::int64_t> parent;  // of a block: the one before it, always the same
  std::map<std::int64_t, std::int64_t> leaves;
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK(base[i].prefix_blocks.empty());
    // 3 nodes of 2 blocks of 512 tokens
    CHECK(with[i].prompt_tokens == base[i].prompt_tokens + 3072);
    REQUIRE(with[i].prefix_blocks.size() == 6);
    std::int64_t before = -1;
    for (const std::int64_t block : with[i].prefix_blocks) {
      CHECK(parent.try_emplace(block, before).first->second == before);
      before = block;
    }
    ++leaves[before];
  }
  // 4 + 16 + 64 nodes. 500 draws out of 64 leaves: 7.8 each, 0.02 leaves are missed on average, and a count has a
  // standard deviation of 2.8.
  CHECK(leaves.size() == 64);
  CHECK(parent.size() == 2 * 84);
  for (const auto& [leaf, count] : leaves) CHECK(count < 25);  // 6 of them up
  CHECK(draw(kChat)[0].prefix_blocks.empty());
}

TEST_CASE("a tree of prefixes is written as read, and must not have too many leaves", "[unit]") {
  const auto tree = [](const std::string& json) {
    return replaced(kChat, "\"lengths\"", "\"prefixes\": " + json + ", \"lengths\"");
  };
  const GeneratorParams config = generator(tree(R"({"depth": 2, "fanout": 1000000})"));
  CHECK(make_generated_trace(config, 1)->columns().prefixes);
  CHECK(orrery::sim::write_params(generator(orrery::sim::write_params(config).dump())).dump() ==
        orrery::sim::write_params(config).dump());
  CHECK(fault_of([&] { generator(tree(R"({"depth": 3, "fanout": 100000})")); }) ==
        "g.json:/prefixes: expected at most 1000000000000 leaves, got 100000 to the power of 3");
  CHECK(fault_of([&] { generator(tree(R"({"depth": 17})")); }).find("g.json:/prefixes/depth: expected 0 to 16") == 0);
}

TEST_CASE("the registries list every policy", "[unit]") {
  const orrery::sim::RegistrySet registries = all_registries();
  CHECK(registries.get<ArrivalRegistry>().names() ==
        std::vector<std::string>{"at_once", "diurnal", "fixed", "gamma", "poisson", "windowed_gamma"});
  CHECK(registries.get<LengthRegistry>().names() == std::vector<std::string>{"burstgpt", "empirical", "fixed",
                                                                             "geometric", "log_normal", "quantiles",
                                                                             "rank_power", "uniform", "zipf"});
}

TEST_CASE("the shipped sample is what its generator draws with seed 1", "[unit]") {
  const GeneratorParams config = generator(read_bytes(kSamples + "chat-2000.generator.json"));
  std::string drawn;
  const WrittenTrace written =
      write_trace(*make_generated_trace(config, 1), "orrery_csv", [&](std::string_view bytes) { drawn += bytes; });
  CHECK(written.records == 2000);
  CHECK((drawn == read_bytes(kSamples + "chat-2000.csv")));  // no expansion of 50 kB when it differs
}

TEST_CASE("the shipped sample looks like chat", "[unit]") {
  const TraceSummary summary = inspect(*open_trace({.path = kSamples + "chat-2000.csv"}, all_formats()));
  CHECK(summary.requests == 2000);
  CHECK(summary.rate_per_s == Approx(2).epsilon(0.1));  // 3 deviations of 1.5 / sqrt(2000)
  CHECK(summary.gap_cv == Approx(1.5).epsilon(0.12));
  CHECK(summary.prompt.mean == Approx(600).epsilon(0.08));
  CHECK(summary.output.mean == Approx(220).epsilon(0.08));
  CHECK(summary.total.max <= 4096);
}

}  // namespace test_generator
