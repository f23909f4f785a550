// A computing part of the catalog, whatever its kind.
//
// Other parts (links, adapters, memories, processes, platforms) are not asked to run kernels. A new kind of computing
// part is a parameter struct with a kKind, a line here and in hw/part_kinds.cpp, what it gives a Device
// (hw/device/device.cpp), and a cost model (hw/cost).
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "hw/fpga/fpga.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/npu/npu.hpp"
#include "hw/parts/cpu.hpp"
#include "hw/pim/attention_pim.hpp"
#include "hw/pim/bank_pim.hpp"
#include "hw/pim/upmem.hpp"

namespace orrery::hw {

using Part = std::variant<GpuParams, NpuParams, CpuParams, FpgaParams, UpmemParams, BankPimParams, AttentionPimParams>;

/// "gpu", "npu" …, as catalog entries name it.
constexpr std::string_view kind_of(const Part& part) {
  return std::visit([]<class P>(const P&) { return P::kKind; }, part);
}

}  // namespace orrery::hw
