#include "hw/network/collective_parts.hpp"

namespace orrery::hw {

sim::FieldRows<RingParams> RingParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("channels", &RingParams::channels, Unit::count, sim::between(1, 4096),
                 "Rings side by side (in each direction), each with a part of every shard."),
      sim::field("chunks", &RingParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Chunks into which a channel cuts its part; each goes on as soon as it has arrived."),
      sim::field("chunk_bytes", &RingParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest chunk: raises the number of chunks where it must; null sets no limit."),
      sim::field("bidirectional", &RingParams::bidirectional, "Half of every shard runs the other way round."),
  };
  return table;
}

sim::FieldRows<DoubleTreeParams> DoubleTreeParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("chunks", &DoubleTreeParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Chunks into which each tree cuts its half of the buffer."),
      sim::field("chunk_bytes", &DoubleTreeParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest chunk: raises the number of chunks where it must; null sets no limit."),
  };
  return table;
}

sim::FieldRows<DirectParams> DirectParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("staggered", &DirectParams::staggered,
                 "Rank r sends to r+1, r+2 …, so that receivers differ; else all send to 0, 1 … in this order."),
      sim::field(
          "window", &DirectParams::window, Unit::count, sim::between(0, 1 << 30),
          "Messages that a rank has under way, or waiting for a receiver to enter, at a time; 0 sends all at once."),
  };
  return table;
}

sim::FieldRows<HierarchicalParams> HierarchicalParams::fields() {
  static const sim::FieldTable table{
      sim::field("inside", &HierarchicalParams::inside, "Algorithm among the ranks of a node."),
      sim::field("across", &HierarchicalParams::across, "Algorithm between the nodes."),
      sim::field("ring", &HierarchicalParams::ring, "Parameters where a level is a ring."),
      sim::field("direct", &HierarchicalParams::direct, "Parameters where a level is direct, and of all_to_all."),
  };
  return table;
}

sim::FieldRows<InNetworkParams> InNetworkParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("chunks", &InNetworkParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Chunks of the buffer (all_gather, reduce_scatter: of a shard) that follow each other up and down."),
      sim::field("chunk_bytes", &InNetworkParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest chunk: raises the number of chunks where it must; null sets no limit."),
  };
  return table;
}

}  // namespace orrery::hw
