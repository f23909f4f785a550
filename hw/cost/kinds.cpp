// Models that stand with the part that they are made for (hw/npu, hw/parts/cpu.hpp, hw/fpga, hw/pim), by name, and
// `by_kind`: what a machine of any part is priced with where its config names no model.
//
// Processing in memory stands alone here: kernels that it would leave to a host are an obstacle (CostModel::obstacle).
#include <memory>

#include "hw/cost/cost_model.hpp"

namespace orrery::hw {
namespace {

struct NoParams {
  static constexpr auto fields() { return sim::FieldTable<NoParams, 0>(); }
};

struct MadeFor {
  std::unique_ptr<CostModel> operator()(const GpuParams& gpu) const { return make_tiled(gpu); }
  std::unique_ptr<CostModel> operator()(const NpuParams& npu) const { return npu_cost_model(npu); }
  std::unique_ptr<CostModel> operator()(const CpuParams& cpu) const { return make_cpu_cost(cpu); }
  std::unique_ptr<CostModel> operator()(const FpgaParams& fpga) const { return make_fpga_cost(fpga); }
  std::unique_ptr<CostModel> operator()(const UpmemParams& upmem) const { return make_upmem_cost_model(upmem); }
  std::unique_ptr<CostModel> operator()(const BankPimParams& pim) const { return make_bank_pim_cost(pim, nullptr); }
  std::unique_ptr<CostModel> operator()(const AttentionPimParams& pim) const {
    return make_attention_pim_cost(pim, nullptr);
  }
};

/// The model of parts of kind `P`, under a name of its own.
template <class P>
void add(CostModelRegistry& registry, const char* name, const char* doc) {
  registry.add<NoParams>(name, doc, [](const NoParams&, const Device& device) -> std::unique_ptr<CostModel> {
    const P* part = device.as<P>();
    return part != nullptr ? MadeFor{}(*part) : nullptr;
  });
}

}  // namespace

std::unique_ptr<CostModel> make_kind_cost(const Device& device) {
  return std::visit(MadeFor{}, device.part);
}

void register_kinds(CostModelRegistry& registry) {
  registry.add<NoParams>("by_kind", "The model made for the part's kind: tiled for a GPU, npu for an NPU …",
                         [](const NoParams&, const Device& device) { return make_kind_cost(device); });
  add<NpuParams>(registry, "npu",
                 "Tiles that pass through an NPU's scratchpads, matrix and vector units and DMA engines.");
  add<CpuParams>(registry, "cpu",
                 "A roofline of cores, caches and memory channels, with the cost of starting threads.");
  add<FpgaParams>(registry, "fpga",
                  "One kernel at a time on the largest design of multiply-add cores that fits the FPGA.");
  add<UpmemParams>(registry, "upmem",
                   "Instructions and transfers of UPMEM's cores, with the operands spread over all of them.");
  add<BankPimParams>(registry, "bank_pim",
                     "Command streams of processing units at DRAM banks; other kernels need a host.");
  add<AttentionPimParams>(registry, "attention_pim", "Decode attention in the memory; other kernels need a host.");
}

}  // namespace orrery::hw
