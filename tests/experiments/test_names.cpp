// Names that people type: a table of spellings, what each leads to, and what a config makes of them.
#include <catch2/catch.hpp>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/study_file.hpp"
#include "sim/base/name_match.hpp"
#include "tests/systems.hpp"

namespace test_names {

using namespace orrery;
using namespace orrery::experiments;

namespace {

struct Spelling {
  const char* typed;
  const char* means;  ///< empty: none, and then the hint
  const char* hint = "";
};

// As they stand in papers, shops, schedulers and on model hubs.
const Spelling kParts[] = {
    {"h100", "h100-sxm5-80gb"},
    {"H100", "h100-sxm5-80gb"},
    {"H100-SXM5-80GB", "h100-sxm5-80gb"},
    {"h100_sxm5_80gb", "h100-sxm5-80gb"},
    {"H100 SXM", "h100-sxm5-80gb"},
    {"NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"},
    {"H100-PCIe", "h100-pcie-80gb"},
    {"h200", "h200-sxm-141gb"},
    {"a100", "a100-sxm4-80gb"},
    {"A100-80GB", "a100-sxm4-80gb"},
    {"a100-40gb", "a100-sxm4-40gb"},
    {"A100-SXM4-80GB", "a100-sxm4-80gb"},
    {"MI300X", "mi300x"},
    {"amd-mi300x", "mi300x"},
    {"b200", "b200-sxm"},
    {"B300", "b300-sxm"},
    {"V100", "v100-sxm2-32gb"},
    {"RTX 4090", "rtx-4090"},
    {"4090", "rtx-4090"},
    {"L40s", "l40s"},
    {"Tesla T4", "t4"},
    {"TPUv4", "tpu-v4"},
    {"orin", "jetson-agx-orin"},
    {"Ascend 910B", "ascend-910b1"},
    {"catalog:H100", "h100-sxm5-80gb"},
    {"tpu", "", "did you mean 'tpu-v3', 'tpu-v4' or 'tpu-v5e'?"},
    {"epyc", "", "did you mean 'epyc-7313' or 'epyc-9654'?"},
    {"h1000", "", "did you mean 'h100-pcie-80gb', 'h100-sxm5-80gb' or 'h100-sxm5-96gb'?"},
    {"l40x", "", "did you mean 'l40s'?"},
    {"no/h100-pcie-80gb", "", ""},  // a path
};
const Spelling kModels[] = {
    {"Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
    {"llama3-8b", "llama-3-8b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"tiiuae/falcon-180B", "falcon-180b"},
    {"01-ai/Yi-34B", "yi-34b"},
    {"facebook/opt-13b", "opt-13b"},
    {"no/such/llama-2-7b", "", ""},  // a path: hubs have one owner
    {"llama-3.1", "", "did you mean 'llama-3.1-8b', 'llama-3.1-70b' or 'llama-3.1-405b'?"},
};

std::string stem_or_hint(const std::filesystem::path& file, const sim::Faults& faults) {
  return file.empty() ? faults.all().front().hint : file.stem().string();
}

std::string dry_serving(const std::string& part, const std::string& model, const std::string& policy,
                        std::vector<std::string>* notes = nullptr) {
  const auto experiment = read_experiment(test_systems(), sim::parse_json(R"({"system": "Serving",
    "machine": {"devices": [{"part": ")" + part + R"(", "count": 1}]},
    "model": {"config": ")" + model + R"(", "dtype": "BF16"},
    "workload": {"generator": {"requests": 1, "arrivals": {"policy": "Poisson", "poisson": {"rate": "1 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 64, "output": 10}}}},
    "policies": {"batching": {"policy": ")" + policy + R"("}}})",
                                                                          "test"));
  if (notes != nullptr) *notes = experiment->notes();
  return experiment->resolved().dump() + config_hash(*experiment);
}

}  // namespace

TEST_CASE("spellings of parts and models lead to them, or to names that come near", "[unit]") {
  const sim::Origin where{"", "/part"};
  for (const Spelling& one : kParts) {
    CAPTURE(one.typed);
    sim::Faults faults;
    const std::string got = stem_or_hint(part_file(one.typed, where, faults), faults);
    CHECK(got == (*one.means != '\0' ? one.means : one.hint));
  }
  for (const Spelling& one : kModels) {
    CAPTURE(one.typed);
    sim::Faults faults;
    const std::string got = stem_or_hint(model_file(one.typed, where, faults), faults);
    CHECK(got == (*one.means != '\0' ? one.means : one.hint));
  }
}

TEST_CASE("every alias leads to an entry", "[unit]") {
  for (const auto& [catalog, names] : {std::pair{"hw/catalog", part_names()}, {"models/catalog", model_names()}})
    for (const std::string& file : sim::catalog_names(home_folder() / catalog / "aliases")) {
      const sim::Node aliases = sim::read_json(home_folder() / catalog / "aliases" / (file + ".json"));
      for (const auto& [alias, name] : aliases.members()) {
        CAPTURE(alias);
        CHECK(std::count(names.begin(), names.end(), name.as_string()) == 1);
        CHECK(std::count(names.begin(), names.end(), alias) == 0);
      }
    }
}

TEST_CASE("configs and their hashes have one spelling, and other names are told", "[unit]") {
  std::vector<std::string> notes;
  const std::string typed = dry_serving("H100", "meta-llama/Llama-3.1-8B", "Sarathi", &notes);
  CHECK(typed == dry_serving("h100-sxm5-80gb", "llama-3.1-8b", "sarathi"));
  CHECK(notes == std::vector<std::string>{"'H100' is taken as 'h100-sxm5-80gb'",
                                          "'meta-llama/Llama-3.1-8B' is taken as 'llama-3.1-8b'"});
}

TEST_CASE("what ships has its name from any folder", "[unit]") {
  const std::string file = (home_folder() / "experiments/studies/first_light.json").string();
  CHECK(named_document("first_light") == file);
  CHECK(named_document("First-Light") == file);
  CHECK(named_document("./first_light") == "./first_light");  // a path
  CHECK(named_document("-") == "-");
  CHECK_THROWS_WITH(named_document("first_lite"),
                    "first_lite: expected a file, or the name of one that ships (did you mean 'first_light'?)");
}

}  // namespace test_names
