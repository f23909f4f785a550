// Residuals: sums of trees by hand, where they say nothing, files at fault, and the shipped ones beside the catalog.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "hw/cost/cost_model.hpp"
#include "hw/cost/residual.hpp"
#include "sim/base/math.hpp"
#include "tests/hw/parts.hpp"

namespace test_residual {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

namespace fs = std::filesystem;

const fs::path kShipped = fs::path(ORRERY_SOURCE_DIR) / "hw/catalog/residuals";

Kernel product(std::int64_t m, std::int64_t n = 4096, std::int64_t k = 1024) {
  return {OpClass::ffn_up, DType::fp16, Gemm{m, n, k}};
}

/// Products up to 1,000 rows; beyond 64 rows 0.2 more (a factor of e^0.2), and 0.1 less where k is over 2,048.
std::string document(const std::string& model, const std::string& trees = R"([
    {"splits": [["m", 64]], "leaves": [0, 2000]},
    {"splits": [["k", 2048], ["m", 64]], "leaves": [0, 0, -1000, -1000]}])") {
  return R"({"kind": "residual", "version": 1, "part": "a40", "model": ")" + model + R"(", "doc": "", "blocks": [
    {"kernels": "gemm", "library": "kernel", "tables": ["gemm/a40.csv"], "rows": 300, "mape": 0.01, "held_out": 0.02,
     "seen": [[1, 1000], [1024, 8192], [512, 4096]], "trees": )" +
         trees + "}]}";
}

Residual parsed(const std::string& text) {
  sim::Faults faults;
  Residual residual = parse_residual(sim::parse_json(text, "r.json"), faults);
  faults.throw_if_any();
  return residual;
}

std::string faults_of(const std::string& json) {
  sim::Faults faults;
  parse_residual(sim::parse_json(json, "r.json"), faults);
  std::string text;
  for (const sim::Fault& fault : faults.all()) text += fault.text() + "\n";
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("trees add up by the answers to their questions", "[unit][residual]") {
  const Residual residual = parsed(document("x"));
  const ResidualBlock& block = residual.blocks.at(0);
  const auto factor = [&](const Kernel& kernel) { return block.factor(*residual_query(kernel, 84)); };
  CHECK(*factor(product(64)) == Approx(1));                                          // at a threshold: not above it
  CHECK(*factor(product(65)) == Approx(std::exp(0.2)).epsilon(1e-12));               // second leaf of the first tree
  CHECK(*factor(product(64, 4096, 4096)) == Approx(std::exp(-0.1)).epsilon(1e-12));  // third leaf of the second
  CHECK(*factor(product(65, 4096, 4096)) == Approx(std::exp(0.1)).epsilon(1e-12));   // 0.2 - 0.1
}

TEST_CASE("outside the sizes that were seen a residual says nothing", "[unit][residual]") {
  const Residual residual = parsed(document("x"));
  const auto known = [&](const Kernel& k) { return residual.blocks[0].factor(*residual_query(k, 84)).has_value(); };
  CHECK(known(product(1000, 8192, 4096)));
  CHECK_FALSE(known(product(1001)));
  CHECK_FALSE(known(product(10, 1023)));
  CHECK_FALSE(known(product(10, 4096, 4097)));
  const AttentionDecode decodes{4, 400, 8, 8, 128};
  CHECK_FALSE(residual.blocks[0].factor(*residual_query({OpClass::attention_decode, DType::bf16, decodes}, 84)));
}

TEST_CASE("kernels that no table measures have no query", "[unit][residual]") {
  CHECK_FALSE(residual_query({OpClass::ffn_up, DType::fp16, Gemm{16, 64, 64, 2}}, 84));
  CHECK_FALSE(residual_query({OpClass::ffn_up, DType::fp16, Gemm{16, 64, 64, 1, WeightFormat::int4}}, 84));
  CHECK_FALSE(residual_query({OpClass::ffn_up, DType::fp8, Gemm{16, 64, 64}}, 84));
  CHECK_FALSE(residual_query(product(0), 84));
  AttentionPrefill prompt{2, 200, 200, 10100, 2, 8, 8, 128};
  const auto asked = [](const AttentionPrefill& a) {
    return residual_query({OpClass::attention_prefill, DType::bf16, a}, 84).has_value();
  };
  CHECK(asked(prompt));
  AttentionPrefill changed = prompt;
  changed.kv_tokens = 300;  // over a cache
  CHECK_FALSE(asked(changed));
  changed = prompt, changed.causal = false;
  CHECK_FALSE(asked(changed));
  changed = prompt, changed.backward = true;
  CHECK_FALSE(asked(changed));
  CHECK_FALSE(residual_query({OpClass::attention_decode, DType::bf16,
                              AttentionDecode{.sequences = 1,
                                              .context_tokens = 10,
                                              .heads = 8,
                                              .kv_heads = 1,
                                              .head_dim = 576,
                                              .value_dim = 512,
                                              .latent = true}},
                             84));
}

TEST_CASE("inputs have as many names as values, and waves are what they say", "[unit][residual]") {
  const ResidualQuery gemm = *residual_query(product(200, 512, 64), 10);
  const auto input = [](const ResidualQuery& query, std::string_view name) {
    const auto names = residual_inputs(query.kind);
    REQUIRE(names.size() == query.count);
    return query.inputs[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
  };
  // Tiles of 128 x 128: 2 x 4 = 8 blocks on 10 SMs, one wave that is 0.8 full; 200 of 256 rows are used.
  CHECK(input(gemm, "waves_128x128") == Approx(0.8));
  CHECK(input(gemm, "fill_128x128") == Approx(0.8));
  CHECK(input(gemm, "used_128x128") == Approx(200.0 / 256));
  // Tiles of 64 x 64: 4 x 8 = 32 blocks, 3.2 waves of which the fourth is 0.2 full: 32 of 40.
  CHECK(input(gemm, "waves_64x64") == Approx(3.2));
  CHECK(input(gemm, "fill_64x64") == Approx(0.8));
  CHECK(input(gemm, "aligned_m") == 8);  // 200 = 8 x 25
  CHECK(input(gemm, "m_of_128") == 72);
  const ResidualQuery decodes =
      *residual_query({OpClass::attention_decode, DType::bf16, AttentionDecode{4, 4000, 32, 8, 128}}, 10);
  CHECK(input(decodes, "context") == 1000);
  CHECK(input(decodes, "group") == 4);
  CHECK(input(decodes, "waves") == Approx(12.8));    // 4 x 32 blocks on 10
  CHECK(input(decodes, "kv_waves") == Approx(3.2));  // 4 x 8
  const ResidualQuery call = residual_query(LibraryCall::all_reduce, 4, 4096);
  CHECK(input(call, "part_bytes") == 1024);
  CHECK(input(call, "ring_steps") == 6);  // 2 (n - 1)
  CHECK(input(call, "bytes_a_link") == 3072);
}

TEST_CASE("a residual is written as it is read", "[unit][residual]") {
  const Residual residual = parsed(document("0123456789abcdef"));
  const Residual again = parsed(residual_node(residual).dump());
  CHECK(residual_node(again).dump() == residual_node(residual).dump());
  CHECK(again.blocks[0].trees.trees[1].splits[0].input == 2);  // k
  CHECK(again.blocks[0].trees.trees[1].leaves == std::vector<std::int32_t>{0, 0, -1000, -1000});
  CHECK(again.block(ResidualKind::gemm, "") == &again.blocks[0]);
  CHECK(again.block(ResidualKind::gemm, "vllm") == nullptr);
  CHECK(again.block(ResidualKind::collective, "") == nullptr);
}

TEST_CASE("each fault of a residual is one line with its place", "[unit][residual][errors]") {
  const std::string good = document("x");
  CHECK(faults_of(good).empty());
  CHECK(faults_of("[]") == "r.json: expected a residual, got an array\n");
  CHECK(faults_of(replaced(good, "\"residual\"", "\"gpu\"")) == "r.json:/kind: expected \"residual\", got \"gpu\"\n");
  CHECK(faults_of(replaced(good, "\"version\": 1", "\"version\": 2")) ==
        "r.json:/version: expected version 1, got 2\n");
  CHECK(faults_of(replaced(good, "\"gemm\", \"library\"", "\"gem\", \"library\"")) ==
        "r.json:/blocks/0/kernels: unknown kind of kernel 'gem' (did you mean 'gemm'?)\n");
  CHECK(faults_of(replaced(good, "[[\"m\", 64]], ", "[[\"mm\", 64]], ")) ==
        "r.json:/blocks/0/trees/0/splits/0/0: unknown input 'mm' (did you mean 'm'?)\n");
  CHECK(faults_of(replaced(good, "[0, 2000]", "[0, 2000, 1]")) ==
        "r.json:/blocks/0/trees/0/leaves: expected 2 leaves, two to the number of splits, got 3\n");
  CHECK(faults_of(replaced(good, "[0, 2000]", "[0, 0.5]")) ==
        "r.json:/blocks/0/trees/0/leaves/1: expected a whole number from -50000 to 50000, got 0.5\n");
  CHECK(faults_of(replaced(good, "[1, 1000]", "[1000, 1]")) ==
        "r.json:/blocks/0/seen/0: expected [least, largest], got an array\n");
  CHECK(faults_of(replaced(good, "\"rows\": 300, ", "")) ==
        "r.json:/blocks/0/rows: expected a number of rows, found none\n");
  CHECK(faults_of(replaced(good, "\"mape\": 0.01", "\"mape\": -1")) ==
        "r.json:/blocks/0/mape: expected a share of at least 0, got -1\n");
}

TEST_CASE("the learned model is the tiled one times the factor, in the power too", "[unit][residual]") {
  const fs::path file = fs::temp_directory_path() / "orrery_test_residual.json";
  const GpuParams a40 = part("a40");
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  const auto device = [&](const std::string& model, const GpuParams& gpu, const std::string& library = "") {
    std::ofstream(file) << document(model);
    sim::Faults faults;
    const sim::Node params =
        sim::parse_json(R"({"residual": ")" + file.string() + R"(", "library": ")" + library + "\"}", "c.json");
    const auto choice = registry.prepare("learned", &params, {}, faults);
    faults.throw_if_any();
    return *make_device("a40", gpu, choice, {}, faults);
  };
  const Cost tiled = make_tiled(a40)->cost(product(100));
  const Cost learned = device(model_fingerprint(a40), a40).cost(product(100));
  CHECK(learned.time_s == Approx(tiled.time_s * std::exp(0.2)).epsilon(1e-12));
  CHECK(learned.compute_energy_j - tiled.compute_energy_j ==
        Approx(a40.power.active_w * (learned.time_s - tiled.time_s)).epsilon(1e-9));
  CHECK(learned.dram_bytes == tiled.dram_bytes);
  // Of other constants, at another clock, of another shape: as tiled.
  CHECK(device("0", a40).cost(product(100)).time_s == tiled.time_s);
  GpuParams wider = a40;
  wider.memory_bandwidth *= 2;
  CHECK(device(model_fingerprint(a40), wider).cost(product(100)).time_s ==
        make_tiled(wider)->cost(product(100)).time_s);
  CHECK(device(model_fingerprint(a40), a40).cost(product(2000)).time_s == make_tiled(a40)->cost(product(2000)).time_s);
  const auto message = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string("no fault");
  };
  CHECK(message([&] { device(model_fingerprint(a40), a40, "kernal"); }) ==
        file.string() + ":/blocks: no block of kernels of library 'kernal' (did you mean 'kernel'?)");
  CHECK(message([&] {
          sim::Faults faults;
          make_device("l40s", part("l40s"), registry.prepare("learned", nullptr, {}, faults), {}, faults);
          std::ofstream(file) << document("x");
          const sim::Node params = sim::parse_json(R"({"residual": ")" + file.string() + "\"}", "c.json");
          make_device("l40s", part("l40s"), registry.prepare("learned", &params, {}, faults), {}, faults);
        }) == file.string() + ":/part: expected a residual of 'l40s', got one of 'a40'");
  CHECK(message([&] {
          sim::Faults faults;
          make_device("b300-sxm", part("b300-sxm"), registry.prepare("learned", nullptr, {}, faults), {}, faults);
        }).starts_with("learned: the catalog has no residual of 'b300-sxm'"));
  fs::remove(file);
}

TEST_CASE("shipped residuals are of the catalog's constants, and correct collectives too", "[unit][residual]") {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(kShipped)) {
    ++found;
    sim::Faults faults;
    const Residual residual = parse_residual(sim::read_json(entry.path()), faults);
    INFO(entry.path().string() << ": after a change of constants make it anew: orrery calibrate " << residual.part
                               << " --data ../shared/data --residual --rows 1000000");
    REQUIRE(faults.empty());
    CHECK(entry.path().stem() == residual.part);
    CHECK(residual.model == model_fingerprint(part(residual.part)));
    for (const ResidualBlock& block : residual.blocks) {
      CHECK(block.mape < block.held_out);
      CHECK(block.trees.trees.size() <= 120);
    }
  }
  CHECK(found >= 8);
  sim::Faults faults;
  const auto learned = make_device("h100-sxm5-80gb", part("h100-sxm5-80gb"),
                                   registry.prepare("learned", nullptr, {}, faults), {}, faults);
  const GpuParams h100 = part("h100-sxm5-80gb");
  const double plain = library_collective(h100.link, LibraryCall::all_reduce, 8, 1 << 20).time_s;
  const double corrected = library_collective(learned->link, LibraryCall::all_reduce, 8, 1 << 20).time_s;
  CHECK(corrected != plain);
  CHECK(corrected == Approx(plain).epsilon(0.3));
  // Nobody measured three ranks of a thousand: the closed form stands.
  CHECK(library_collective(learned->link, LibraryCall::all_reduce, 1000, 1 << 20).time_s ==
        library_collective(h100.link, LibraryCall::all_reduce, 1000, 1 << 20).time_s);
}

}  // namespace test_residual
