// Device files and calibration from the command line: what is printed, one line a fault, what is written.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "sim/base/document.hpp"
#include "tests/experiments/support.hpp"

namespace test_cli_parts {

using namespace orrery;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

const fs::path kCatalog = fs::path(ORRERY_SOURCE_DIR) / "hw/catalog";

/// An entry of the catalog with one assignment ("sms=0"), as a file of the user's.
void write_part(const Scratch& scratch, const std::string& entry, const std::string& assignment) {
  const std::vector<std::string> changes{assignment};
  scratch.write("part.json", sim::read_config(kCatalog / (entry + ".json"), changes).dump(2));
}

}  // namespace

TEST_CASE("a fault in a device file is one clear line", "[cli][parts]") {
  struct Case {
    const char *entry, *change, *message;
  };
  for (const Case& c : {Case{"a100-sxm4-80gb", "sms=0", "part.json:/sms: expected >= 1, got 0"},
                        Case{"a100-sxm4-80gb", "memory=80 GB/s",
                             "part.json:/memory: expected a quantity in B such as \"80 GiB\", got \"80 GB/s\""},
                        Case{"a100-sxm4-80gb", "peak.fp16=null", "part.json:/peak/fp16:"},
                        Case{"a100-sxm4-80gb", "smss=3", "part.json:/smss: unknown key 'smss' (did you mean 'sms'?)"},
                        Case{"tpu-v4", "cores=0", "part.json:/cores: expected 1 to 65536, got 0"},
                        Case{"epyc-7313", "cores=0", "part.json:/cores:"},
                        Case{"upmem-ddr4-2400", "wram=64 GB/s", "part.json:/wram: expected a quantity in B"},
                        Case{"a100-sxm4-80gb", "kind=gpuu", "part.json:/kind: unknown kind of part \"gpuu\""}}) {
    Scratch scratch;
    write_part(scratch, c.entry, c.change);
    const CommandResult result = command(scratch, "describe part.json");
    CAPTURE(c.entry, c.change, result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains(c.message));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("every entry of the catalog describes itself", "[cli][parts]") {
  Scratch scratch;
  for (const char* name : {"a100-sxm4-80gb", "tpu-v4", "upmem-ddr4-2400", "hbm-pim-aquabolt-xl", "attacc-bank",
                           "hbm2-2gbps", "epyc-7313", "alveo-u280", "platform-gh200", "tsmc-n7", "ib-ndr-4x"}) {
    const CommandResult result = command(scratch, std::string("describe ") + name);
    CAPTURE(name, result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out, Contains("values of this part") && Contains("sources:"));
  }
  // The estimate of a die stands beside what is published: mm2, yield, dollars.
  CHECK_THAT(command(scratch, "describe a100-sxm4-80gb").out, Contains("published: 826 mm2") && Contains("yield"));
}

TEST_CASE("calibrate writes an entry that describes itself, and refuses to overwrite it", "[cli][parts]") {
  Scratch scratch;
  fs::create_directories(scratch / "data" / "gemm");
  std::string table = "dtype,m,n,k,time_us\n";
  for (int m = 16; m <= 4096; m *= 2)
    for (int n = 1024; n <= 8192; n *= 2) {
      const double us = 6 + 2.0 * m * n * 4096 / 200e6;
      table += "fp16," + std::to_string(m) + ',' + std::to_string(n) + ",4096," + std::to_string(us) + '\n';
    }
  scratch.write("data/gemm/a100.csv", table);
  const std::string line = "calibrate a100-sxm4-80gb --data data --holdout shapes --out fitted.json";
  const CommandResult result = command(scratch, line);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("gemm.efficiency") && Contains("held out rows") && Contains("gemm/a100.csv"));
  CHECK_THAT(command(scratch, "describe fitted.json").out, Contains("fitted by `orrery calibrate` to"));
  const CommandResult again = command(scratch, line);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Contains("fitted.json: stands already (another --out, or --force to replace it)"));
  CHECK(command(scratch, line + " --force").exit_code == 0);
  // Under its default name a calibration replaces an earlier one, and nothing else.
  const std::string unnamed = "calibrate a100-sxm4-80gb --data data";
  CHECK(command(scratch, unnamed).exit_code == 0);
  CHECK(command(scratch, unnamed + " --holdout shapes").exit_code == 0);
  scratch.write("a100-sxm4-80gb-calibrated.json", "{}");
  CHECK(command(scratch, unnamed).exit_code == 2);
  fs::remove(scratch / "a100-sxm4-80gb-calibrated.json");
  CHECK_THAT(command(scratch, unnamed + " --out no/such/entry.json").err,
             Contains("no/such: expected a folder to write to, found none"));
  // Of a training run, what is written lies below a config.
  fs::create_directories(scratch / "data" / "training");
  scratch.write("data/training/h100_pytorch.steps.csv",
                "hidden,intermediate,heads,kv_heads,layers,vocab,sequence,compiled,iter_s\n"
                "1024,4096,16,16,24,32000,1024,0,0.0768\n2048,8192,32,8,16,128256,2048,0,0.0930\n");
  const CommandResult run = command(scratch, "calibrate h100-sxm5-80gb --data data --training");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("machine.in_situ.kernel") && Contains("machine.host.operator") &&
                          Contains("machine.in_situ.overlapped: not fitted"));
  CHECK(command(scratch, "calibrate h100-sxm5-80gb --data data --training").exit_code == 0);  // its own file
  scratch.write("step.json", R"({"base": "h100-sxm5-80gb-training.json", "system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb"}]},
      "model": {"builder": {"policy": "gpt2", "gpt2": {"loss": true}}}})");
  CHECK_THAT(command(scratch, "run step.json --dry-run").out, Contains("\"backward\": \""));
  for (const auto& [arguments, message] :
       {std::pair{"calibrate a100-sxm4-80g --data data", "unknown part 'a100-sxm4-80g'"},
        std::pair{"calibrate a100-sxm4-80gb --data nowhere", "expected a folder with measured tables, found none"},
        std::pair{"calibrate a100-sxm4-80gb --data data --holdout rows", "expected shapes, device=NAME, COLUMN=VALUE,... or none"},
        std::pair{"fidelity nowhere", "expected a folder with measured tables, found none"}}) {
    const CommandResult refused = command(scratch, arguments);
    CAPTURE(arguments, refused.err);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains(message));
  }
}

}  // namespace test_cli_parts
