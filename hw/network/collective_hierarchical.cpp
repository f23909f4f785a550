// `hierarchical`: inside the nodes, across them, inside again; nodes may have different numbers of ranks.
//
// k, the fewest ranks of a node, is the number of rails: the first k ranks of every node are owners, and those of equal
// number form a rail. All-reduce: the ranks of a node reduce-scatter onto its k owners, each rail all-reduces its part,
// and the owners all-gather inside. All-gather: ranks that are no owners give their shard to owner i mod k, each rail
// all-gathers, and the owners all-gather inside; reduce-scatter is the reverse. Broadcast: from the root to a leader a
// node, then inside. All-to-all: what a node's ranks have for node h is collected at rank h mod (ranks of the node),
// goes across as one message, and is handed out there (always `direct`).
// Each part is a schedule of its own over some of the ranks; a rank enters the next one when it is through with one, so
// parts follow each other without a barrier, but a chunk does not run ahead into the next part.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {
namespace {

constexpr std::uint32_t kNoPart = ~0U;
constexpr unsigned kStageShift = 62;
constexpr std::uint64_t kTagMask = (1ULL << kStageShift) - 1;

/// A schedule over some of the ranks, and which of the collective's bytes it numbers how (no need of order).
struct Part {
  std::unique_ptr<CollectiveSchedule> schedule;
  std::vector<Member> ranks;
};

struct Stage {
  std::vector<Part> parts;
  std::vector<std::uint32_t> part_of;  // of each rank; kNoPart where it has none
  std::vector<Member> number_in;       // of each rank in its part
};

using Layout = std::vector<Piece>;

class Hierarchical final : public CollectiveSchedule {
 public:
  Hierarchical(const HierarchicalParams& params, const CollectiveSpec& spec)
      : params_(params),
        spec_(spec),
        shards_(Shards::of(spec)),
        groups_(spec.local_group.empty() ? 0 : *std::ranges::max_element(spec.local_group) + 1),
        local_(static_cast<std::size_t>(spec.ranks)),
        reached_(static_cast<std::size_t>(spec.ranks), 0) {
    for (Member rank = 0; rank < local_.size(); ++rank) {
      std::vector<Member>& group = groups_[spec.local_group[rank]];
      local_[rank] = static_cast<Member>(group.size());
      group.push_back(rank);
    }
    rails_ = local_.size();
    for (const std::vector<Member>& group : groups_) rails_ = std::min(rails_, group.size());
    build();
    for (std::size_t s = 0; s < stages_.size(); ++s) held_.emplace_back(local_.size());
  }

  void enter(Member rank, MessageSink& sink) override { enter_stage(rank, 0, sink); }
  void arrived(const Message& message, MessageSink& sink) override;
  void describe(const Message& message, std::vector<Piece>& pieces) const override;
  bool keeps(const Message& message) const override { return reached_[message.to] <= message.tag >> kStageShift; }

 private:
  /// Passes on what a part emits, in the collective's own members.
  class PartSink final : public MessageSink {
   public:
    PartSink(Hierarchical& owner, std::size_t stage, const Part& part, MessageSink& sink)
        : owner_(owner), stage_(stage), part_(part), sink_(sink) {}
    void send(const Message& message) override {
      sink_.send({part_.ranks[message.from], part_.ranks[message.to], message.channel, message.bytes,
                  message.tag | std::uint64_t{stage_} << kStageShift});
    }
    void finished(Member rank) override { owner_.enter_stage(part_.ranks[rank], stage_ + 1, sink_); }

   private:
    Hierarchical& owner_;
    std::size_t stage_;
    const Part& part_;
    MessageSink& sink_;
  };

  void enter_stage(Member rank, std::size_t stage, MessageSink& sink);
  Part& part_of(std::size_t stage, Member rank) { return stages_[stage].parts[stages_[stage].part_of[rank]]; }
  Message inner(const Message& message) const {
    const Stage& stage = stages_[message.tag >> kStageShift];
    return {stage.number_in[message.from], stage.number_in[message.to], message.channel, message.bytes,
            message.tag & kTagMask};
  }

  void build();
  void build_all_to_all();
  std::vector<Member> rail(std::size_t j) const;
  std::vector<Member> leaders() const;
  Member leader(std::size_t group) const;
  void add_part(std::size_t stage, LevelAlgorithm algorithm, CollectiveSpec spec, std::vector<Member> ranks);
  void add_scatter(std::size_t stage, CollectiveKind kind, bool inside);
  void add_extras(std::size_t stage, bool hand_out);
  CollectiveSpec sub_spec(CollectiveKind kind, std::size_t ranks, std::int64_t bytes) const;

  std::int64_t block_bytes(std::size_t group, std::size_t j) const;
  void append_block(std::size_t group, std::size_t j, Layout& layout) const;
  Layout layout(std::size_t stage, std::size_t part) const;
  Layout all_to_all_layout(std::size_t stage, std::size_t part) const;
  /// What travels from `from` to `to` in a stage of all-to-all, calling visit(source, destination) for each pair.
  template <class Visit>
  void for_each_pair(std::size_t stage, Member from, Member to, Visit visit) const;
  std::int64_t pair_bytes(Member from, Member to) const {
    return spec_.pair_bytes.empty() ? shards_.bytes(to) : spec_.pair_bytes[std::size_t{from} * local_.size() + to];
  }
  /// The rank of `group` that deals with node `other`.
  Member agent(std::size_t group, std::size_t other) const { return groups_[group][other % groups_[group].size()]; }

  HierarchicalParams params_;
  CollectiveSpec spec_;
  Shards shards_;
  std::vector<std::vector<Member>> groups_;
  std::vector<Member> local_;  // number of each rank in its node
  std::size_t rails_ = 1;
  std::vector<Stage> stages_;
  std::vector<std::uint8_t> reached_;  // stages that each rank has entered
  std::vector<HeldMessages> held_;     // of each stage
};

void Hierarchical::enter_stage(Member rank, std::size_t stage, MessageSink& sink) {
  while (stage < stages_.size() && stages_[stage].part_of[rank] == kNoPart) ++stage;
  reached_[rank] = static_cast<std::uint8_t>(stage + 1);
  if (stage == stages_.size()) {
    sink.finished(rank);
    return;
  }
  const Part& part = part_of(stage, rank);
  PartSink inside(*this, stage, part, sink);
  part.schedule->enter(stages_[stage].number_in[rank], inside);
  held_[stage].release(rank, [&](const Message& message) {
    sink.taken(message);
    part.schedule->arrived(inner(message), inside);
  });
}

void Hierarchical::arrived(const Message& message, MessageSink& sink) {
  const std::size_t stage = message.tag >> kStageShift;
  if (keeps(message)) {
    held_[stage].hold(message);
    return;
  }
  const Part& part = part_of(stage, message.to);
  PartSink inside(*this, stage, part, sink);
  part.schedule->arrived(inner(message), inside);
}

CollectiveSpec Hierarchical::sub_spec(CollectiveKind kind, std::size_t ranks, std::int64_t bytes) const {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = static_cast<std::int64_t>(ranks);
  spec.bytes = bytes;
  spec.where = spec_.where;
  return spec;
}

void Hierarchical::add_part(std::size_t stage, LevelAlgorithm algorithm, CollectiveSpec spec,
                            std::vector<Member> ranks) {
  while (stages_.size() <= stage)
    stages_.push_back({{}, std::vector<std::uint32_t>(local_.size(), kNoPart), std::vector<Member>(local_.size(), 0)});
  Stage& s = stages_[stage];
  for (Member i = 0; i < ranks.size(); ++i) {
    s.part_of[ranks[i]] = static_cast<std::uint32_t>(s.parts.size());
    s.number_in[ranks[i]] = i;
  }
  std::unique_ptr<CollectiveSchedule> schedule = algorithm == LevelAlgorithm::ring ? make_ring(params_.ring, spec)
                                                 : algorithm == LevelAlgorithm::direct
                                                     ? make_direct(params_.direct, spec)
                                                     : make_halving_doubling(spec);
  s.parts.push_back({std::move(schedule), std::move(ranks)});
}

std::vector<Member> Hierarchical::rail(std::size_t j) const {
  std::vector<Member> ranks;
  for (const std::vector<Member>& group : groups_) ranks.push_back(group[j]);
  return ranks;
}

/// The root leads its node, the first rank leads any other.
Member Hierarchical::leader(std::size_t group) const {
  const auto root = static_cast<Member>(spec_.root);
  return spec_.local_group[root] == group ? root : groups_[group][0];
}

std::vector<Member> Hierarchical::leaders() const {
  std::vector<Member> ranks;
  for (std::size_t g = 0; g < groups_.size(); ++g) ranks.push_back(leader(g));
  return ranks;
}

/// Bytes of the ranks of a node whose shards rail j carries.
std::int64_t Hierarchical::block_bytes(std::size_t group, std::size_t j) const {
  std::int64_t bytes = 0;
  for (std::size_t i = j; i < groups_[group].size(); i += rails_) bytes += shards_.bytes(groups_[group][i]);
  return bytes;
}

void Hierarchical::append_block(std::size_t group, std::size_t j, Layout& layout) const {
  for (std::size_t i = j; i < groups_[group].size(); i += rails_) {
    const Member rank = groups_[group][i];
    layout.push_back({shards_.first(rank), shards_.bytes(rank), false});
  }
}

/// One part a node, or one a rail, where shards have sizes of their own.
void Hierarchical::add_scatter(std::size_t stage, CollectiveKind kind, bool inside) {
  const bool reduce = spec_.kind == CollectiveKind::all_reduce;
  std::vector<std::int64_t> rail_bytes(rails_, 0);
  for (std::size_t j = 0; j < rails_; ++j) {
    std::vector<std::int64_t> blocks;
    for (std::size_t g = 0; g < groups_.size(); ++g) blocks.push_back(reduce ? 0 : block_bytes(g, j));
    for (const std::int64_t bytes : blocks) rail_bytes[j] += bytes;
    const auto rails = static_cast<std::int64_t>(rails_);
    if (reduce) rail_bytes[j] = part_bytes(spec_.bytes, rails, static_cast<std::int64_t>(j));
    if (inside) continue;
    CollectiveSpec spec = sub_spec(kind, groups_.size(), rail_bytes[j]);
    if (!reduce) spec.shard_bytes = std::move(blocks);
    add_part(stage, params_.across, std::move(spec), rail(j));
  }
  for (const std::vector<Member>& group : groups_) {
    if (!inside) break;
    CollectiveSpec spec = sub_spec(kind, group.size(), spec_.bytes);
    spec.shard_bytes = rail_bytes;
    spec.shard_bytes.resize(group.size(), 0);
    add_part(stage, params_.inside, std::move(spec), group);
  }
}

/// Ranks that are no owners give their shard to one, or get it from there.
void Hierarchical::add_extras(std::size_t stage, bool hand_out) {
  for (const std::vector<Member>& group : groups_) {
    const std::size_t m = group.size();
    if (m == rails_) continue;
    CollectiveSpec spec = sub_spec(CollectiveKind::all_to_all, m, 0);
    spec.pair_bytes.assign(m * m, 0);
    for (std::size_t i = rails_; i < m; ++i)
      spec.pair_bytes[hand_out ? i % rails_ * m + i : i * m + i % rails_] = shards_.bytes(group[i]);
    add_part(stage, LevelAlgorithm::direct, std::move(spec), group);
  }
}

void Hierarchical::build() {
  switch (spec_.kind) {
    case CollectiveKind::all_reduce:
      add_scatter(0, CollectiveKind::reduce_scatter, true);
      add_scatter(1, CollectiveKind::all_reduce, false);
      add_scatter(2, CollectiveKind::all_gather, true);
      return;
    case CollectiveKind::all_gather:
      add_extras(0, false);
      add_scatter(1, CollectiveKind::all_gather, false);
      add_scatter(2, CollectiveKind::all_gather, true);
      return;
    case CollectiveKind::reduce_scatter:
      add_scatter(0, CollectiveKind::reduce_scatter, true);
      add_scatter(1, CollectiveKind::reduce_scatter, false);
      add_extras(2, true);
      return;
    case CollectiveKind::all_to_all:
      build_all_to_all();
      return;
    default:
      break;
  }
  CollectiveSpec across = sub_spec(CollectiveKind::broadcast, groups_.size(), spec_.bytes);
  across.root = spec_.local_group[static_cast<std::size_t>(spec_.root)];
  add_part(0, params_.across, std::move(across), leaders());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    CollectiveSpec inside = sub_spec(CollectiveKind::broadcast, groups_[g].size(), spec_.bytes);
    inside.root = local_[leader(g)];
    add_part(1, params_.inside, std::move(inside), groups_[g]);
  }
}

template <class Visit>
void Hierarchical::for_each_pair(std::size_t stage, Member from, Member to, Visit visit) const {
  const std::size_t g = spec_.local_group[from];
  const std::size_t h = spec_.local_group[to];
  if (stage == 1) {
    if (g == h || agent(g, h) != from || agent(h, g) != to) return;
    for (const Member source : groups_[g])
      for (const Member destination : groups_[h]) visit(source, destination);
    return;
  }
  if (stage == 0) visit(from, to);
  for (std::size_t other = 0; other < groups_.size(); ++other) {
    if (other == g || agent(g, other) != (stage == 0 ? to : from)) continue;
    for (const Member far : groups_[other]) visit(stage == 0 ? from : far, stage == 0 ? far : to);
  }
}

void Hierarchical::build_all_to_all() {
  std::vector<Member> all(local_.size());
  for (Member rank = 0; rank < all.size(); ++rank) all[rank] = rank;
  for (const std::size_t stage : {0U, 1U, 2U}) {
    const std::vector<std::vector<Member>> parts = stage == 1 ? std::vector<std::vector<Member>>{all} : groups_;
    for (const std::vector<Member>& ranks : parts) {
      CollectiveSpec spec = sub_spec(CollectiveKind::all_to_all, ranks.size(), 0);
      for (const Member from : ranks) {
        for (const Member to : ranks) {
          std::int64_t bytes = 0;
          for_each_pair(stage, from, to, [&](Member s, Member d) { bytes += pair_bytes(s, d); });
          spec.pair_bytes.push_back(bytes);
        }
      }
      add_part(stage, LevelAlgorithm::direct, std::move(spec), ranks);
    }
  }
}

Layout Hierarchical::all_to_all_layout(std::size_t stage, std::size_t part) const {
  const std::size_t n = local_.size();
  std::vector<std::int64_t> first(n * n + 1, 0);
  for (std::size_t i = 0; i < n * n; ++i)
    first[i + 1] = first[i] + pair_bytes(static_cast<Member>(i / n), static_cast<Member>(i % n));
  Layout layout;
  for (const Member from : stages_[stage].parts[part].ranks)
    for (const Member to : stages_[stage].parts[part].ranks)
      for_each_pair(stage, from, to, [&](Member s, Member d) {
        layout.push_back({first[s * n + d], pair_bytes(s, d), false});
      });
  return layout;
}

/// Where the bytes of a part stand among the collective's, in the order in which the part numbers them.
Layout Hierarchical::layout(std::size_t stage, std::size_t part) const {
  if (spec_.kind == CollectiveKind::all_to_all) return all_to_all_layout(stage, part);
  if (spec_.kind == CollectiveKind::broadcast) return {{0, spec_.bytes, false}};
  if (spec_.kind == CollectiveKind::all_reduce) {
    if (stage != 1) return {{0, spec_.bytes, false}};
    const auto rails = static_cast<std::int64_t>(rails_);
    const auto j = static_cast<std::int64_t>(part);
    return {{part_first(spec_.bytes, rails, j), part_bytes(spec_.bytes, rails, j), false}};
  }
  Layout layout;
  const std::size_t extras = spec_.kind == CollectiveKind::all_gather ? 0 : 2;
  if (stage == extras) {
    // Numbered by pairs: giving goes by the giver, handing out by the owner.
    const std::vector<Member>& group = stages_[stage].parts[part].ranks;
    if (extras == 0) {
      for (std::size_t i = rails_; i < group.size(); ++i)
        layout.push_back({shards_.first(group[i]), shards_.bytes(group[i]), false});
      return layout;
    }
    for (std::size_t j = 0; j < rails_; ++j)
      for (std::size_t i = j + rails_; i < group.size(); i += rails_)
        layout.push_back({shards_.first(group[i]), shards_.bytes(group[i]), false});
    return layout;
  }
  for (std::size_t j = stage == 1 ? part : 0; j < (stage == 1 ? part + 1 : rails_); ++j)
    for (std::size_t g = 0; g < groups_.size(); ++g) append_block(g, j, layout);
  return layout;
}

void Hierarchical::describe(const Message& message, std::vector<Piece>& pieces) const {
  const std::size_t stage = message.tag >> kStageShift;
  const std::size_t part = stages_[stage].part_of[message.from];
  std::vector<Piece> inside;
  stages_[stage].parts[part].schedule->describe(inner(message), inside);
  const Layout where = layout(stage, part);
  for (const Piece& piece : inside) {
    std::int64_t at = 0;  // in the numbers of the part
    for (const Piece& segment : where) {
      const std::int64_t from = std::max(piece.first, at);
      const std::int64_t to = std::min(piece.first + piece.bytes, at + segment.bytes);
      if (from < to) pieces.push_back({segment.first + from - at, to - from, piece.reduce});
      at += segment.bytes;
    }
  }
}

}  // namespace

std::unique_ptr<CollectiveSchedule> make_hierarchical(const HierarchicalParams& params, const CollectiveSpec& spec) {
  check_spec("hierarchical", spec);
  return std::make_unique<Hierarchical>(params, spec);
}

}  // namespace orrery::hw
