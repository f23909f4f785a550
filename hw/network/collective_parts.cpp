#include "hw/network/collective_parts.hpp"

namespace orrery::hw {

sim::FieldRows<RingParams> RingParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("channels", &RingParams::channels, Unit::count, sim::between(1, 4096),
                 "Number of parallel rings (in each direction), each of which carries a part of every shard."),
      sim::field("chunks", &RingParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Number of chunks into which a channel cuts its part; each is forwarded as soon as it has arrived."),
      sim::field("chunk_bytes", &RingParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest size of a chunk, which raises the number of chunks where needed; null: no limit."),
      sim::field("bidirectional", &RingParams::bidirectional,
                 "Whether half of every shard runs round the ring the other way."),
  };
  return table;
}

sim::FieldRows<DoubleTreeParams> DoubleTreeParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("chunks", &DoubleTreeParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Number of chunks into which each tree cuts its half of the buffer."),
      sim::field("chunk_bytes", &DoubleTreeParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest size of a chunk, which raises the number of chunks where needed; null: no limit."),
  };
  return table;
}

sim::FieldRows<DirectParams> DirectParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field(
          "staggered", &DirectParams::staggered,
          "Whether rank r sends to r+1, r+2 …, so that receivers differ; otherwise all send to 0, 1 … in this order."),
      sim::field("window", &DirectParams::window, Unit::count, sim::between(0, 1 << 30),
                 "Most messages that a rank has under way, or waiting for a receiver to enter the collective; 0: all "
                 "at once."),
  };
  return table;
}

sim::FieldRows<HierarchicalParams> HierarchicalParams::fields() {
  static const sim::FieldTable table{
      sim::field("inside", &HierarchicalParams::inside, "Algorithm among the ranks of a node."),
      sim::field("across", &HierarchicalParams::across, "Algorithm between the nodes."),
      sim::field("ring", &HierarchicalParams::ring, "Parameters of levels that use a ring."),
      sim::field("direct", &HierarchicalParams::direct, "Parameters of levels that use direct, and of all_to_all."),
  };
  return table;
}

sim::FieldRows<InNetworkParams> InNetworkParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("chunks", &InNetworkParams::chunks, Unit::count, sim::between(1, 1 << 20),
                 "Number of chunks of the buffer (of a shard in all_gather and reduce_scatter) that follow each other "
                 "up and down the tree."),
      sim::field("chunk_bytes", &InNetworkParams::chunk_bytes, Unit::bytes, sim::at_least(1),
                 "Largest size of a chunk, which raises the number of chunks where needed; null: no limit."),
  };
  return table;
}

}  // namespace orrery::hw
