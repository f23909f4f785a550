// The command as a user meets it: results, faults, exit codes, what is written and what is not.
#include <catch2/catch.hpp>

#include "sim/base/document.hpp"
#include "tests/experiments/support.hpp"

namespace test_cli {

using namespace orrery;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// Runs a config that is faulty and checks: exit code 2, the message, nothing written.
void check_refused(const Scratch& scratch, const std::string& arguments, const std::string& message) {
  const CommandResult result = command(scratch, "run " + arguments + " --out result");
  CAPTURE(arguments, result.err, result.out);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains(message));
  CHECK(result.out.empty());
  CHECK_FALSE(fs::exists(scratch / "result"));
  CHECK_FALSE(fs::exists(scratch / "runs"));
  for (const auto& entry : fs::directory_iterator(scratch / ""))
    CHECK_FALSE(entry.path().filename().string().starts_with(".result"));
}

Scratch& with_trace(Scratch& scratch) {
  scratch.write("trace.csv", small_trace());
  return scratch;
}

}  // namespace

TEST_CASE("a run writes one whole folder and a table", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  const CommandResult result = command(scratch, "run c.json --out result");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("10 arrived, 10 completed, 0 rejected"));
  CHECK_THAT(result.out, Contains("TTFT"));
  for (const char* file : {"manifest.json", "summary.json", "requests.csv", "series.csv", "energy.csv",
                           "distributions.csv", "timeline.pftrace"})
    CHECK(fs::file_size(scratch / "result" / file) > 0);
  const sim::Node summary = sim::read_json(scratch / "result" / "summary.json");
  CHECK(summary.find("status")->as_string() == "ok");
  CHECK(summary.find("requests")->find("completed")->as_integer() == 10);
  const sim::Node manifest = sim::read_json(scratch / "result" / "manifest.json");
  for (const char* key :
       {"config", "config_hash", "seed", "version", "build", "compiler", "host", "wall_s", "events", "inputs"})
    CHECK(manifest.find(key) != nullptr);
  // The resolved config is a config.
  scratch.write("again.json", manifest.find("config")->dump(2));
  CHECK(command(scratch, "validate again.json").exit_code == 0);
}

TEST_CASE("the same run is reused, another in its place refused, --force replaces", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  REQUIRE(command(scratch, "run c.json").exit_code == 0);
  const CommandResult again = command(scratch, "run c.json");
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, Contains("holds this very run already; reused"));
  CHECK_THAT(again.out, Contains("10 arrived"));

  fs::create_directory(scratch / "taken");
  scratch.write("taken/mine.txt", "precious");
  const CommandResult refused = command(scratch, "run c.json --out taken");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("taken: expected a folder that does not exist yet (give --force to replace it)"));
  CHECK(slurp(scratch / "taken/mine.txt") == "precious");
  // --force replaces runs, not what somebody else keeps there.
  const CommandResult forced = command(scratch, "run c.json --seed 2 --out taken --force");
  CHECK(forced.exit_code == 2);
  CHECK_THAT(forced.err, Contains("expected a folder of a run or an empty one to replace"));
  CHECK(slurp(scratch / "taken/mine.txt") == "precious");
  fs::create_directory(scratch / "empty");
  CHECK(command(scratch, "run c.json --out empty --force").exit_code == 0);
  const std::string before = slurp(scratch / "empty/manifest.json");
  CHECK(command(scratch, "run c.json --seed 2 --out empty/ --force").exit_code == 0);
  CHECK(slurp(scratch / "empty/manifest.json") != before);
  CHECK(command(scratch, "run c.json --out . --force").exit_code == 2);
  // A changed trace under the same name is another run.
  REQUIRE(command(scratch, "run c.json --out fixed").exit_code == 0);
  scratch.write("trace.csv", small_trace() + "9,10,10\n");
  CHECK(command(scratch, "run c.json --out fixed").exit_code == 2);
}

TEST_CASE("faulty configs: message, place, exit code 2, nothing written", "[cli]") {
  Scratch scratch;
  with_trace(scratch);
  check_refused(scratch, "none.json", "none.json: expected a readable JSON file, found none");
  scratch.write("syntax.json", "{\"system\": \"serving\",\n \"machine\" {}}");
  check_refused(scratch, "syntax.json", "syntax.json:2:12: expected valid JSON");
  scratch.write("unknown.json", small_config(R"(, "polices": {})"));
  check_refused(scratch, "unknown.json", "unknown.json:/polices: unknown key 'polices' (did you mean 'policies'?)");
  scratch.write("unit.json", small_config(R"(, "slo": {"ttft": "2 tokens"})"));
  check_refused(scratch, "unit.json",
                "unit.json:/slo/ttft: expected a quantity in s such as \"1 s\", got \"2 tokens\"");
  scratch.write("bare.json", small_config(R"(, "slo": {"ttft": 2})"));
  check_refused(scratch, "bare.json", "bare.json:/slo/ttft: expected a quantity in s");
  scratch.write("c.json", small_config());
  check_refused(scratch, R"(c.json --set 'machine.devices.0.override.memory_bandwidth="-1 GB/s"')",
                "--set:/machine/devices/0/override/memory_bandwidth: expected > 0 B/s, got \"-1 GB/s\"");
  check_refused(scratch, "c.json --set machine.devices.0.part=a100x",
                "--set:/machine/devices/0/part: expected a part of the catalog or a file");
  check_refused(scratch, "c.json --set model.config=catalog:llama-2-8b",
                "--set:/model/config: expected a model of the catalog or a file, found no 'llama-2-8b' (did you mean "
                "'llama-2-7b' or 'llama-3-8b'?)");
  check_refused(scratch, "c.json --set policies.batching.policy=sarahti",
                "--set:/policies/batching/policy: unknown batching policy 'sarahti' (did you mean 'sarathi'?)");
  check_refused(
      scratch, "c.json --set policies.batching.sarathi.token_bugdet=3",
      "--set:/policies/batching/sarathi/token_bugdet: unknown key 'token_bugdet' (did you mean 'token_budget'?)");
  check_refused(scratch, "c.json --set policies.batching.vllm_v0.watermark=2",
                "--set:/policies/batching/vllm_v0/watermark: expected 0 to 1, got 2");
  check_refused(
      scratch, "c.json --set system=spelling",
      "--set:/system: unknown system 'spelling' (known: aggregate, capacity, dram, experts, function, goodput, "
      "graph, hls, launch, mixture, moe_layers, network, "
      "pim, plans, progress, rl, rlhf, search, serving, slo_sweep, tasks, training, training_job, training_plans, transactions, tune, uneven_batches)");
  check_refused(scratch, "c.json --set run.tick='\"1.5 ps\"'", "--set:/run/tick: expected a whole number of ps");
  check_refused(scratch, "c.json --set nonsense", "--set nonsense: expected name=value");
}

TEST_CASE("all faults of a file at once", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write(
      "c.json",
      small_config(R"(, "slo": {"ttft": 1, "tbt": "1 B"}, "replica": {"memory_margin": 3}, "run": {"sed": 1})"));
  const CommandResult result = command(scratch, "validate c.json");
  CHECK(result.exit_code == 2);
  for (const char* place : {"c.json:/slo/ttft", "c.json:/slo/tbt", "c.json:/replica/memory_margin", "c.json:/run/sed"})
    CHECK_THAT(result.err, Contains(place));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 4);  // one line a fault
}

TEST_CASE("faulty traces: file and line, exit code 2, nothing written", "[cli]") {
  Scratch scratch;
  scratch.write("c.json", small_config());
  check_refused(scratch, "c.json", "c.json:/workload/trace/path: expected a trace file, found none");
  const std::string header = "arrived_s,prompt_tokens,output_tokens\n";
  scratch.write("trace.csv", header);
  check_refused(scratch, "c.json", "trace.csv: expected at least one request");
  scratch.write("trace.csv", header + "0,10,10\n2,10,10\n1,10,10\n");
  check_refused(scratch, "c.json", "trace.csv:4: ");
  scratch.write("trace.csv", header + "0,10,10\n1,many,10\n");
  check_refused(scratch, "c.json", "trace.csv:3: ");
  // Skipped on request, and counted.
  const CommandResult skipped = command(scratch, "run c.json --set workload.trace.on_error=skip --out skipped");
  CHECK(skipped.exit_code == 0);
  CHECK_THAT(skipped.err, Contains("skipped: 1 bad_value"));
  CHECK_THAT(skipped.out, Contains("1 arrived, 1 completed"));
}

TEST_CASE("a design that does not fit is a result", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  const CommandResult memory = command(scratch, "run c.json --set model.config=catalog:llama-3-70b --out big --json");
  CAPTURE(memory.err);
  REQUIRE(memory.exit_code == 0);
  const sim::Node summary = sim::read_json(scratch / "big/summary.json");
  CHECK(summary.find("status")->as_string() == "infeasible");
  CHECK_THAT(summary.find("reason")->as_string(), Contains("do not fit the memory of a100-sxm4-80gb"));
  // 70,553,706,496 fp16 parameters and 8,192 tokens of 327,680 B against 90 % of 80 GiB.
  CHECK(summary.find("needed_bytes")->as_integer() == 70'553'706'496 * 2 + 8192LL * 327'680);
  CHECK(summary.find("available_bytes")->as_integer() == static_cast<std::int64_t>(85'899'345'920.0 * 0.9));
  CHECK(sim::parse_json(memory.out, "stdout").find("status")->as_string() == "infeasible");

  const CommandResult ranks = command(scratch, "run c.json --set replica.tensor_parallel=4 --out ranks");
  CHECK(ranks.exit_code == 0);
  CHECK_THAT(ranks.out, Contains("the machine has 1"));
  const CommandResult split = command(scratch, "run c.json --set machine.devices.0.count=3 --out split");
  CHECK(split.exit_code == 0);
  CHECK_THAT(split.out, Contains("infeasible"));
}

TEST_CASE("equal config and seed give equal bytes, another seed does not", "[cli]") {
  Scratch scratch;
  scratch.write(
      "g.json",
      R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": 200, "arrivals": {"policy": "poisson", "poisson": {"rate": "3 req/s"}},
                 "lengths": {"policy": "log_normal"}}}})");
  for (const char* line : {"run g.json --out a", "run g.json --out b", "run g.json --out c --seed 2"}) {
    const CommandResult result = command(scratch, line);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
  }
  for (const char* file :
       {"summary.json", "requests.csv", "series.csv", "energy.csv", "distributions.csv", "timeline.pftrace"}) {
    CAPTURE(file);
    CHECK(slurp(scratch / "a" / file) == slurp(scratch / "b" / file));
    CHECK(slurp(scratch / "a" / file) != slurp(scratch / "c" / file));
  }
}

TEST_CASE("dry run, list, describe, schema, version", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  const CommandResult dry = command(scratch, "run c.json --dry-run");
  CHECK(dry.exit_code == 0);
  CHECK(sim::parse_json(dry.out, "stdout")
            .find("policies")
            ->find("batching")
            ->find("sarathi")
            ->find("token_budget")
            ->as_integer() == 512);
  CHECK_FALSE(fs::exists(scratch / "runs"));

  const CommandResult list = command(scratch, "list batching");
  for (const char* name : {"static", "orca", "vllm_v0", "sarathi"}) CHECK_THAT(list.out, Contains(name));
  CHECK(command(scratch, "list batchin").exit_code == 2);
  CHECK_THAT(command(scratch, "list batchin").err, Contains("did you mean 'batching' or 'batching expression'?"));
  const CommandResult described = command(scratch, "describe sarathi");
  CHECK_THAT(described.out, Contains("token_budget: integer (tokens), >= 1, default 512"));
  CHECK_THAT(command(scratch, "describe llama-3-8b").out, Contains("8030261248"));
  CHECK_THAT(command(scratch, "describe a100-sxm4-80gb").out, Contains("sources"));
  CHECK_THAT(command(scratch, "describe sarathy").err,
             Contains("nothing is called 'sarathy' (did you mean 'sarathi'?)"));
  CHECK(command(scratch, "describe sarathy").exit_code == 2);
  CHECK_THAT(command(scratch, "schema").out, Contains("http://json-schema.org/draft-07/schema#"));
  CHECK(command(scratch, "--version").exit_code == 0);
  CHECK(command(scratch, "frobnicate").exit_code == 2);
}

TEST_CASE("every parameter of every policy shows in describe and errors by itself", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  const sim::Node components = sim::parse_json(command(scratch, "list batching --json").out, "stdout");
  REQUIRE(components.items().size() >= 4);
  for (const sim::Node& component : components.items()) {
    const std::string name = component.find("name")->as_string();
    const std::string text = command(scratch, "describe " + name).out;
    for (const sim::Node& field : component.find("fields")->items()) {
      const std::string key = field.find("name")->as_string();
      CHECK_THAT(text, Contains(key + ": "));
      const CommandResult wrong =
          command(scratch, "validate c.json --set policies.batching." + name + "." + key + "=[]");
      CHECK(wrong.exit_code == 2);
      CHECK_THAT(wrong.err, Contains("/policies/batching/" + name + "/" + key + ": expected "));
    }
  }
}

TEST_CASE("a run that fails leaves no folder behind, not even parents", "[cli]") {
  Scratch scratch;
  scratch.write("trace.csv", "arrived_s,prompt_tokens,output_tokens\n0,10,10\n1,ten,10\n");
  scratch.write("c.json", small_config());
  CHECK(command(scratch, "run c.json").exit_code == 2);
  CHECK_FALSE(fs::exists(scratch / "runs"));
  CHECK(command(scratch, "run c.json --out a/b/c").exit_code == 2);
  CHECK_FALSE(fs::exists(scratch / "a"));
}

TEST_CASE("figures past the range of integers are faults, not garbage", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  check_refused(scratch, R"(c.json --set 'replica.iteration_overhead="1e9 s"')",
                "/replica/iteration_overhead: expected 0 s to 60 s");
  check_refused(scratch, R"(c.json --set 'run.warmup="107 d"')", "set run.tick to \"1 ns\"");
  check_refused(scratch, R"(c.json --set 'slo.ttft="200 d"')", "set run.tick to \"1 ns\"");
  check_refused(scratch, R"(c.json --set 'run.series_interval="1 ps"')", "/run/series_interval: expected >= 1 ms");
  check_refused(scratch, R"(c.json --set 'machine.devices.0.override.peak.fp16="1e-200 FLOP/s"')",
                "got 1e-200 FLOP/s: a unit may be wrong");
  check_refused(scratch, "c.json --set replica.max_context=36028797018963968",
                "/replica/max_context: expected 2 to 2000000000");
}

TEST_CASE("whole blocks decide what fits", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  const CommandResult result =
      command(scratch,
              "run c.json --out r --set replica.memory_margin=0.8 --set replica.max_context=1000 "
              "--set policies.kvcache.paged.block_tokens=65536");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("infeasible"));
  // 6,738,415,616 fp16 weights and one block of 65,536 tokens of 524,288 B.
  CHECK(sim::read_json(scratch / "r/summary.json").find("needed_bytes")->as_integer() ==
        6'738'415'616 * 2 + 65'536LL * 524'288);
}

TEST_CASE("references: catalog names, files, folders; a wrong path is no catalog entry", "[cli]") {
  Scratch scratch;
  with_trace(scratch).write("c.json", small_config());
  check_refused(scratch, "c.json --set model.config=no/such/llama-2-7b",
                "--set:/model/config: expected a model file, found none at");
  check_refused(scratch, "c.json --set machine.devices.0.part=no/a100-sxm4-80gb",
                "--set:/machine/devices/0/part: expected a part file, found none at");
  fs::create_directory(scratch / "llama-2-7b");
  scratch.write("llama-2-7b/config.json",
                R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1024,
    "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 4096})");
  const CommandResult folder = command(scratch, "run c.json --set model.config=llama-2-7b --out small");
  CAPTURE(folder.err);
  CHECK(folder.exit_code == 0);
  CHECK(sim::read_json(scratch / "small/summary.json").at("memory_bytes.weights")->as_integer() < 100'000'000);
  scratch.write("child.json", R"({"base": "c.json", "workload": {"trace": null, "generator": {"requests": 3,
    "arrivals": {"policy": "poisson", "poisson": {"rate": "1 req/s"}}, "lengths": {"policy": "fixed", "fixed": {"prompt": 10, "output": 2}}}}})");
  CHECK(command(scratch, "validate child.json").exit_code == 0);
}

TEST_CASE("a horizon past the tick's reach is a fault that names the tick", "[cli]") {
  Scratch scratch;
  scratch.write("trace.csv", "arrived_s,prompt_tokens,output_tokens\n0,10,10\n18400000,10,10\n");  // 213 days
  scratch.write("c.json", small_config());
  check_refused(scratch, "c.json", "set run.tick to \"1 ns\"");
  const CommandResult result = command(scratch, R"(run c.json --set 'run.tick="1 ns"' --out result)");
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("2 arrived, 2 completed"));
}

}  // namespace test_cli
