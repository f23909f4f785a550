// Max-min fair sharing of links among flows, solved again only where something changed. Pure: knows no time.
//
// A path is a list of links; all flows of a path have one rate. An allocation is max-min fair if it is feasible and
// every flow has a bottleneck: a full link on its path where no flow is faster (Bertsekas and Gallager, "Data
// Networks", 2nd ed., section 6.5.2). It is found by filling: all rates rise together; a link that becomes full fixes
// its flows.
//
// After a change only some paths are freed, and filled again in one pass of rising levels; all others keep their rates
// and take their part of every capacity. Freed at the start: paths whose number of flows changed, and those limited by
// a full link that changed. Freed on the way, at level x: the paths a link limits, when a path on it gets another rate
// than before or x reaches their level; and the paths faster than x on a link that becomes full at x. So levels only
// rise, nothing is done twice, and whoever is not freed still has his bottleneck: the whole is max-min fair.
//
// Between passes: a link `limits` exactly those paths on it that had its `level` when it was full last; they head its
// list; a path's bottleneck is one of the links that limit it; its rate is that link's level.
//
// Capacities and rates are integers in the caller's unit. A level is rounded down, so a full link has a rest smaller
// than the number of its flows, and rates may differ from those of a solve from scratch by as many units. All links
// that become full at one level are handled together: no result depends on the order in which links, paths or flows
// were added.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/pages.hpp"
#include "sim/winner_tree.hpp"

namespace orrery::sim {

class MaxMinSolver {
 public:
  using Link = std::uint32_t;
  using Path = std::uint32_t;
  static constexpr Link kNoLink = ~0U;
  static constexpr std::int64_t kMaxCapacity = std::int64_t{1} << 62;

  /// A link of `capacity` in 0 … 2^62 (else std::invalid_argument); 0 is a link that is down.
  Link add_link(std::int64_t capacity);
  /// A path over `links`, all different, 1 to 32,766 of them (else std::invalid_argument). No flows yet.
  Path add_path(std::span<const Link> links);

  /// Both take effect with the next solve(); link and path must be there. Flows are 0 … 2^32 - 1, capacities as above
  /// (else std::invalid_argument).
  void set_capacity(Link link, std::int64_t capacity);
  void set_flows(Path path, std::int64_t flows);

  /// What a solve changed; valid until the next one.
  struct Changes {
    std::span<const Link> levels;  ///< links whose level changed; a link may stand here twice
    std::span<const Path> placed;  ///< paths with flows that have another bottleneck than before
  };
  /// Brings all rates up to date.
  Changes solve();

  /// A full link that limits the path, as of the last solve(); kNoLink without flows. Of several, one that it had
  /// before.
  Link bottleneck(Path path) const {
    const std::uint16_t hop = paths_[path].bottleneck;
    return hop == kNoHop ? kNoLink : link_of(path, hop);
  }
  /// Rate of each flow of the paths whose bottleneck the link is.
  std::int64_t level(Link link) const { return links_[link].level; }
  /// Rate of each flow of the path as of the last solve(); 0 without flows.
  std::int64_t rate(Path path) const { return paths_[path].rate; }
  std::int64_t flows(Path path) const { return wanted_[path]; }
  std::int64_t capacity(Link link) const { return links_[link].capacity; }
  /// Sum of the rates on the link as of the last solve().
  std::int64_t load(Link link) const { return links_[link].load; }
  std::size_t hops(Path path) const { return paths_[path].length; }
  Link link_of(Path path, std::size_t hop) const {
    const PathState& state = paths_[path];
    return state.length <= PathState::kInline ? state.hops[hop].link : hops_[state.hops[0].position + hop].link;
  }
  std::size_t links() const { return links_.size(); }
  std::size_t paths() const { return paths_.size(); }

  /// How much was done so far.
  struct Effort {
    std::uint64_t solves = 0;
    std::uint64_t changes = 0;  ///< paths and links that had changed
    std::uint64_t freed = 0;    ///< paths filled again
    std::uint64_t levels = 0;   ///< levels filled
  };
  const Effort& effort() const { return effort_; }

 private:
  static constexpr std::uint16_t kNoHop = 0x7fff;
  enum class Filling : std::uint8_t { no, open, fixed };  // whether a path is freed in this pass, and fixed again
  enum class Mark : std::uint8_t { none, full, hurt };    // of a link, at the level being fixed
  struct Hop {
    Link link = 0;
    std::uint32_t position = 0;  // in the link's list
  };
  // One cache line, with the hops of all but long paths: a pass comes to paths in no order.
  struct alignas(64) PathState {
    static constexpr std::size_t kInline = 6;
    std::int64_t rate = 0;
    std::uint32_t flows = 0;  // as solved
    std::uint16_t length = 0;
    std::uint16_t bottleneck : 15 = kNoHop;  // one of the hops
    std::uint16_t changed : 1 = 0;
    Hop hops[kInline];  // of a long path: the first one's position is where they begin in hops_
  };
  struct Crossing {  // of a path and a link, in the link's list
    Path path;
    std::uint32_t hop;  // of the path
  };
  // What a pass works with fills one cache line; what it begins and ends with stands behind.
  struct alignas(64) LinkState {
    std::int64_t rest = 0;            // capacity that is not given away
    std::int64_t open = 0;            // flows that are freed and not fixed
    std::int64_t last = 0;            // level of the path fixed last
    std::vector<Crossing> crossings;  // paths with flows
    std::uint32_t limited = 0;        // paths that are not open and that this link limits; they head the list
    std::uint32_t place = 0;          // in levels_
    std::uint32_t touched = 0;        // pass in which a freed path crossed this link
    bool requeued = false;            // stands in requeue_
    Mark mark = Mark::none;
    std::int64_t capacity = 0;
    std::int64_t load = 0;
    std::int64_t level = -1;   // when it was full last
    std::int64_t fastest = 0;  // no path here was faster after the last pass
  };

  std::span<Hop> hops_of(PathState& path) {
    return {path.length <= PathState::kInline ? path.hops : hops_.data() + path.hops[0].position, path.length};
  }
  // Where it would be full; not above the level of the paths that it limits, which are to be freed by then.
  static std::int64_t level_of(const LinkState& link) {
    const std::int64_t level = link.rest / link.open;
    return link.limited > 0 && link.level < level ? link.level : level;
  }
  bool limits(const Hop& hop) const { return hop.position < links_[hop.link].limited; }
  void attach(Path path);
  void detach(Path path);
  void swap_crossings(LinkState& link, std::uint32_t a, std::uint32_t b);
  void add_limited(LinkState& link, std::uint32_t position);
  void drop_limited(LinkState& link, std::uint32_t position);
  bool settle_alone(Path path);
  void take_changes();
  void free_path(Path path, Link from);
  void touch(Link link);
  void free_limited(Link link);
  void free_faster(Link link, std::int64_t level);
  void requeue(Link link);
  void queue_levels();
  bool take_level(std::int64_t& level);
  bool free_above(std::int64_t level);
  void fix(std::int64_t level);
  void select(const LinkState& link, std::uint32_t first, Filling filling);
  void fix_path(Path path, Link at, std::int64_t level);
  void place(Path path, std::size_t hop);
  void set_level(Link link, std::int64_t level);
  void end_pass();

  std::vector<LinkState, PageAllocator<LinkState>> links_;
  std::vector<PathState, PageAllocator<PathState>> paths_;
  std::vector<std::int64_t> wanted_;  // flows as set, by path
  std::vector<Filling> filling_;      // by path
  std::vector<Hop> hops_;             // of long paths
  std::vector<Path> changed_;
  std::vector<Link> changed_links_;
  // Scratch of a pass, kept so that a steady state allocates nothing.
  std::vector<Path> freed_;
  std::size_t open_ = 0;  // of these, not fixed
  std::vector<Link> touched_;
  std::vector<Link> requeue_;  // links whose level may have fallen
  WinnerTree levels_;          // links with open flows, none under a key above its level
  std::vector<Link> full_;     // links at the level being fixed
  std::vector<Path> selected_;
  std::vector<Link> hurt_;  // links whose limited paths lost their bottleneck
  std::vector<Link> new_levels_;
  std::vector<Path> placed_;
  std::uint32_t pass_ = 0;
  Effort effort_;
};

}  // namespace orrery::sim
