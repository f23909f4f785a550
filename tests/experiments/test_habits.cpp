// What people type out of habit, and what they get: a table of command lines.
#include <catch2/catch.hpp>

#include "sim/base/document.hpp"
#include "tests/experiments/support.hpp"

namespace test_habits {

using namespace orrery;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

struct Habit {
  const char* what;
  const char* typed;
  int exit_code;
  const char* out;       ///< what stdout has in it
  const char* err = "";  ///< what stderr has in it
};

#define RUN_FEW " --set workload.limit=5 --force --out r"

const Habit kHabits[] = {
    {"a study by name", "run first_light" RUN_FEW, 0, "5 completed"},
    {"in another spelling", "run First-Light" RUN_FEW, 0, "5 completed"},
    {"a slip in it", "run first_ligth", 2, "", "did you mean 'first_light'?"},
    {"a config on standard input", "run -" RUN_FEW " <c.json", 0, "5 completed"},
    {"comments and a last comma", "run loose.json" RUN_FEW, 0, "5 completed"},
    {"a file that is not there", "run nowhere.json", 2, "", "expected a readable JSON file, found none"},
    {"an unknown command", "rum first_light", 2, "", "unknown command 'rum' (did you mean 'run'?)"},
    {"a slip in an option", "run first_light --drry-run", 2, "",
     "orrery run: unknown option '--drry-run' (did you mean '--dry-run'?)"},
    {"two that are as near", "capacity first_light --slo-tft 1s", 2, "", "did you mean '--slo-tbt' or '--slo-ttft'?"},
    {"an option of other commands", "run first_light --rates 1,2", 2, "",
     "orrery run: unknown option '--rates' (`orrery slo` has it)"},
    {"an option of nobody", "run first_light --xyzzy", 2, "", "(`orrery run --help` shows all)"},
    {"a word too many", "run first_light again", 2, "",
     "orrery run: expected nothing behind its arguments, got 'again'"},
    {"a question of another kind of config", "goodput c.json", 2, "",
     "c.json:/system: `orrery goodput` is asked of a config of training, training_job, goodput, got one of serving"},
    {"plans by name", "plans training_plans --out p --force", 0, "1458 looked at"},
    {"help", "--help", 0, "Run and ask:\n  run "},
    {"help of the studies", "--help", 0, "Study:\n  sweep "},
    {"plan and plans apart", "--help", 0, "(memory; `plans` compares machines)"},
    {"help of a command", "capacity --help", 0, "--slo-ttft"},
    {"version", "--version", 0, "."},
    {"a part by its short name", "run c.json --set machine.devices.0.part=A100" RUN_FEW, 0, "1 x a100-sxm4-80gb",
     "note: 'A100' is taken as 'a100-sxm4-80gb'"},
    {"a family of parts", "run c.json --set machine.devices.0.part=tpu", 2, "",
     "did you mean 'tpu-v3', 'tpu-v4' or 'tpu-v5e'?"},
    {"a model by its hub's name", "run c.json --set model.config=meta-llama/Llama-2-7b-chat-hf" RUN_FEW, 0,
     "llama-2-7b", "is taken as 'llama-2-7b'"},
    {"a policy in capitals", "run c.json --set policies.batching.policy=VLLM_V1" RUN_FEW, 0, "vllm_v1 ("},
    {"a format in capitals", "run c.json --set model.dtype=BF16" RUN_FEW, 0, "llama-2-7b, bf16"},
    {"a time without a unit", "run c.json --set slo.ttft=2", 2, "", "expected a quantity in s such as \"1 s\", got 2"},
    {"a path with a slip", "run c.json --set polices.batching.policy=sarathi", 2, "", "did you mean 'policies'?"},
    {"a script that wants to know", "run big.json --out r --force --fail-infeasible", 3, "infeasible"},
    {"one that does not", "run big.json --out r --force", 0, "infeasible"},
    {"only JSON on stdout", "run c.json --json --quiet" RUN_FEW, 0, "{\n  \"status\": \"ok\""},
    {"a part's data sheet first", "describe h100", 0, "  kind      gpu\n  memory    80 GiB at 3.35 TB/s",
     "note: 'h100' is taken as"},
    {"a name that is none", "describe h1000", 2, "",
     "did you mean 'h100-pcie-80gb', 'h100-sxm5-80gb' or 'h100-sxm5-96gb'?"},
    {"parts by kind", "list part", 0, "  npu: "},
    {"several files to validate", "validate first_light c.json", 0, "c.json: valid"},
    {"completion of commands", "complete -- cap", 0, "capacity\n"},
    {"completion of options", "complete -- capacity --slo", 0, "--slo-tbt\n--slo-ttft\n"},
    {"completion of names", "complete -- plans c.json --parts l40s,h100", 0, "l40s,h100-sxm5-80gb\n"},
    {"completion of paths", "complete -- run c.json --set policies.batching.policy=sara", 0,
     "policies.batching.policy=sarathi\n"},
    {"completion of studies", "complete -- run first", 0, "first_light\n"},
    {"completion for zsh", "completion zsh", 0, "#compdef orrery"},
    {"completion for fish", "completion fish", 0, "complete -c orrery"},
    {"a shell that is none", "completion zhs", 2, "", "did you mean 'zsh'?"},
    {"is everything there", "doctor", 0, "in the catalog, all can be read"},
};

}  // namespace

TEST_CASE("habits of the command line", "[cli]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("c.json", small_config());
  scratch.write("loose.json", "// mine\n" + small_config(", /* one more: */ \"slo\": {\"ttft\": \"1 s\",},"));
  std::string big = small_config();
  big.replace(big.find("llama-2-7b"), 10, "llama-3.1-405b");
  scratch.write("big.json", big);
  for (const Habit& habit : kHabits) {
    const CommandResult result = command(scratch, habit.typed);
    CAPTURE(habit.what, habit.typed, result.out, result.err);
    CHECK(result.exit_code == habit.exit_code);
    CHECK_THAT(result.out, Contains(habit.out));
    CHECK_THAT(result.err, Contains(habit.err));
    if (habit.exit_code == 2) {
      CHECK(result.out.empty());
      CHECK(result.err.find('\n') == result.err.size() - 1);  // one line a fault
    }
    CHECK(result.out.find('\033') == std::string::npos);  // no terminal, no colours
    CHECK(result.err.find('\033') == std::string::npos);
  }
}

TEST_CASE("tables fit the terminal, colours are for terminals, NO_COLOR holds", "[cli]") {
  const Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("c.json", small_config());
  const auto on_terminal = [&](const std::string& before, const std::string& arguments) {
    const std::string line = "cd '" + (scratch / "").string() + "' && TERM=xterm script -qec \"" + before +
                             " '" ORRERY_COMMAND "' " + arguments + "\" /dev/null </dev/null 2>/dev/null";
    FILE* pipe = popen(line.c_str(), "r");
    std::string out;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
    return out;
  };
  if (on_terminal("", "--version").empty()) return;  // no program `script` here
  const std::string plans = "plans c.json --parts a100,l40s --devices 1 --quiet --force --out r";
  const std::string narrow = on_terminal("NO_COLOR=1 COLUMNS=90", plans),
                    wide = on_terminal("NO_COLOR=1 COLUMNS=200", plans);
  CHECK_THAT(narrow, Contains("no room for") && Contains("TTFT P99"));
  CHECK_THAT(wide, !Contains("no room for") && Contains("J/token"));
  CHECK(narrow.find('\033') == std::string::npos);
  for (std::size_t from = narrow.find("part"); from < narrow.find("no room for");) {
    const std::size_t end = narrow.find('\r', from);
    CHECK(end - from <= 90);
    from = end + 2;
  }
  CHECK_THAT(on_terminal("COLUMNS=200", plans), Contains("\033[1mmodel\033[0m"));
  CHECK_THAT(on_terminal("", "run c.json --set x=1"), Contains("\033[31m--set:/x:\033[0m"));
}

}  // namespace test_habits
