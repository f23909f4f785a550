// The kinds of part that the catalog may hold. A new kind is a parameter struct with a kKind, and a line here.
#include "hw/coupling/platform.hpp"
#include "hw/fpga/fpga.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/memory/dram.hpp"
#include "hw/npu/npu.hpp"
#include "hw/parts/catalog.hpp"
#include "hw/parts/cpu.hpp"
#include "hw/parts/link_part.hpp"
#include "hw/parts/memory_tier.hpp"
#include "hw/parts/nic.hpp"
#include "hw/pim/attention_pim.hpp"
#include "hw/pim/bank_pim.hpp"
#include "hw/pim/pygim_spmm.hpp"
#include "hw/pim/upmem.hpp"

namespace orrery::hw {
namespace {

template <CatalogPart P>
PartKind kind_of(const char* doc) {
  return {std::string(P::kKind), doc, sim::describe_params<P>(), [](const sim::Node& fields, sim::Faults& faults) {
            return sim::write_params(parse_fields<P>(fields, faults));
          }};
}

}  // namespace

const std::vector<PartKind>& part_kinds() {
  static const std::vector<PartKind> kinds{
      kind_of<AttentionPimParams>(
          "Attention in memory: stacks with processing units at banks, bank groups or the buffer die."),
      kind_of<BankPimParams>("Processing in memory at the banks: units, registers and the memory that holds them."),
      kind_of<CpuParams>("A CPU: cores with vector and matrix units, caches and memory channels."),
      kind_of<DramParams>("A memory device at the level of its banks: organisation, timings and energy."),
      kind_of<FpgaParams>("An FPGA with a static design of multiply-add cores."),
      kind_of<GpuParams>("A GPU: multiprocessors behind one cache and one memory."),
      kind_of<LinkPart>("A link between two devices: NVLink, XGMI or PCIe."),
      kind_of<MemoryTier>("A tier of memory or storage: DRAM, HBM, CXL expanders or drives."),
      kind_of<NicPart>("A network adapter: InfiniBand, RoCE or Ethernet."),
      kind_of<NpuParams>("An NPU: cores with matrix and vector units, scratchpads and DMA, behind one memory."),
      kind_of<PimSpmmParams>("Sparse matrix products divided over UPMEM, with the host's CPU as their baseline."),
      kind_of<PlatformParams>("A CPU thread that dispatches to a GPU, and the link between them."),
      kind_of<ProcessParams>("A manufacturing process: SRAM cell, logic density, wafer price and defects."),
      kind_of<UpmemParams>("UPMEM DIMMs, with a core beside every DRAM bank, and the host that feeds them."),
  };
  return kinds;
}

}  // namespace orrery::hw
