// What every cost model owes every kernel, on random shapes from nothing to the largest that 64 bits count: finite,
// never negative, nothing for nothing, exact work, no faster than its units and its memory, the same every time and
// without allocation.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "hw/base/kernel_builders.hpp"
#include "hw/gpu/dvfs.hpp"
#include "hw/npu/npu.hpp"
#include "hw/parts/cpu.hpp"
#include "hw/pim/attention_pim.hpp"
#include "hw/pim/bank_pim.hpp"
#include "hw/pim/upmem.hpp"
#include "sim/base/random.hpp"
#include "tests/allocations.hpp"
#include "tests/hw/parts.hpp"

namespace test_cost_properties {

using namespace orrery;
using namespace orrery::hw;

namespace {

/// A model, and rates that it cannot exceed: FLOP/s by format, and bytes/s for kernels that find nothing in a cache.
struct Bounded {
  std::string name;
  std::unique_ptr<CostModel> model;
  std::array<double, 5> flops{};  ///< by DType
  double cold_bytes_per_s = 0, bytes_per_s = 0;
  double growth = 0.7;  ///< least time of twice the work, as a share of once the work's
};

constexpr std::array<DType, 5> kDTypes{DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int8};

double flops_of(const GpuParams& gpu, DType dtype) {
  // Above 1 where a part clocks higher than its data sheet's peak.
  return std::max(gpu.peak.fp32, matrix_peak(gpu, dtype) * std::max(1.0, gpu.gemm.efficiency));
}

double flops_of(const NpuParams& npu, DType dtype) {
  const double vector = 2.0 * static_cast<double>(npu.vector.bytes_per_cycle * npu.cores) * npu.clock_hz;
  const double matrix = matrix_peak(npu, dtype);
  return std::max(vector, matrix > 0 ? matrix : matrix_peak(npu, DType::fp16));
}

void add_gpu(std::vector<Bounded>& out, const std::string& name, const GpuParams& gpu) {
  for (const char* model : {"roofline", "tiled"}) {
    Bounded device{name + " " + model, hw::test::model(model, gpu), {}, gpu.memory_bandwidth, 0};
    for (std::size_t i = 0; i < kDTypes.size(); ++i) device.flops[i] = flops_of(gpu, kDTypes[i]);
    device.bytes_per_s = std::max(gpu.memory_bandwidth, gpu.l2_bandwidth * gpu.stream.l2_share);
    out.push_back(std::move(device));
  }
}

/// A device in memory with an A100 behind it: no faster than the two together.
template <class P>
Bounded pim(const std::string& name, const P& params, std::unique_ptr<CostModel> model, double flops, double bytes) {
  const GpuParams host = hw::test::part("a100-sxm4-80gb");
  Bounded device{name + (params.offload == PimOffload::eligible ? " eligible" : " fastest"), std::move(model)};
  for (std::size_t i = 0; i < kDTypes.size(); ++i) device.flops[i] = std::max(flops, flops_of(host, kDTypes[i]));
  device.cold_bytes_per_s = std::max(bytes, host.memory_bandwidth);
  device.bytes_per_s = std::max(bytes, host.l2_bandwidth);
  return device;
}

std::unique_ptr<CostModel> host() {
  return hw::test::model("tiled", hw::test::part("a100-sxm4-80gb"));
}

/// Every part of the catalog that answers kernels.
std::vector<Bounded> devices() {
  std::vector<Bounded> out;
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog"))
    if (!file.is_directory()) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  constexpr double kAny = 1e30;
  for (const std::filesystem::path& file : files) {
    const std::string kind = read_any_part(file).kind, name = file.stem().string();
    if (kind == GpuParams::kKind) {
      const GpuParams gpu = read_part<GpuParams>(file).part;
      add_gpu(out, name, gpu);
      if (name == "a100-sxm4-80gb") add_gpu(out, name + " at its lowest clock", at_clock(gpu, dvfs_clocks(gpu).back()));
    } else if (kind == NpuParams::kKind) {
      const NpuParams npu = read_part<NpuParams>(file).part;
      Bounded device{name, npu_cost_model(npu), {}, npu.memory_bandwidth, npu.memory_bandwidth};
      for (std::size_t i = 0; i < kDTypes.size(); ++i) device.flops[i] = flops_of(npu, kDTypes[i]);
      out.push_back(std::move(device));
    } else if (kind == CpuParams::kKind) {
      const CpuParams cpu = read_part<CpuParams>(file).part;
      Bounded device{name, make_cpu_cost(cpu), {}, kAny, kAny, 0.6};  // a cache holds small kernels whole
      for (std::size_t i = 0; i < kDTypes.size(); ++i)
        device.flops[i] = std::max(cpu_peak(cpu, kDTypes[i]), cpu_peak(cpu, DType::fp32));
      out.push_back(std::move(device));
    } else if (kind == UpmemParams::kKind) {
      const UpmemParams upmem = read_part<UpmemParams>(file).part;
      Bounded device{name, make_upmem_cost_model(upmem), {}, kAny, kAny};
      device.flops.fill(static_cast<double>(upmem.dpus()) * upmem.clock_hz);  // an instruction a cycle and DPU
      out.push_back(std::move(device));
    } else if (kind == BankPimParams::kKind || kind == AttentionPimParams::kKind) {
      for (const PimOffload offload : {PimOffload::fastest, PimOffload::eligible}) {
        if (kind == BankPimParams::kKind) {
          BankPimParams part = read_part<BankPimParams>(file).part;
          part.offload = offload;
          out.push_back(
              pim(name, part, make_bank_pim_cost(part, host()), part.peak_flops(), part.internal_bandwidth()));
        } else {
          AttentionPimParams part = read_part<AttentionPimParams>(file).part;
          part.offload = offload;
          const double bytes = static_cast<double>(part.stacks) * part.dram.peak_bandwidth() * bandwidth_scale(part);
          // Each byte read serves two FLOPs an element and query.
          out.push_back(pim(name, part, make_attention_pim_cost(part, host()),
                            2 * bytes * static_cast<double>(part.queries_per_read), bytes));
        }
      }
    }
  }
  return out;
}

std::int64_t between(sim::RandomStream& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least) + 1));
}

/// Random sizes with edges among them, whose product stays below 2^56.
class Sizes {
 public:
  explicit Sizes(sim::RandomStream& random) : random_(random) {}
  std::int64_t operator()(std::int64_t most = std::int64_t{1} << 40) {
    const std::int64_t limit = std::max<std::int64_t>(1, std::min(most, (std::int64_t{1} << 56) / product_));
    std::int64_t size = 1;
    switch (random_.below(8)) {
      case 0:
        size = 1;
        break;
      case 1:
        size = limit;
        break;
      case 2:
        size = 0;
        break;
      default: {
        const double log = random_.uniform(0, std::log2(static_cast<double>(limit) + 1));
        size = static_cast<std::int64_t>(std::exp2(log));
        if (random_.below(2) == 0) size = (std::int64_t{1} << static_cast<int>(log)) + between(random_, -1, 1);
      }
    }
    size = std::clamp<std::int64_t>(size, 0, limit);
    product_ *= std::max<std::int64_t>(1, size);
    return size;
  }

 private:
  sim::RandomStream& random_;
  std::int64_t product_ = 1;
};

AttentionPrefill prefill(sim::RandomStream& random, Sizes& size) {
  AttentionPrefill a;
  a.sequences = size(1 << 16);
  const std::int64_t each = size(1 << 16), past = random.below(2) == 0 ? 0 : size(1 << 16);
  a.kv_heads = size(128);
  a.heads = a.kv_heads * between(random, 1, 16);
  a.head_dim = size(1024);
  if (random.below(3) == 0) a.value_dim = size(1024);
  a.causal = random.below(2) == 0;
  a.q_tokens = a.sequences * each;
  a.kv_tokens = each == 0 ? 0 : a.sequences * (each + past);
  a.pairs = a.sequences * (each * past + (a.causal ? each * (each + 1) / 2 : each * each));
  a.q_tiles = a.sequences * ((each + 127) / 128);
  if (a.causal && random.below(3) == 0) {
    a.window = between(random, 1, 4096);
    const auto over = [&](std::int64_t tokens) { return std::max<std::int64_t>(0, tokens - a.window); };
    const std::int64_t last = over(each + past), before = over(past);
    a.pairs -= a.sequences * (last * (last + 1) - before * (before + 1)) / 2;
    if (each > 0) a.kv_tokens = std::min(a.kv_tokens, a.sequences * (each + a.window - 1));
  }
  a.page_tokens = random.below(3) == 0 ? 16 : 0;
  return a;
}

AttentionDecode decode(sim::RandomStream& random, Sizes& size) {
  AttentionDecode a;
  a.sequences = size(1 << 16);
  const std::int64_t each = size(1 << 24);
  a.kv_heads = size(128);
  a.heads = a.kv_heads * between(random, 1, 128);
  a.head_dim = size(1024);
  if (random.below(3) == 0) a.value_dim = size(1024);
  a.latent = random.below(3) == 0;
  a.context_tokens = a.sequences * each;
  a.longest = random.below(3) == 0 ? each * 2 : 0;
  a.page_tokens = random.below(3) == 0 ? 16 : 0;
  return a;
}

GroupedGemm grouped(sim::RandomStream& random, Sizes& size) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(between(random, 1, 64)));
  const std::int64_t most = size(1 << 20);
  for (std::int64_t& r : rows) r = random.below(3) == 0 ? 0 : between(random, 0, most);
  return grouped_gemm(rows, size(1 << 20), size(1 << 20));
}

Conv conv(sim::RandomStream& random, Sizes& size) {
  Conv c;
  c.height = size(1 << 14), c.width = size(1 << 14);
  c.in_channels = size(1 << 12), c.out_channels = size(1 << 12), c.batch = size(1 << 10);
  const auto small = [&](int least, int most) { return static_cast<std::int32_t>(between(random, least, most)); };
  c.kernel_height = small(1, 11), c.kernel_width = small(1, 11), c.stride = small(0, 4);
  c.pad = small(0, 5), c.dilation = small(0, 3), c.groups = small(0, 4);
  return c;
}

Fused fused(sim::RandomStream& random, Sizes& size) {
  Fused f;
  if (random.below(3) != 0) f.gemm = {size(), size(), size(), size(64)};
  Sizes other(random);
  f.other_matrix_flops = random.below(2) == 0 ? 0 : other();
  f.vector_flops = random.below(2) == 0 ? 0 : other(1 << 20);
  f.read_bytes = other(1 << 30), f.write_bytes = other(1 << 30);
  f.kernels = 3;
  return f;
}

KernelShape shape_of(sim::RandomStream& random, std::size_t variant) {
  Sizes size(random);
  switch (variant) {
    case 0:
      return Gemm{size(), size(), size(), random.below(2) == 0 ? 1 : size(1 << 12)};
    case 1:
      return prefill(random, size);
    case 2:
      return decode(random, size);
    case 3: {
      Streaming s{size(), 0, 0, 0, static_cast<Pass>(random.below(9))};
      Sizes other(random);
      s.write_bytes = random.below(4) == 0 ? s.read_bytes / 2 : other();
      s.flops = other(1 << 20);
      s.rows = random.below(2) == 0 ? 0 : Sizes(random)(1 << 30);
      return s;
    }
    case 4:
      return grouped(random, size);
    case 5: {
      Sparse s{random.below(2) == 0 ? SparseKind::spmm : SparseKind::sddmm, size(1 << 30), size(1 << 20), 0, 0, 0};
      Sizes entries(random);
      s.nonzeros = entries(), s.width = entries(1 << 16);
      s.longest_row = random.below(2) == 0 ? 0 : Sizes(random)(s.nonzeros);
      return s;
    }
    case 6:
      return Fft{static_cast<FftKind>(random.below(3)), size(), random.below(2) == 0 ? 1 : size(), size(1 << 20)};
    case 7:
      return conv(random, size);
    default:
      return fused(random, size);
  }
}

constexpr std::size_t kVariants = std::variant_size_v<KernelShape>;

/// What a repeated kernel may find in a cache: passes and transforms, by the tiled model.
bool may_be_hot(const Kernel& kernel) {
  return std::holds_alternative<Streaming>(kernel.shape) || std::holds_alternative<Fft>(kernel.shape);
}

void check_cost(const Bounded& device, const Kernel& kernel) {
  const Work work = work_of(kernel);
  const std::int64_t before = orrery::test::allocations();
  const Cost cost = device.model->cost(kernel), again = device.model->cost(kernel);
  const std::int64_t allocated = orrery::test::allocations() - before;
  CHECK(allocated == 0);
  CHECK(std::memcmp(&cost.time_s, &again.time_s, sizeof(double)) == 0);
  for (const double value :
       {cost.time_s, cost.flops, cost.dram_bytes, cost.compute_energy_j, cost.memory_energy_j, work.flops}) {
    CHECK(std::isfinite(value));
    CHECK(value >= 0);
  }
  CHECK(cost.flops == work.flops);
  if (is_empty(work)) {
    CHECK(cost.time_s == 0);
    CHECK(cost.compute_energy_j + cost.memory_energy_j + cost.dram_bytes == 0);
    return;
  }
  constexpr double kRounding = 1 - 1e-9;
  const double bytes = work.read_bytes + work.write_bytes;
  CHECK(cost.dram_bytes >= bytes * kRounding);
  CHECK(cost.time_s > 0);
  const auto format = static_cast<std::size_t>(kernel.dtype);
  CHECK(cost.time_s >= work.flops / device.flops[format] * kRounding);
  CHECK(cost.time_s >= bytes / (may_be_hot(kernel) ? device.bytes_per_s : device.cold_bytes_per_s) * kRounding);
}

std::string shown(const Kernel& kernel) {
  std::string text = std::string(to_string(kernel.op)) + " " + std::string(to_string(kernel.dtype)) + " variant " +
                     std::to_string(kernel.shape.index());
  const auto add = [&](std::initializer_list<std::int64_t> values) {
    for (const std::int64_t value : values) text += " " + std::to_string(value);
  };
  if (const auto* g = std::get_if<Gemm>(&kernel.shape)) add({g->m, g->n, g->k, g->batch});
  if (const auto* p = std::get_if<AttentionPrefill>(&kernel.shape))
    add({p->sequences, p->q_tokens, p->kv_tokens, p->pairs, p->q_tiles, p->heads, p->kv_heads, p->head_dim,
         p->value_dim, p->causal});
  if (const auto* a = std::get_if<AttentionDecode>(&kernel.shape))
    add({a->sequences, a->context_tokens, a->heads, a->kv_heads, a->head_dim, a->value_dim, a->latent, a->longest});
  if (const auto* s = std::get_if<Streaming>(&kernel.shape))
    add({s->read_bytes, s->write_bytes, s->flops, s->rows, static_cast<std::int64_t>(s->pass)});
  if (const auto* s = std::get_if<Sparse>(&kernel.shape))
    add({static_cast<std::int64_t>(s->kind), s->rows, s->columns, s->nonzeros, s->width, s->longest_row});
  if (const auto* g = std::get_if<GroupedGemm>(&kernel.shape)) add({g->groups, g->rows, g->max_rows, g->n, g->k});
  if (const auto* f = std::get_if<Fft>(&kernel.shape))
    add({static_cast<std::int64_t>(f->kind), f->n0, f->n1, f->batch});
  if (const auto* c = std::get_if<Conv>(&kernel.shape))
    add({c->batch, c->in_channels, c->out_channels, c->height, c->width, c->kernel_height, c->kernel_width, c->stride,
         c->pad, c->dilation, c->groups});
  return text;
}

}  // namespace

TEST_CASE("every model keeps its promises to every kernel", "[prop]") {
  const std::vector<Bounded> all = devices();
  REQUIRE(all.size() > 60);
  sim::RandomStream random(11, "cost properties");
  for (std::size_t round = 0; round < 400; ++round) {
    const std::size_t variant = round % kVariants;
    const Kernel kernel{static_cast<OpClass>(random.below(kOpClasses)), kDTypes[random.below(kDTypes.size())],
                        shape_of(random, variant)};
    INFO(shown(kernel));
    for (const Bounded& device : all) {
      INFO(device.name);
      check_cost(device, kernel);
    }
  }
}

TEST_CASE("more work is not much cheaper", "[prop]") {
  // Tiles, waves and splits make steps, and a library's choice may be the better one for the larger shape, but never by
  // much: a step from one tile or split to the next gives back less than 0.3. On a CPU a shape that is cut into twice
  // as many parts runs on twice as many cores, which is nearly half. One-token prompts are left out: they take the
  // decode kernels, whose copies of grouped heads cost more than a second token; so are products below 2^21
  // multiply-adds, which the library of the Ada family leaves unsplit, as measured (docs/explain/gemm.md), until they
  // grow past that.
  const std::vector<Bounded> all = devices();
  sim::RandomStream random(12, "cost growth");
  for (std::size_t round = 0; round < 300; ++round) {
    const DType dtype = kDTypes[random.below(kDTypes.size())];
    const auto size = [&](std::int64_t most) {
      return static_cast<std::int64_t>(std::exp2(random.uniform(0, std::log2(static_cast<double>(most)))));
    };
    const Gemm g{size(1 << 16), size(1 << 15), size(1 << 15)};
    const AttentionDecode a{size(512), 0, 32, std::int64_t{1} << random.below(6), 128};
    const std::int64_t context = size(1 << 17);
    const auto decode_of = [&](std::int64_t sequences, std::int64_t tokens) {
      AttentionDecode d = a;
      d.sequences = sequences, d.context_tokens = sequences * tokens;
      return Kernel{OpClass::attention_decode, dtype, d};
    };
    const auto product = [&](const Gemm& gemm) { return Kernel{OpClass::ffn_up, dtype, gemm}; };
    const auto prompt = [&](std::int64_t tokens) {
      return Kernel{OpClass::attention_prefill, dtype, hw::test::prompts(4, tokens, 32, 8)};
    };
    const auto pass = [&](std::int64_t rows) { return norm_kernel(Norm::rms, rows, 4096, dtype); };
    const std::int64_t tokens = 1 + size(1 << 14);
    const std::pair<Kernel, Kernel> pairs[] = {
        {product(g), product({2 * g.m, g.n, g.k})},
        {product(g), product({g.m, 2 * g.n, g.k})},
        {product(g), product({g.m, g.n, 2 * g.k})},
        {product(g), product({g.m, g.n, g.k, 2})},
        {decode_of(a.sequences, context), decode_of(2 * a.sequences, context)},
        {decode_of(a.sequences, context), decode_of(a.sequences, 2 * context)},
        {prompt(tokens), prompt(2 * tokens)},
        {pass(tokens), pass(2 * tokens)},
    };
    for (const auto& [less, more] : pairs) {
      INFO(shown(less) << " then " << shown(more));
      const Gemm* small = std::get_if<Gemm>(&less.shape);
      if (small != nullptr && small->m * small->n * small->k < (1 << 21)) continue;
      for (const Bounded& device : all) {
        INFO(device.name);
        CHECK(device.model->cost(more).time_s >= device.growth * device.model->cost(less).time_s);
      }
    }
  }
}

}  // namespace test_cost_properties
