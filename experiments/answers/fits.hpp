// Whether a model with experts fits a GPU with a host, with which weights, and at how many tokens a second
// (docs/how-to/experts.md).
#pragma once

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct FitsParams {
  std::string model, part, host, link = "pcie4-x16", engine = "kt_kernel", router, storage;
  std::vector<std::string> weights;
  std::int64_t devices = 1, sockets = 1, context = 4096, batch = 1;
  static constexpr auto fields() {
    using P = FitsParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("model", &P::model, Unit::text, sim::any_value(),
                                 "Model with experts: a name from the catalog, or a config.json.")),
        sim::required(sim::field("part", &P::part, Unit::text, sim::any_value(), "GPU, a part from the catalog.")),
        sim::field("host", &P::host, Unit::text, sim::any_value(),
                   "CPU of the host, which computes experts; empty: none, the host only stores them."),
        sim::field("link", &P::link, Unit::text, sim::any_value(), "Link from host to GPU."),
        sim::field("storage", &P::storage, Unit::text, sim::any_value(),
                   "Drive for the experts that do not fit in host memory, such as nvme-gen4; empty: none."),
        sim::field("engine", &P::engine, Unit::text, sim::any_value(),
                   "Engine whose measured overheads are counted: kt_kernel, ktransformers_0_2, or ideal."),
        sim::field("router", &P::router, Unit::path, sim::any_value(), "Router trace; empty: one drawn at random."),
        sim::field("weights", &P::weights, Unit::text, sim::any_value(),
                   "Weight formats to try; empty: as published, fp8 and int4."),
        sim::field("devices", &P::devices, Unit::count, sim::between(1, 1024), "GPUs."),
        sim::field("sockets", &P::sockets, Unit::count, sim::between(1, 64), "CPUs."),
        sim::field("context", &P::context, Unit::tokens, sim::between(1, 1 << 24), "Context length of each text."),
        sim::field("batch", &P::batch, Unit::count, sim::between(1, 1 << 16), "Batch size in texts.")};
  }
};

struct FitsAnswer {
  struct Row {
    std::string weights, schedule;
    std::string reason;  ///< why it does not fit; empty: it does
    double share = 0, tokens_per_s = 0, step_s = 0, dense_s = 0, waited_s = 0, gpu_bytes = 0, host_bytes = 0;
    double drive_s = 0;  ///< that the drive reads, of a step
    sim::Node config;    ///< what `orrery run` takes
  };
  std::string asked;    ///< model and machine, for people
  std::string assumed;  ///< what the figures rest on
  std::vector<Row> rows;
  bool drive = false;       ///< there is one
  const Row* best() const;  ///< null where nothing fits
};

/// Runs each format with each way to treat missing experts. Throws sim::ConfigError.
FitsAnswer ask_fits(const FitsParams& params, const Systems& systems);
sim::Node fits_node(const FitsAnswer& answer);
std::string fits_text(const FitsAnswer& answer);

}  // namespace orrery::experiments
