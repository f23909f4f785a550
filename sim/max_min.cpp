#include "sim/max_min.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace orrery::sim {

MaxMinSolver::Link MaxMinSolver::add_link(std::int64_t capacity) {
  if (capacity < 0 || capacity > kMaxCapacity) throw std::invalid_argument("max-min: a capacity is not in 0 … 2^62");
  links_.emplace_back().capacity = capacity;
  return static_cast<Link>(links_.size() - 1);
}

MaxMinSolver::Path MaxMinSolver::add_path(std::span<const Link> links) {
  if (links.empty()) throw std::invalid_argument("max-min: a path without links");
  if (links.size() >= kNoHop) throw std::invalid_argument("max-min: a path too long");
  for (const Link link : links) {
    if (link >= links_.size()) throw std::invalid_argument("max-min: a path over a link that is not there");
    if (std::count(links.begin(), links.end(), link) > 1)
      throw std::invalid_argument("max-min: a path crosses a link twice");
  }
  PathState path;
  path.length = static_cast<std::uint16_t>(links.size());
  if (links.size() <= PathState::kInline) {
    for (std::size_t hop = 0; hop < links.size(); ++hop) path.hops[hop].link = links[hop];
  } else {
    path.hops[0].position = static_cast<std::uint32_t>(hops_.size());
    for (const Link link : links) hops_.push_back({link});
  }
  paths_.push_back(path);
  wanted_.push_back(0);
  filling_.push_back(Filling::no);
  return static_cast<Path>(paths_.size() - 1);
}

void MaxMinSolver::set_capacity(Link link, std::int64_t capacity) {
  if (capacity < 0 || capacity > kMaxCapacity) throw std::invalid_argument("max-min: a capacity is not in 0 … 2^62");
  if (links_[link].capacity == capacity) return;
  links_[link].capacity = capacity;
  changed_links_.push_back(link);
}

void MaxMinSolver::set_flows(Path path, std::int64_t flows) {
  if (flows < 0 || flows > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("max-min: a number of flows is not in 0 … 2^32 - 1");
  wanted_[path] = flows;
  if (paths_[path].changed != 0) return;
  paths_[path].changed = 1;
  changed_.push_back(path);
}

// --- Lists of the links: the paths a link limits stand first ---------------------------------------------------------

inline void MaxMinSolver::swap_crossings(LinkState& link, std::uint32_t a, std::uint32_t b) {
  if (a == b) return;
  std::swap(link.crossings[a], link.crossings[b]);
  for (const std::uint32_t at : {a, b}) hops_of(paths_[link.crossings[at].path])[link.crossings[at].hop].position = at;
}

inline void MaxMinSolver::add_limited(LinkState& link, std::uint32_t position) {
  swap_crossings(link, position, link.limited++);
}

inline void MaxMinSolver::drop_limited(LinkState& link, std::uint32_t position) {
  swap_crossings(link, position, --link.limited);
}

void MaxMinSolver::attach(Path path) {
  std::uint32_t index = 0;
  for (Hop& hop : hops_of(paths_[path])) {
    std::vector<Crossing>& list = links_[hop.link].crossings;
    hop.position = static_cast<std::uint32_t>(list.size());
    list.push_back({path, index++});
  }
}

void MaxMinSolver::detach(Path path) {
  for (const Hop& hop : hops_of(paths_[path])) {
    LinkState& link = links_[hop.link];
    if (limits(hop)) drop_limited(link, hop.position);
    swap_crossings(link, hop.position, static_cast<std::uint32_t>(link.crossings.size() - 1));
    link.crossings.pop_back();
  }
}

// --- What changed, and whom it concerns

void MaxMinSolver::take_changes() {
  for (const Path path : changed_) {
    PathState& state = paths_[path];
    state.changed = 0;
    if (wanted_[path] == state.flows) continue;
    state.changed = 1;  // really
    ++effort_.changes;
    for (const Hop& hop : hops_of(state)) links_[hop.link].load -= state.rate * state.flows;
    if (state.flows == 0) attach(path);
    if (wanted_[path] == 0) {
      detach(path);
      state.bottleneck = kNoHop;
    }
    state.flows = static_cast<std::uint32_t>(wanted_[path]);
    state.rate = 0;  // it has no part in any load until it is fixed
  }
  for (const Path path : changed_) {
    PathState& state = paths_[path];
    if (state.changed == 0) continue;
    if (state.flows == 0 || !settle_alone(path)) {
      if (state.flows > 0) free_path(path, kNoLink);
      for (const Hop& hop : hops_of(state)) free_limited(hop.link);
    }
    state.changed = 0;
  }
  for (const Link link : changed_links_) {
    ++effort_.changes;
    free_limited(link);
    if (links_[link].load > links_[link].capacity) free_faster(link, -1);
  }
  changed_.clear();
  changed_links_.clear();
}

// A path that shares no link with another needs no filling.
bool MaxMinSolver::settle_alone(Path path) {
  PathState& state = paths_[path];
  const std::span<Hop> hops = hops_of(state);
  // Of several equally narrow links, the one that it had.
  std::size_t narrowest = state.bottleneck == kNoHop ? 0 : state.bottleneck;
  for (std::size_t hop = 0; hop < hops.size(); ++hop) {
    const LinkState& link = links_[hops[hop].link];
    if (link.crossings.size() > 1) return false;
    if (link.capacity < links_[hops[narrowest].link].capacity) narrowest = hop;
  }
  const std::int64_t capacity = links_[hops[narrowest].link].capacity;
  const std::int64_t rate = state.flows == 1 ? capacity : capacity / state.flows;
  for (const Hop& hop : hops) {
    LinkState& link = links_[hop.link];
    link.load = rate * state.flows;
    link.fastest = rate;
    link.limited = link.capacity - link.load < state.flows ? 1 : 0;
    if (link.limited > 0) set_level(hop.link, rate);
  }
  state.rate = rate;
  place(path, narrowest);
  return true;
}

void MaxMinSolver::place(Path path, std::size_t hop) {
  if (paths_[path].bottleneck == hop) return;
  paths_[path].bottleneck = hop & kNoHop;
  placed_.push_back(path);
}

void MaxMinSolver::set_level(Link link, std::int64_t level) {
  if (links_[link].level == level) return;
  links_[link].level = level;
  new_levels_.push_back(link);
}

// `from` is a link that drops all its limited paths at once, or none.
inline void MaxMinSolver::free_path(Path path, Link from) {
  if (filling_[path] != Filling::no) return;
  filling_[path] = Filling::open;
  ++open_;
  freed_.push_back(path);
  PathState& state = paths_[path];
  const std::int64_t returned = state.rate * state.flows;
  for (const Hop& hop : hops_of(state)) {
    LinkState& link = links_[hop.link];
    if (!link.requeued) [[unlikely]]
      requeue(hop.link);
    if (hop.link != from && limits(hop)) [[unlikely]]
      drop_limited(link, hop.position);
    link.rest += returned;
    link.open += state.flows;
  }
}

// To be looked at before the next level is taken.
void MaxMinSolver::requeue(Link index) {
  LinkState& link = links_[index];
  link.requeued = true;
  requeue_.push_back(index);
  if (link.touched == pass_) return;
  link.touched = pass_;
  link.rest = link.capacity - link.load;
  link.open = 0;
  link.last = 0;
  link.place = levels_.add();
  touched_.push_back(index);
}

// Those fixed in this pass stay limited, at the head of the list.
void MaxMinSolver::free_limited(Link index) {
  LinkState& link = links_[index];
  const std::uint32_t limited = link.limited;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < limited; ++i) {
    __builtin_prefetch(&paths_[link.crossings[std::min(i + 4, limited - 1)].path]);
    const Path path = link.crossings[i].path;
    if (filling_[path] == Filling::fixed) [[unlikely]]
      swap_crossings(link, i, kept++);
    else
      free_path(path, index);
  }
  link.limited = kept;
}

// Collects the paths from the list's place `first` on that stand so in this pass: without a branch, as nothing tells
// which they are.
inline void MaxMinSolver::select(const LinkState& link, std::uint32_t first, Filling filling) {
  selected_.resize(link.crossings.size());
  const Filling* const filling_of = filling_.data();
  const Crossing* const end = link.crossings.data() + link.crossings.size();
  Path* out = selected_.data();
  for (const Crossing* crossing = link.crossings.data() + first; crossing != end; ++crossing) {
    *out = crossing->path;
    out += filling_of[crossing->path] == filling ? 1 : 0;
  }
  selected_.resize(static_cast<std::size_t>(out - selected_.data()));
}

void MaxMinSolver::free_faster(Link index, std::int64_t level) {
  LinkState& link = links_[index];
  if (link.fastest <= level) return;
  link.fastest = std::max<std::int64_t>(level, 0);
  select(link, 0, Filling::no);
  for (const Path path : selected_)
    if (paths_[path].rate > level) free_path(path, kNoLink);
}

// --- Filling ---------------------------------------------------------------------------------------------------------

void MaxMinSolver::queue_levels() {
  for (const Link index : requeue_) {
    LinkState& link = links_[index];
    link.requeued = false;
    if (link.open == 0) continue;
    const std::int64_t level = level_of(link);
    // A key below the level does no harm: it is looked at again when it comes up.
    if (level < levels_.key(link.place)) levels_.lower(link.place, level);
  }
  requeue_.clear();
}

// Takes the links of the lowest level out of levels_ into full_; false when no flow is open.
bool MaxMinSolver::take_level(std::int64_t& level) {
  full_.clear();
  if (open_ == 0) return false;
  while (levels_.top_key() != WinnerTree::kNever && (full_.empty() || levels_.top_key() == level)) {
    const std::uint32_t place = levels_.top();
    const LinkState& link = links_[touched_[place]];
    const std::int64_t now = link.open == 0 ? WinnerTree::kNever : level_of(link);
    if (now != levels_.top_key()) {
      levels_.set(place, now);
      continue;
    }
    level = now;
    levels_.set(place, WinnerTree::kNever);
    full_.push_back(touched_[place]);
  }
  return !full_.empty();
}

// Flows on links that are about to be full must give way if they are faster. True if there were any.
bool MaxMinSolver::free_above(std::int64_t level) {
  const std::size_t before = freed_.size();
  for (const Link link : full_) free_limited(link);
  if (freed_.size() == before)
    for (const Link link : full_) free_faster(link, level);
  return freed_.size() != before;
}

inline void MaxMinSolver::fix_path(Path path, Link at, std::int64_t level) {
  PathState& state = paths_[path];
  const bool same = state.rate == level;
  filling_[path] = Filling::fixed;
  --open_;
  state.rate = level;
  const std::int64_t given = level * state.flows;
  const std::span<Hop> hops = hops_of(state);
  std::size_t limiting = 0;
  for (std::size_t i = 0; i < hops.size(); ++i) {
    LinkState& link = links_[hops[i].link];
    link.rest -= given;
    link.open -= state.flows;
    link.last = level;
    if (link.mark == Mark::full) {
      add_limited(link, hops[i].position);
      if (hops[i].link == at) limiting = i;
    } else if (link.limited > 0 && link.mark == Mark::none && !same) {
      link.mark = Mark::hurt;
      hurt_.push_back(hops[i].link);
    }
  }
  // Where several limit it, it stays with the one it had.
  if (state.bottleneck == limiting) return;
  if (state.bottleneck == kNoHop || links_[hops[state.bottleneck].link].mark != Mark::full) place(path, limiting);
}

void MaxMinSolver::fix(std::int64_t level) {
  ++effort_.levels;
  for (const Link index : full_) {
    LinkState& link = links_[index];
    link.mark = Mark::full;
    link.fastest = level;
    set_level(index, level);
  }
  for (const Link index : full_) {
    const LinkState& link = links_[index];
    // Those before are limited, and fixed.
    select(link, link.limited, Filling::open);
    for (const Path path : selected_) fix_path(path, index, level);
  }
  for (const Link link : full_) links_[link].mark = Mark::none;
  for (const Link link : hurt_) {
    links_[link].mark = Mark::none;
    free_limited(link);
  }
  hurt_.clear();
}

void MaxMinSolver::end_pass() {
  for (const Link index : touched_) {
    LinkState& link = links_[index];
    link.load = link.capacity - link.rest;
    link.fastest = std::max(link.fastest, link.last);
  }
  for (const Path path : freed_) filling_[path] = Filling::no;
  levels_.clear();
  effort_.freed += freed_.size();
}

MaxMinSolver::Changes MaxMinSolver::solve() {
  if (++pass_ == 0) {
    for (LinkState& link : links_) link.touched = 0;
    pass_ = 1;
  }
  ++effort_.solves;
  freed_.clear();
  touched_.clear();
  new_levels_.clear();
  placed_.clear();
  take_changes();
  queue_levels();
  for (std::int64_t level = 0; take_level(level); queue_levels()) {
    if (!free_above(level)) {
      fix(level);
      continue;
    }
    for (const Link link : full_)
      if (!links_[link].requeued) requeue(link);
  }
  end_pass();
  return {new_levels_, placed_};
}

}  // namespace orrery::sim
