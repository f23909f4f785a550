// The kinds of part that the catalog may hold. A new kind is a parameter struct with a kKind, and a line here.
#include "hw/catalog.hpp"
#include "hw/coupling/platform.hpp"
#include "hw/cpu.hpp"
#include "hw/gpu.hpp"
#include "hw/memory/dram.hpp"

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
      kind_of<CpuParams>("A CPU: cores with vector and matrix units, caches and memory channels."),
      kind_of<DramParams>("A memory device as its banks see it: organisation, timings, energy."),
      kind_of<GpuParams>("A GPU: multiprocessors behind one cache and one memory."),
      kind_of<PlatformParams>("A CPU thread that dispatches to a GPU, and the link between them."),
      kind_of<ProcessParams>("A manufacturing process: SRAM cell, logic density, wafer price, defects."),
  };
  return kinds;
}

}  // namespace orrery::hw
