#include <catch2/catch.hpp>

#include "hw/memory/dram_rate.hpp"
#include "hw/memory/dram_timing.hpp"
#include "hw/pim/decode_overlap.hpp"
#include "tests/hw/parts.hpp"

namespace test_attention_pim {

using namespace orrery;
using namespace orrery::hw;

namespace {

std::string file_of(const std::string& name) {
  return std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json";
}
AttentionPimParams pim(const std::string& name) {
  return read_part<AttentionPimParams>(file_of(name)).part;
}
const std::vector<std::string> kNames{"attacc-bank", "attacc-bank-group", "attacc-buffer", "neupims"};

AttentionPimParams unlimited(AttentionPimParams part) {
  part.power_limited = false;
  return part;
}

/// A GPU whose memory is what the device's stacks give outside, at their streaming rate; kernels start alike.
GpuParams equal_gpu(const AttentionPimParams& part) {
  GpuParams gpu = test::part("a100-sxm4-80gb");
  gpu.launch_graph_s = part.launch_s;
  gpu.memory_bandwidth = static_cast<double>(part.stacks) * part.dram.peak_bandwidth() * streaming_share(part.dram);
  return gpu;
}

double gpu_attention_s(const AttentionPimParams& part, const AttentionDecode& shape) {
  return test::model("roofline", equal_gpu(part))->cost({OpClass::attention_decode, DType::fp16, shape}).time_s;
}

AttentionDecode decode(std::int64_t batch, std::int64_t context, std::int64_t heads = 32, std::int64_t kv_heads = 32) {
  return {batch, batch * context, heads, kv_heads, 128};
}

const DecodeLayer kLlama{4096, 11008, 32, 32, 128, 4, DType::fp16};

}  // namespace

TEST_CASE("bandwidth scales follow from the memory's timings", "[golden]") {
  // AttAcc's own table: 16 / 8 / 1 without and 9 / 3 / 1 with the power limit at bank / bank group / buffer die.
  CHECK(bandwidth_scale(unlimited(pim("attacc-bank"))) == 16);  // 32 banks * 2 / 4
  CHECK(bandwidth_scale(unlimited(pim("attacc-buffer"))) == 1);
  // A bank group's bus carries an access every tCCD_L = 4: 8 groups * 2 / 4. The table's 8 takes tCCD_S there.
  CHECK(bandwidth_scale(unlimited(pim("attacc-bank-group"))) == 4);
  CHECK(bandwidth_scale(pim("attacc-bank")) == Approx(32 * 2 / 6.0));       // 10.7; 7.8 with rows and refreshes
  CHECK(bandwidth_scale(pim("attacc-bank-group")) == Approx(8 * 2 / 6.0));  // 2.7
  CHECK(effective_scale(pim("attacc-bank")) == Approx(9).epsilon(0.15));
  CHECK(bandwidth_scale(pim("attacc-bank-group")) == Approx(3).epsilon(0.15));
  CHECK(bandwidth_scale(pim("attacc-buffer")) == 1);
  // From the power that the plain interface can draw, without any published distance.
  for (const char* name : {"attacc-bank", "attacc-bank-group"}) {
    AttentionPimParams part = pim(name);
    part.limited_clocks = 0;
    CHECK(streaming_power_w(part, access_clocks(part)) <= power_budget_w(part));
    CHECK(streaming_power_w(part, access_clocks(part) - 1) > power_budget_w(part));
    CHECK(bandwidth_scale(part) < bandwidth_scale(unlimited(part)));
  }
}

TEST_CASE("a stream of all banks on the timing engine gives the effective scale", "[prop]") {
  for (const char* name : {"attacc-bank", "neupims"}) {
    INFO(name);
    const AttentionPimParams part = unlimited(pim(name));
    DramParams memory = part.dram;
    memory.organisation.ranks = 1;  // the other rank does the same beside it: units take nothing from the bus
    DramTimer timer(memory);
    const BankSet all = timer.all_banks();
    std::int64_t clock = 0, due = memory.timing.refi, reads = 0;
    const auto go = [&](DramOp op, std::int64_t row) {
      clock = std::max(clock, timer.earliest_set(op, all));
      timer.issue_set(op, all, clock, row);
    };
    for (std::int64_t row = 0; row < 2000; ++row) {
      if (row > 0) go(DramOp::precharge, 0);
      if (clock >= due) {
        go(DramOp::refresh, 0);
        due += memory.timing.refi;
      }
      go(DramOp::activate, row);
      for (std::int64_t i = 0; i < memory.accesses_per_row(); ++i, ++reads) go(DramOp::read, 0);
    }
    const double scale =
        static_cast<double>(reads * units_per_lane(part) * memory.timing.ccd_s) / static_cast<double>(clock);
    CHECK(scale == Approx(effective_scale(part)).epsilon(0.02));
  }
}

TEST_CASE("one head's attention, by hand", "[unit]") {
  const AttentionPimParams part = unlimited(pim("attacc-bank"));
  // 32 lanes of 32 banks are 1,024 units. 4,096 keys of 128 are 8 accesses each: 32 accesses a unit, one row of 32.
  const AttentionPimTime t = attention_time(part, decode(1, 4096, 1, 1), DType::fp16);
  // Row: tRTP 6 (32 accesses outlast tRAS) + tRP 19 + tRCD 19 - 4 = 40 clocks. Two products: 2 (32 * 4 + 40) = 336;
  // query 8 * 2; scores and probabilities 2 * ceil(4096 * 2 / 32 / 32) * 2 = 32; latencies 2 (19 + 19 + 2) = 80: 464
  // clocks.
  const double product = 464 / (1 - refresh_share(part.dram)) / 1.3e9;
  CHECK(t.products_s == Approx(product));
  CHECK(t.softmax_s == Approx(4096 * 2 / part.dram.peak_bandwidth()));
  CHECK(t.link_s == Approx(2 * 2e-6 + 4 * 128 * 2 / 300e9));
  CHECK(t.time_s == Approx(5e-6 + t.link_s + product + t.softmax_s));
  CHECK(t.read_bytes == 2.0 * 4096 * 128 * 2);
}

TEST_CASE("latents are read for keys and again for values, and no energy is negative", "[unit]") {
  for (const std::string& name : kNames) {
    const AttentionPimParams part = pim(name);
    const AttentionDecode latent{8, 8 * 4096, 128, 1, 576, 512, true};
    // 32,768 tokens of 576 + 512 two-byte elements, once for each `queries_per_read` of 128 heads.
    const double passes = 128.0 / static_cast<double>(part.queries_per_read);
    CHECK(attention_time(part, latent, DType::fp16).read_bytes == Approx(passes * 32768 * 1088 * 2));
    const Cost cost = attention_cost(part, latent, DType::fp16);
    CHECK(cost.memory_energy_j > 0);
    CHECK(cost.compute_energy_j >= 0);
  }
}

TEST_CASE("no gain above the ratio of bandwidths, at any shape", "[prop]") {
  for (const std::string& name : kNames) {
    for (const bool limited : {false, true}) {
      AttentionPimParams part = pim(name);
      part.power_limited = limited;
      for (const std::int64_t batch : {1, 16, 128})
        for (const std::int64_t context : {64, 1024, 16384, 131072})
          for (const std::int64_t kv_heads : {32, 8, 1}) {
            const AttentionDecode shape = decode(batch, context, 32, kv_heads);
            const AttentionPimTime t = attention_time(part, shape, DType::fp16);
            const double bytes = 4.0 * static_cast<double>(batch * context * kv_heads) * 128;
            const double outside = bytes / (static_cast<double>(part.stacks) * part.dram.peak_bandwidth());
            CHECK(t.products_s * bandwidth_scale(part) >= outside);
          }
    }
  }
}

TEST_CASE("the gain grows with context and with batch, and short contexts gain nothing", "[prop]") {
  for (const char* name : {"attacc-bank", "attacc-bank-group", "neupims"}) {
    INFO(name);
    const AttentionPimParams part = pim(name);
    const auto gain = [&](std::int64_t batch, std::int64_t context) {
      const AttentionDecode shape = decode(batch, context);
      return gpu_attention_s(part, shape) / attention_time(part, shape, DType::fp16).time_s;
    };
    double last = 0;
    for (std::int64_t context = 1024; context <= 65536; context *= 2) {
      CHECK(gain(16, context) > last);
      last = gain(16, context);
    }
    CHECK(last > 1);
    last = 0;
    for (std::int64_t batch = 1; batch <= 256; batch *= 4) {
      CHECK(gain(batch, 8192) > last);
      last = gain(batch, 8192);
    }
    CHECK(last < bandwidth_scale(part));
    CHECK(gain(1, 4) < 1);
  }
}

TEST_CASE("heads that share keys gain less, unless units hold several queries", "[prop]") {
  AttentionPimParams part = pim("attacc-bank");
  const auto time = [&](std::int64_t kv_heads) {
    return attention_time(part, decode(16, 8192, 32, kv_heads), DType::fp16).products_s;
  };
  const double bytes_share = 1.0 / 4;           // of the keys of 32 heads
  CHECK(time(8) > 3 * bytes_share * time(32));  // four passes over a quarter of the bytes
  const double plain = time(8);
  part.queries_per_read = 4;
  CHECK(time(8) < 0.5 * plain);
}

TEST_CASE("many short sequences gain from places of their own, one long one from all lanes", "[prop]") {
  AttentionPimParams whole = pim("attacc-bank"), single = whole;
  single.lanes_per_item = 1;
  const auto time = [](const AttentionPimParams& part, const AttentionDecode& shape) {
    return attention_time(part, shape, DType::fp16).products_s;
  };
  CHECK(time(single, decode(256, 256)) < time(whole, decode(256, 256)));
  CHECK(time(single, decode(1, 65536, 8, 8)) > 5 * time(whole, decode(1, 65536, 8, 8)));
}

TEST_CASE("the device leaves prefill and products to its host, and decode where the host is faster", "[unit]") {
  for (const std::string& name : kNames) {
    const AttentionPimParams part = pim(name);
    const auto host = test::model("roofline", equal_gpu(part));
    const auto device = make_attention_pim_cost(part, test::model("roofline", equal_gpu(part)));
    for (const Kernel& kernel : {Kernel{OpClass::attention_prefill, DType::fp16, test::prompts(4, 2048, 32, 32)},
                                 Kernel{OpClass::ffn_up, DType::fp16, Gemm{16, 11008, 4096}},
                                 Kernel{OpClass::norm, DType::fp16, Streaming{1 << 20, 1 << 20, 1 << 20}},
                                 Kernel{OpClass::attention_decode, DType::fp16, decode(1, 4)}}) {
      CHECK(device->cost(kernel).time_s == host->cost(kernel).time_s);
    }
    CHECK(device->cost({OpClass::attention_decode, DType::fp16, decode(0, 16)}).time_s == 0);
    AttentionPimParams always = part;
    always.offload = PimOffload::eligible;
    const auto forced = make_attention_pim_cost(always, test::model("roofline", equal_gpu(part)));
    const Kernel tiny{OpClass::attention_decode, DType::fp16, decode(1, 4)};
    CHECK(forced->cost(tiny).time_s > host->cost(tiny).time_s);
  }
}

TEST_CASE("closer units spend less energy on the same keys", "[prop]") {
  const AttentionDecode shape = decode(16, 8192);
  const auto energy = [&](const char* name) { return attention_cost(pim(name), shape, DType::fp16).memory_energy_j; };
  CHECK(energy("attacc-bank") < energy("attacc-bank-group"));
  CHECK(energy("attacc-bank-group") < energy("attacc-buffer"));
  const AttentionPimParams part = pim("attacc-buffer");
  const double outside = 8 * 4.0 * 16 * 8192 * 32 * 128 * (part.dram.access_bit_j() + part.dram.energy.activate_bit_j);
  CHECK(energy("attacc-buffer") < outside);
}

TEST_CASE("a decode step, by hand", "[unit]") {
  AttentionPimParams part = pim("attacc-bank");  // memory of its own: nothing contends
  // Two layers, products 4 us (half 3), attention 10 on the GPU, 2 in memory (half 1).
  const LayerPhases phases{4e-6, 3e-6, 10e-6, 2e-6, 1e-6, 0.5, 2};
  CHECK(decode_step(part, phases, DecodeSchedule::gpu_only).time_s == Approx(28e-6));
  CHECK(decode_step(part, phases, DecodeSchedule::serial).time_s == Approx(12e-6));
  // A 0-3 gpu, 3-4 pim; B 3-6, 6-7; A 6-9, 9-10; B 9-12, 12-13.
  const DecodeStep both = decode_step(part, phases, DecodeSchedule::interleaved);
  CHECK(both.time_s == Approx(13e-6));
  CHECK(both.gpu_busy_s == Approx(12e-6));
  CHECK(both.pim_busy_s == Approx(4e-6));
  // Halves that cost half: A 0-2, pim 2-3; B 2-4, pim 4-5; A 4-6; B 6-8, 8-9.
  const LayerPhases even{4e-6, 2e-6, 10e-6, 2e-6, 1e-6, 0.5, 2};
  CHECK(decode_step(part, even, DecodeSchedule::interleaved).time_s == Approx(9e-6));
  // One memory, banks blocked, products in memory all the time: nothing overlaps.
  part.shared_memory = true;
  LayerPhases bound = even;
  bound.gemm_memory_share = 1;
  CHECK(decode_step(part, bound, DecodeSchedule::interleaved).time_s == Approx(12e-6));
}

TEST_CASE("attention split between GPU and device, by hand", "[unit]") {
  AttentionPimParams part = pim("attacc-bank");  // memory of its own: nothing contends
  LayerPhases phases{4e-6, 3e-6, 10e-6, 6e-6, 3e-6, 0.5, 2};
  phases.pim_split_s = 3e-6;
  phases.gpu_split_s = 5e-6;
  // A layer: products 4, then 3 in memory beside 5 on the GPU.
  const DecodeStep both = decode_step(part, phases, DecodeSchedule::split);
  CHECK(both.time_s == Approx(18e-6));
  CHECK(both.gpu_busy_s == Approx(18e-6));
  CHECK(both.pim_busy_s == Approx(6e-6));
  // One memory whose banks are blocked: one after the other.
  part.shared_memory = true;
  part.dual_row_buffer = false;
  CHECK(decode_step(part, phases, DecodeSchedule::split).time_s == Approx(24e-6));
  phases.gpu_split_s = 0;  // all on the device: serial, with its attention
  CHECK(decode_step(part, phases, DecodeSchedule::split).time_s == Approx(14e-6));
}

TEST_CASE("a split of none is the GPU alone, a split of all is serial, and between lies a better one", "[prop]") {
  const AttentionPimParams part = pim("attacc-bank");
  const auto host = test::model("roofline", equal_gpu(part));
  const std::int64_t batch = 64, context = 4096;
  const auto time = [&](std::int64_t split, DecodeSchedule schedule) {
    return decode_step(part, layer_phases(part, *host, kLlama, batch, context, split), schedule).time_s;
  };
  const double gpu = time(0, DecodeSchedule::gpu_only), all = time(0, DecodeSchedule::serial);
  CHECK(time(0, DecodeSchedule::split) == Approx(gpu));
  CHECK(time(batch, DecodeSchedule::split) == Approx(all));
  double best = all;
  for (std::int64_t split = 0; split <= batch; split += 4) best = std::min(best, time(split, DecodeSchedule::split));
  CHECK(best < all);
  CHECK(best < gpu);
}

TEST_CASE("contention: blocked banks lose most, dual row buffers little, memory of its own nothing", "[prop]") {
  AttentionPimParams blocked = pim("neupims");
  blocked.dual_row_buffer = false;
  const AttentionPimParams dual = pim("neupims");
  for (const std::int64_t batch : {32, 128, 512}) {
    for (const std::int64_t context : {512, 4096}) {
      INFO("batch " << batch << " context " << context);
      const auto host = test::model("roofline", equal_gpu(dual));
      const LayerPhases phases = layer_phases(dual, *host, kLlama, batch, context);
      AttentionPimParams own = dual;
      own.shared_memory = false;
      own.link_bandwidth = 1e15;
      const double free_s = decode_step(own, phases, DecodeSchedule::interleaved).time_s;
      const double dual_s = decode_step(dual, phases, DecodeSchedule::interleaved).time_s;
      const double blocked_s = decode_step(blocked, phases, DecodeSchedule::interleaved).time_s;
      CHECK(free_s <= dual_s);
      CHECK(dual_s <= blocked_s);
      // Work of two resources: no schedule beats the busier one, and none is worse than one after the other.
      const double gpu = static_cast<double>(phases.layers) * 2 * phases.gemm_half_s;
      const double units = static_cast<double>(phases.layers) * 2 * phases.pim_attention_half_s;
      CHECK(free_s >= std::max(gpu, units) * (1 - 1e-9));
      CHECK(blocked_s <= (gpu + units) * (1 + 1e-9));
    }
  }
}

TEST_CASE("interleaving pays where products of a half cost about half, and not where weights are read twice",
          "[prop]") {
  const AttentionPimParams part = pim("attacc-bank");
  const auto host = test::model("roofline", test::part("a100-sxm4-80gb"));
  const auto gain = [&](std::int64_t batch, std::int64_t context) {
    const LayerPhases phases = layer_phases(part, *host, kLlama, batch, context);
    return decode_step(part, phases, DecodeSchedule::serial).time_s /
           decode_step(part, phases, DecodeSchedule::interleaved).time_s;
  };
  CHECK(gain(2, 1024) < 1);
  CHECK(gain(1024, 1024) > 1.2);
}

TEST_CASE("attention devices that contradict themselves are refused", "[unit]") {
  const auto faults_after = [](const char* name, const std::string& assignment) {
    sim::Node node = sim::read_config(file_of(name));
    sim::assign(node, assignment);
    sim::Faults faults;
    (void)parse_part<AttentionPimParams>(node, faults);
    std::string text;
    for (const sim::Fault& fault : faults.all()) text += fault.where.pointer + ": " + fault.text() + "\n";
    return text;
  };
  CHECK(faults_after("attacc-bank", "name=\"x\"").empty());
  CHECK_THAT(faults_after("attacc-bank", "link_bandwidth=\"0 B/s\""), Catch::Contains("/link_bandwidth"));
  CHECK_THAT(faults_after("attacc-buffer", "dual_row_buffer=true"), Catch::Contains("/dual_row_buffer"));
  CHECK_THAT(faults_after("attacc-bank", "lanes_per_item=64"), Catch::Contains("/lanes_per_item"));
  CHECK_THAT(faults_after("attacc-bank", "stacks=0"), Catch::Contains("/stacks"));
  CHECK_THAT(faults_after("attacc-bank", "level=\"die\""), Catch::Contains("/level"));
  CHECK_THAT(faults_after("neupims", "dram.timing.refi=10"), Catch::Contains("/dram/timing/refi"));
}

}  // namespace test_attention_pim
