// `orrery fits MODEL PART`: whether a model with experts fits a GPU with a host, and at how many tokens a second
// (docs/how-to/experts.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/answers/fits.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {

void add_fits(CLI::App& app, Action& action) {
  struct Options {
    experiments::FitsParams params;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  experiments::FitsParams& p = options->params;
  CLI::App* command = app.add_subcommand(
      "fits", "Tell whether a model with experts fits a GPU and its host, and at how many tokens per second");
  command->add_option("MODEL", p.model, "Model with experts: from the catalog, or a config.json")->required();
  command->add_option("PART", p.part, "GPU, a part from the catalog")->required();
  command->add_option("--devices", p.devices, "Number of GPUs (1)")->check(CLI::Range(1, 1024));
  command->add_option("--host", p.host,
                      "CPU of the host, which computes experts (default: none, the host only stores them)");
  command->add_option("--sockets", p.sockets, "Number of CPU sockets (1)")->check(CLI::Range(1, 64));
  command->add_option("--storage", p.storage,
                      "Drive for the experts that do not fit in host memory, such as nvme-gen4");
  command->add_option("--link", p.link, "Link from host to GPU (pcie4-x16)");
  command->add_option("--weights", p.weights, "Weight formats to try (default: as published, fp8, int4)")
      ->delimiter(',');
  command->add_option("--context", p.context, "Context length of each text in tokens (4096)")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--batch", p.batch, "Batch size in texts (1)")->check(CLI::Range(1, 1 << 16));
  command->add_option("--router", p.router, "Router trace (default: one drawn at random)");
  command->add_option("--engine", p.engine,
                      "Engine whose overheads are counted: kt_kernel (default), ktransformers_0_2, ideal");
  command->add_flag("--json", options->json, "Print JSON, with the config of each row");
  command->callback([options, &action] {
    action = [options](const Systems& systems) {
      const experiments::FitsAnswer answer = experiments::ask_fits(options->params, systems);
      fmt::print("{}", options->json ? experiments::fits_node(answer).dump(2) + "\n" : experiments::fits_text(answer));
      return 0;
    };
  });
}

}  // namespace orrery::tools
