#include "experiments/systems/hls/system.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "hw/fpga/hls.hpp"

namespace orrery::experiments {
namespace hls {
namespace {

using sim::Node;

struct MachineParams {
  std::string fpga = "alveo-u280";
  static constexpr auto fields() {
    return sim::FieldTable{names_part(sim::field("fpga", &MachineParams::fpga, sim::Unit::reference, sim::any_value(),
                                                 "FPGA, a part of kind fpga."))};
  }
};

struct WorkloadParams {
  std::string kernel = "gemm";
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("kernel", &WorkloadParams::kernel, "gemm, nw, spmv or stencil.")};
  }
};

/// Pragmas of a loop.
struct LoopParams {
  std::int64_t parallel = 1;
  hw::HlsPipeline pipeline = hw::HlsPipeline::off;
  static constexpr auto fields() {
    using L = LoopParams;
    return sim::FieldTable{
        sim::field("parallel", &L::parallel, sim::Unit::count, sim::between(1, 65536),
                   "Parallel copies of the loop body."),
        sim::field("pipeline", &L::pipeline,
                   "Pipelining. `off`: none. `fine`: iterations overlap, and loops inside are unrolled."),
    };
  }
};

struct DesignParams {
  LoopParams outer, middle, inner;
  bool coarse = false, cache = false;
  std::int64_t tiles = 1, interface_bits = 32;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DesignParams;
    return sim::FieldTable{
        sim::field("outer", &D::outer, "The outermost loop."),
        sim::field("middle", &D::middle, "The middle loop, inside the outermost."),
        sim::field("inner", &D::inner, "The innermost loop."),
        sim::field("coarse", &D::coarse, "Whether a tile is transferred while the one before is computed."),
        sim::field("cache", &D::cache, "Whether arrays are cached on chip."),
        sim::field("tiles", &D::tiles, Unit::count, sim::between(1, 65536),
                   "Number of tiles that the outermost loop is cut into."),
        sim::field("interface_bits", &D::interface_bits, Unit::count, sim::between(8, 1024),
                   "Width of the memory port in bits."),
    };
  }
};

struct Sections {
  MachineParams machine;
  WorkloadParams workload;
  DesignParams design;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::section("machine", &S::machine, "The FPGA."),
                           sim::section("workload", &S::workload, "The loop nest."),
                           sim::section("design", &S::design, "Pragmas of the design.")};
  }
};

class HlsExperiment final : public ConfigExperiment {
 public:
  HlsExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    const auto config = read_sections<Sections>(root, *systems.registries(), faults);
    const Node machine = section(root, "machine"), workload = section(root, "workload");
    const auto& [part, work, design] = config;
    const std::vector<std::string> names = hw::hls_kernel_names();
    if (std::find(names.begin(), names.end(), work.kernel) == names.end())
      faults.add(place_of(workload, "kernel"), fmt::format("unknown kernel '{}'", work.kernel),
                 sim::name_hint(work.kernel, names));
    const std::filesystem::path file = part_file(part.fpga, place_of(machine, "fpga"), faults);
    if (!faults.empty()) return;
    inputs_.push_back(file);
    fpga_ = hw::read_part<hw::FpgaParams>(file).part;
    kernel_ = hw::hls_kernel(work.kernel);
    design_ = {.parallel = {design.outer.parallel, design.middle.parallel, design.inner.parallel},
               .pipeline = {design.outer.pipeline, design.middle.pipeline, design.inner.pipeline},
               .coarse = design.coarse,
               .cache = design.cache,
               .tiles = design.tiles,
               .interface_bits = design.interface_bits};
    resolved_ = resolved_config("hls", config);
  }

  Outcome run(const RunSink&) const override {
    Outcome outcome;
    Node& node = outcome.summary = Node::object();
    const auto result = hw::hls_time(fpga_, kernel_, design_);
    if (const auto* lacks = std::get_if<hw::FpgaDoesNotFit>(&result)) {
      node.set("status", Node::string("infeasible"));
      node.set("reason", Node::string(lacks->reason));
      return outcome;
    }
    const hw::HlsOutcome& out = std::get<hw::HlsOutcome>(result);
    const double all = out.memory + out.compute;
    node.set("status", Node::string("ok"));
    node.set("cycles", Node::real(out.cycles));
    node.set("simulated_s", Node::real(out.cycles / fpga_.clock_hz));
    Node& shares = node.set("share", Node::object());
    shares.set("memory", ratio(out.memory, all));
    shares.set("outer", ratio(out.loop[0], all));
    shares.set("middle", ratio(out.loop[1], all));
    shares.set("inner", ratio(out.loop[2], all));
    Node& used = node.set("utilisation", Node::object());
    used.set("dsp", ratio(out.dsp, static_cast<double>(fpga_.dsp)));
    used.set("bram18", ratio(out.bram18, static_cast<double>(fpga_.bram18)));
    used.set("lut", ratio(out.lut, static_cast<double>(fpga_.lut)));
    return outcome;
  }

 private:
  hw::FpgaParams fpga_;
  hw::HlsKernel kernel_;
  hw::HlsDesign design_;
};

}  // namespace
}  // namespace hls

System hls_system() {
  return {.name = "hls",
          .doc = "Prices a loop nest under pragmas of high-level synthesis on an FPGA, in closed form.",
          .fields = describe_sections<hls::Sections>,
          .read = read_as<hls::HlsExperiment>};
}

}  // namespace orrery::experiments
