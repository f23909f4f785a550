// The kinds of part that the catalog may hold. A new kind is a parameter struct with a kKind, and a line here.
#include "hw/catalog.hpp"
#include "hw/gpu.hpp"

namespace orrery::hw {
namespace {

template <CatalogPart P>
PartKind kind_of(const char* doc) {
  return {std::string(P::kKind), doc, sim::describe_params<P>(), [](const sim::Node& fields, sim::Faults& faults) {
            return sim::write_params(sim::parse_params<P>(fields, faults));
          }};
}

}  // namespace

const std::vector<PartKind>& part_kinds() {
  static const std::vector<PartKind> kinds{
      kind_of<GpuParams>("A GPU: multiprocessors behind one cache and one memory."),
      kind_of<ProcessParams>("A manufacturing process: SRAM cell, logic density, wafer price, defects."),
  };
  return kinds;
}

}  // namespace orrery::hw
