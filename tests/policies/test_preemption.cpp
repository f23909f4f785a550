#include "policies/batching/preemption.hpp"
#include "tests/policies/view.hpp"

namespace test_preemption {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("room for decodes: blocks that are free less those they grow by; nobody goes before it is negative",
          "[unit]") {
  // 10 blocks: 2 and 2 are held, and the first decode, at a block's end, takes one more: 6 - 1 = 5.
  PaperReplica roomy(10);
  roomy.decode(32);
  roomy.decode(20);
  CHECK(decode_room(roomy.view()).free == 6);
  CHECK(decode_room(roomy.view()).growth == 1);
  CHECK(decode_room(roomy.view()).left() == 5);
  BatchDecision out;
  CHECK(make_room_for_decodes(roomy.view(), out) == 5);
  CHECK(out.preempt.empty());
  // Two at a block's end and just two free blocks.
  PaperReplica just(6);
  just.decode(32);
  just.decode(32);
  CHECK(make_room_for_decodes(just.view(), out) == 0);
  CHECK(out.preempt.empty());
  // One block fewer: the later goes. It leaves 2 beside the free one, and one of these is grown into.
  PaperReplica lacks(5);
  lacks.decode(32);
  const SeqId later = lacks.decode(32);
  CHECK(make_room_for_decodes(lacks.view(), out, Preempt::swap) == 2);
  REQUIRE(preempted(out) == std::vector<SeqId>{later});
  CHECK(out.preempt[0].how == Preempt::swap);
}

TEST_CASE("room for decodes: whoever is paused keeps its blocks, in either order", "[unit]") {
  // Three of 2 blocks of 6, the last paused: it is passed over, and the one before it goes, which leaves 2 for one.
  for (const bool by_priority : {false, true}) {
    PaperReplica replica(6);
    replica.decode(32);
    const SeqId goes = replica.decode(32);
    const SeqId paused = replica.decode(32);
    replica.pause(paused);
    replica.sequences[paused.index].priority = -1;
    BatchDecision out;
    CHECK(make_room_for_decodes(replica.view(), out, Preempt::recompute, by_priority) == 1);
    CHECK(preempted(out) == std::vector<SeqId>{goes});
  }
}

TEST_CASE("room for decodes by priority: the lowest first, of equals the latest arrival, until it is enough",
          "[unit]") {
  // Six of 2 full blocks. Who goes leaves 2 and needs none: of 6 that lack, 0 + 2 against 5 and 2 + 2 against 4 are
  // enough after two.
  PaperReplica replica(12);
  for (const int priority : {2, -1, 0, -1, 1, 0}) replica.sequences[replica.decode(32).index].priority = priority;
  BatchDecision out;
  CHECK(make_room_for_decodes(replica.view(), out, Preempt::recompute, true) == 0);
  CHECK(preempted(out) == std::vector<SeqId>{{3}, {1}});
  // As if they were to grow without end: all go.
  BatchView view = replica.view();
  view.growth_blocks = 1000;
  BatchDecision all;
  make_room_for_decodes(view, all, Preempt::recompute, true);
  CHECK(preempted(all) == std::vector<SeqId>{{3}, {1}, {5}, {2}, {4}, {0}});
  BatchDecision latest;
  make_room_for_decodes(view, latest);
  CHECK(preempted(latest) == std::vector<SeqId>{{5}, {4}, {3}, {2}, {1}, {0}});
}

TEST_CASE("room for decodes from decodes alone: prompts and who is paused stay, whatever lacks", "[unit]") {
  PaperReplica replica(10);
  const SeqId decode = replica.decode(32);
  const SeqId prompt = replica.prefill(32, 16);
  const SeqId paused = replica.decode(32);
  replica.pause(paused);
  const BatchView view = replica.view();
  for (const MayGo may_go : {MayGo::decoding, MayGo::running}) {
    DecodeRoom room{.free = 0, .growth = 1000};
    BatchDecision out;
    preempt_for_decodes(view, view.running, Preempt::recompute, may_go, room, out);
    if (may_go == MayGo::decoding) {
      CHECK(preempted(out) == std::vector<SeqId>{decode});
      CHECK(room.free == 2);      // its blocks
      CHECK(room.growth == 999);  // the one it would have taken
    } else {
      CHECK(preempted(out) == std::vector<SeqId>{prompt, decode});
      CHECK(room.free == 4);
      CHECK(room.growth == 999);  // a prompt does not grow
    }
  }
}

}  // namespace test_preemption
