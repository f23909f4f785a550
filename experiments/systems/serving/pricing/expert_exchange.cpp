#include "experiments/systems/serving/pricing/expert_exchange.hpp"

namespace orrery::experiments {

sim::FieldRows<ExpertExchangeParams> ExpertExchangeParams::fields() {
  using P = ExpertExchangeParams;
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("kernel", &P::kernel,
                 "Kernel of the exchange. `low_latency`: a row for each chosen expert straight to its device. "
                 "`normal`: once to each node, then on to its devices."),
      sim::field(
          "nic", &P::nic, Unit::bytes_per_s, sim::between(1e3, 1e15),
          "Bandwidth that the kernel reaches on a device's network card; null: that of DeepEP on H800 and ConnectX-7."),
      sim::field("node", &P::node, Unit::bytes_per_s, sim::between(1e3, 1e15),
                 "Bandwidth that the kernel reaches inside a node; null: that of DeepEP on H800."),
      sim::field("start", &P::start_s, Unit::seconds, sim::between(0, 1),
                 "Start-up time of an exchange; null: that of DeepEP on H800."),
      sim::field("node_devices", &P::node_devices, Unit::count, sim::between(1, 4096), "Devices in a node."),
      sim::field("node_limit", &P::node_limit, Unit::count, sim::at_least(0),
                 "Nodes that the experts of a token may lie on (kernel `normal`); 0: any number."),
      sim::field("in_turns", &P::in_turns,
                 "Whether a batch is split into two halves, one of which computes while the other's rows travel.")};
  return table;
}

double ExpertExchange::time_s(std::int64_t bytes, std::int64_t ranks) const {
  hw::ExchangeRates rates = hw::deepep_v1(params.kernel);
  rates.nic = params.nic.value_or(rates.nic);
  rates.node = params.node.value_or(rates.node);
  rates.start_s = params.start_s.value_or(rates.start_s);
  // One token with rows as large as all of the tokens' together: bytes are what counts.
  const hw::ExchangeShape shape{.tokens = 1,
                                .top_k = top_k,
                                .gpus = ranks,
                                .node_gpus = params.node_devices,
                                .node_limit = params.node_limit,
                                .row_bytes = (bytes + top_k - 1) / top_k};
  return hw::expert_exchange(params.kernel, shape, rates).time_s;
}

}  // namespace orrery::experiments
