// VM: a bytecode virtual machine on the device; the host encodes a kernel instead of compiling it (DVM, arXiv
// 2603.24239; mindspore-ai/dvm).
//
// Decides: encode, when sizes are new, or relocate addresses in bytecode that is kept. Per kernel with n instructions
//   host = normalize + encode + n instruction     (new sizes)      or relocate,      and submit
// spread over the launches, so that the device runs while the host encodes the next. Threads: `serial` waits for every
// kernel, `one_ahead` is one host thread that runs ahead, `phased` has a thread each for normalize, encode and submit,
// so the longest of them counts. On the device every tile decodes n instructions; a kernel lasts no less than that. The
// times are named assumptions (docs/explain/dvm.md): the authors say some 100 us for most fused ops, and nothing finer.
#include <algorithm>

#include "policies/execution/execution.hpp"
#include "policies/execution/shape_cache.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {

enum class VmThreads : std::uint8_t { serial, one_ahead, phased };
constexpr auto enum_names(VmThreads) {
  using enum VmThreads;
  return sim::names<VmThreads>({{"serial", serial}, {"one_ahead", one_ahead}, {"phased", phased}});
}

namespace {

struct VmParams {
  double normalize_s = 20e-6, encode_s = 30e-6, instruction_s = 5e-6, relocate_s = 3e-6, submit_s = 5e-6,
         decode_s = 50e-9;
  std::int64_t entries = 0, tile_bytes = 16384, lanes = 2;
  VmThreads threads = VmThreads::one_ahead;

  static constexpr auto fields() {
    using sim::Unit;
    using P = VmParams;
    constexpr sim::Range kTime = sim::between(0, 1000);
    return sim::FieldTable{
        sim::field("normalize", &P::normalize_s, Unit::seconds, kTime,
                   "Host time to infer the shapes of a kernel for new sizes."),
        sim::field("encode", &P::encode_s, Unit::seconds, kTime,
                   "Host time to write a kernel's bytecode, whatever its length."),
        sim::field("instruction", &P::instruction_s, Unit::seconds, kTime,
                   "Host time to write one instruction of bytecode."),
        sim::field("relocate", &P::relocate_s, Unit::seconds, kTime,
                   "Host time to put new addresses into kept bytecode."),
        sim::field("submit", &P::submit_s, Unit::seconds, kTime, "Host time to submit a kernel to the device."),
        sim::field("decode", &P::decode_s, Unit::seconds, kTime,
                   "Device time to decode one instruction; every tile decodes all of them."),
        sim::field("entries", &P::entries, Unit::count, sim::at_least(0),
                   "Number of shapes whose bytecode is kept; 0: all."),
        sim::field("tile", &P::tile_bytes, Unit::bytes, sim::between(32, 1 << 30),
                   "Largest size of an operand's tile."),
        sim::field("lanes", &P::lanes, Unit::count, sim::between(1, 64), "Number of vector cores in each core."),
        sim::field("threads", &P::threads,
                   "How the phases of the host overlap: one after another (serial), one thread ahead (one_ahead), or a "
                   "thread per phase (phased)."),
    };
  }
};

class Vm final : public Execution {
 public:
  explicit Vm(const VmParams& params) : params_(params), cache_(params.entries) {}

  ExecutionDecision decide(const ExecutionView& view) override {
    ExecutionDecision decision;
    decision.sizes = view.request;
    decision.decode_s = params_.decode_s;
    decision.tile_bytes = params_.tile_bytes;
    decision.lanes = params_.lanes;
    decision.wait_each = params_.threads == VmThreads::serial;
    const bool phased = params_.threads == VmThreads::phased;
    if (cache_.use(view.request)) {
      decision.host_kernel_s = phased ? std::max(params_.relocate_s, params_.submit_s)  // the longest phase paces
                                      : params_.relocate_s + params_.submit_s;
      return decision;
    }
    const auto kernels = static_cast<double>(view.kernels), instructions = static_cast<double>(view.instructions);
    const double encode_s = kernels > 0 ? params_.encode_s + params_.instruction_s * instructions / kernels : 0;
    decision.compiled = view.kernels;
    decision.kernel_compile_s =
        params_.normalize_s + params_.encode_s + params_.instruction_s * static_cast<double>(view.most_instructions);
    decision.compile_s = kernels * (params_.normalize_s + encode_s);
    if (phased) {
      decision.host_kernel_s = std::max({params_.normalize_s, encode_s, params_.submit_s});
    } else {
      decision.host_kernel_s = params_.normalize_s + params_.encode_s + params_.submit_s;
      decision.host_instruction_s = params_.instruction_s;
    }
    return decision;
  }

 private:
  VmParams params_;
  ShapeCache cache_;
};

}  // namespace

void add_vm(ExecutionRegistry& registry) {
  registry.add<VmParams>(
      "vm", "The host writes bytecode for each set of sizes, which a virtual machine on the device runs (DVM).",
      [](const VmParams& params) { return std::make_unique<Vm>(params); });
}

}  // namespace orrery::policies
