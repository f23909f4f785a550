// `learned`: the tiled model's time, corrected by what trees have learned of its errors on this very part.
//
// The residual (hw/cost/residual.hpp) stands in the catalog (`hw/catalog/residuals/<part>.json`), or is made from a
// user's tables by `orrery calibrate PART --residual`. A kernel of another kind, outside the sizes that were measured,
// or on a device at another clock or with other constants than its catalog entry's, costs what `tiled` says. FLOPs,
// traffic, dynamic energy and what bounds a kernel are those of `tiled`; the power of a busy device goes with the time.
// Collectives of NCCL among devices of this kind are corrected likewise. Tables of attention hold the write of new keys
// and values too: the factor of both together is taken for attention's.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "hw/cost/cost_model.hpp"
#include "hw/cost/residual.hpp"
#include "sim/base/home.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::hw {
namespace {

namespace fs = std::filesystem;

struct LearnedParams {
  std::string residual, library;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field(
            "residual", &LearnedParams::residual, Unit::path, sim::any_value(),
            "Correction file written by `orrery calibrate PART --residual`; empty: that of the part in the catalog."),
        sim::field("library", &LearnedParams::library, Unit::text, sim::any_value(),
                   "Library whose kernels are corrected, as named in the part's `tables` (vllm_hot_cache, kernel …); "
                   "empty: the first of each kind."),
    };
  }
};

/// Blocks of a residual by kind, of one library; null where it has none. The residual is kept for them.
struct Blocks {
  std::shared_ptr<const Residual> residual;
  const ResidualBlock *gemm = nullptr, *prefill = nullptr, *decode = nullptr, *collective = nullptr;

  const ResidualBlock* of(ResidualKind kind) const {
    switch (kind) {
      case ResidualKind::gemm:
        return gemm;
      case ResidualKind::attention_prefill:
        return prefill;
      case ResidualKind::attention_decode:
        return decode;
      case ResidualKind::collective:
        return collective;
    }
    return nullptr;
  }
};

/// No blocks where the residual is of other constants than the device has: another clock, say, or an override.
Blocks read_blocks(const LearnedParams& params, const std::string& part, const GpuParams& gpu) {
  const fs::path file = params.residual.empty() ? sim::home_folder() / "hw/catalog/residuals" / (part + ".json")
                                                : fs::path(params.residual);
  if (params.residual.empty() && !fs::exists(file))
    sim::throw_fault({"learned", ""}, fmt::format("the catalog has no residual of '{}'", part),
                     "`orrery calibrate PART --residual` makes one of measured tables; `residual` names its file");
  sim::Faults faults;
  const auto residual = std::make_shared<const Residual>(parse_residual(sim::read_json(file), faults));
  faults.throw_if_any();
  if (residual->part != part)
    sim::throw_fault({file.string(), "/part"},
                     fmt::format("expected a residual of '{}', got one of '{}'", part, residual->part));
  if (residual->model != model_fingerprint(gpu)) return {};
  const auto block = [&](ResidualKind kind) { return residual->block(kind, params.library); };
  Blocks blocks{residual, block(ResidualKind::gemm), block(ResidualKind::attention_prefill),
                block(ResidualKind::attention_decode), residual->block(ResidualKind::collective, "nccl")};
  if (blocks.gemm == nullptr && blocks.prefill == nullptr && blocks.decode == nullptr && !params.library.empty()) {
    std::set<std::string> known;
    for (const ResidualBlock& b : residual->blocks)
      if (b.kind != ResidualKind::collective) known.insert(b.library);
    sim::throw_fault({file.string(), "/blocks"}, fmt::format("no block of kernels of library '{}'", params.library),
                     sim::name_hint(params.library, {known.begin(), known.end()}));
  }
  return blocks;
}

class LearnedCollectives final : public CollectiveCorrection {
 public:
  explicit LearnedCollectives(Blocks blocks) : blocks_(std::move(blocks)) {}
  double factor(int call, std::int64_t ranks, std::int64_t bytes) const override {
    const ResidualQuery query = residual_query(static_cast<LibraryCall>(call), ranks, bytes);
    return blocks_.collective->factor(query).value_or(1);
  }

 private:
  Blocks blocks_;
};

class Learned final : public CostModel {
 public:
  Learned(const LearnedParams& params, const Device& device, const GpuParams& gpu)
      : tiled_(make_tiled(gpu)),
        sms_(gpu.sms),
        active_w_(gpu.power.active_w),
        blocks_(read_blocks(params, device.name, gpu)) {}

  Cost cost(const Kernel& kernel) const override {
    Cost cost = tiled_->cost(kernel);
    if (cost.time_s == 0) return cost;
    const std::optional<ResidualQuery> query = residual_query(kernel, sms_);
    const ResidualBlock* block = query ? blocks_.of(query->kind) : nullptr;
    if (block == nullptr) return cost;
    const double tiled_s = cost.time_s;
    cost.time_s *= block->factor(*query).value_or(1);
    cost.compute_energy_j += active_w_ * (cost.time_s - tiled_s);
    return cost;
  }

  std::shared_ptr<const CollectiveCorrection> collectives() const override {
    if (blocks_.collective == nullptr) return nullptr;
    return std::make_shared<const LearnedCollectives>(blocks_);
  }

 private:
  std::unique_ptr<CostModel> tiled_;
  std::int64_t sms_;
  double active_w_;
  Blocks blocks_;
};

}  // namespace

void register_learned(CostModelRegistry& registry) {
  registry.add<LearnedParams>("learned",
                              "The tiled model times a correction learned from measured tables of the same part.",
                              [](const LearnedParams& params, const Device& device) -> std::unique_ptr<CostModel> {
                                const auto* gpu = device.as<GpuParams>();
                                return gpu != nullptr ? std::make_unique<Learned>(params, device, *gpu) : nullptr;
                              });
}

}  // namespace orrery::hw
