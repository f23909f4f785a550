"""Policies as Python classes: what they see, what they decide, and what becomes of their mistakes."""

import json
import os
import tempfile
import unittest

import orrery
from support import config, fleet


class Budget(orrery.Batching):
    """vllm_v1 written in Python."""

    def decide(self, view, out):
        step = orrery.BudgetStep(view, out, tokens=2048, sequences=256)
        step.run_running()
        if not out.preempted:
            for seq in view.waiting:
                if not step.too_large(seq) and not step.admit(seq):
                    break
        step.settle()


class ShortestPrompt(Budget):
    def decide(self, view, out):
        step = orrery.BudgetStep(view, out, tokens=2048)
        step.run_running()
        if not out.preempted:
            for seq in sorted(view.waiting, key=lambda s: s.to_compute):
                if not step.admit(seq):
                    break
        step.settle()


class ByHand(orrery.Batching):
    """One prompt at a time, whole, with blocks for all that it may ever need."""

    def decide(self, view, out):
        for seq in view.prefilling:
            out.chunk(seq, seq.prefill_left)
        if view.waiting and not view.prefilling:
            seq = view.waiting[0]
            need = seq.prompt_tokens + seq.output_tokens
            if view.kv.blocks_to_admit(seq, need) <= view.kv.available_blocks - view.growth_blocks:
                out.admit(seq, need)
                out.chunk(seq, seq.to_compute)
        if not out.admitted and not view.prefilling:
            out.stable_iterations = orrery.STABLE


def without_names(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key != "events"}


class BatchingTest(unittest.TestCase):
    def test_equals_the_policy_of_the_core(self):
        """The same decisions give the same run, whether C++ or Python makes them."""
        same = orrery.run(config(rate="8 1/s"), policies={"batching": {"policy": "vllm_v1"}}, tables=False)
        for policy in (Budget, Budget(), lambda: orrery.NativeBatching("vllm_v1")):
            ours = orrery.run(config(rate="8 1/s"), batching=policy, tables=False)
            self.assertEqual(without_names(ours.summary), without_names(same.summary))
        self.assertEqual(ours.config["policies"]["batching"]["policy"], "python")

    def test_decisions_matter(self):
        first = orrery.run(config(rate="12 1/s"), batching=Budget, tables=False)
        shortest = orrery.run(config(rate="12 1/s"), batching=ShortestPrompt, tables=False)
        self.assertLess(shortest["ttft_s.mean"], first["ttft_s.mean"])

    def test_by_hand(self):
        result = orrery.run(config(50), batching=ByHand, tables=False)
        self.assertEqual(result["requests.completed"], 50)
        stepped = orrery.run(config(50), batching=ByHand, tables=False, run={"leap": False})
        self.assertEqual(without_names(stepped.summary), without_names(result.summary))

    def test_objects_and_classes(self):
        """An object is asked by all replicas and keeps what it saw; a class is made once a replica."""

        class Seen(Budget):
            made = 0

            def __init__(self):
                type(self).made += 1
                self.replicas = set()

            def decide(self, view, out):
                self.replicas.add(view.replica)
                super().decide(view, out)

        one = Seen()
        orrery.run(fleet(), batching=one, tables=False)
        self.assertEqual(one.replicas, {0, 1, 2, 3})
        orrery.run(fleet(), batching=Seen, tables=False)
        self.assertEqual(Seen.made, 5)

    def test_views(self):
        seen = []

        class Look(Budget):
            def decide(self, view, out):
                if view.running and view.waiting and not seen:
                    seq = view.running[-1]
                    seen.append(
                        (len(view.running), [s.order for s in view.running], seq.kv_tokens, seq.phase, repr(seq))
                    )
                    assert view.waiting[0] == view.waiting[-len(view.waiting)]
                    assert view.running[0] in list(view.running)
                    assert view.kv.total_blocks >= view.kv.available_blocks > 0
                    assert view.iteration_s(decodes=4, decode_context=4000) > 0
                    assert view.max_context == 4096 and view.layers == 32
                super().decide(view, out)

        orrery.run(config(rate="30 1/s"), batching=Look, tables=False)
        count, orders, *_ = seen[0]
        self.assertEqual(count, len(orders))
        self.assertEqual(orders, sorted(orders))

    def test_views_end_with_the_call(self):
        kept = []

        class Keep(Budget):
            def decide(self, view, out):
                kept.append((view, out, view.waiting, view.waiting[0] if view.waiting else None))
                super().decide(view, out)

        orrery.run(config(5), batching=Keep, tables=False)
        view, out, waiting, seq = kept[0]
        for use in (lambda: view.now_s, lambda: out.admit(seq), lambda: len(waiting), lambda: seq.prompt_tokens):
            with self.assertRaisesRegex(RuntimeError, "during the call"):
                use()


class MistakeTest(unittest.TestCase):
    def fails(self, policy, pattern: str, cause=None, **how):
        with self.assertRaisesRegex(orrery.PolicyError, pattern) as caught:
            orrery.run(config(20), batching=policy, **how)
        if cause is not None:
            self.assertIsInstance(caught.exception.__cause__, cause)

    def test_where_it_was(self):
        """File and line of the user's code, where the exception came out of a library too."""

        class Bad(Budget):
            def decide(self, view, out):
                json.loads("{")

        here = Bad.decide.__code__.co_firstlineno + 1
        with self.assertRaises(orrery.PolicyError) as caught:
            orrery.run(config(20), batching=Bad)
        error = caught.exception
        self.assertEqual((error.file, error.line), (__file__, here))
        self.assertTrue(str(error).endswith(f" ({__file__}:{here}, in decide)"), error)
        self.assertRegex(str(error), r"policy .*Bad at .* s of simulated time: JSONDecodeError: ")

        class Away(orrery.Router):
            def route(self, view):
                return view.replicas[99]

        with self.assertRaises(orrery.PolicyError) as caught:
            orrery.run(fleet(), routing=Away)
        self.assertEqual(caught.exception.line, Away.route.__code__.co_firstlineno + 1)

    def test_nothing_was_raised(self):
        """A decision that breaks the contract has no place; a policy without its method has none of the user's."""

        class Twice(Budget):
            def decide(self, view, out):
                out.admit(view.waiting[0], 10**9)

        class Empty(orrery.Batching):
            pass

        for policy in (Twice, Empty):
            with self.assertRaises(orrery.PolicyError) as caught:
                orrery.run(config(20), batching=policy)
            self.assertEqual((caught.exception.file, caught.exception.line), (None, None))
            self.assertNotIn(".py:", str(caught.exception))

    def test_exception(self):
        """It names policy and simulated time, and leaves no half-written run."""

        class Bad(Budget):
            def decide(self, view, out):
                if view.now_s > 1:
                    raise ValueError("no idea")
                super().decide(view, out)

        with tempfile.TemporaryDirectory() as home:
            self.fails(Bad, r"policy .*Bad at [1-9].* s of simulated time: ValueError: no idea", ValueError,
                       out=home + "/run")
            self.assertEqual(os.listdir(home), [])

    def test_broken_contract(self):
        class Idle(orrery.Batching):
            def decide(self, view, out):
                if view.running:
                    out.decode_rest = False
                elif view.waiting:
                    out.admit(view.waiting[0])
                    out.chunk(view.waiting[0], view.waiting[0].to_compute)

        self.fails(Idle, r"policy .*Idle at .* s of simulated time: the batching policy broke its contract")

        class Greedy(orrery.Batching):
            def decide(self, view, out):
                if view.waiting:
                    out.admit(view.waiting[0], 10**9)

        self.fails(Greedy, "blocks are not free")

    def test_stale_sequence(self):
        class Stale(Budget):
            first = None

            def decide(self, view, out):
                self.first = self.first or view.waiting[0]
                self.first.prompt_tokens
                super().decide(view, out)

        self.fails(Stale, "ValueError: this sequence has left the replica", ValueError)

    def test_not_a_policy(self):
        class Empty(orrery.Batching):
            pass

        self.fails(Empty, "NotImplementedError: Empty has no decide")
        self.fails(lambda: 3, "TypeError: expected a Batching, got 3", TypeError)
        for wrong in (3, int, orrery.Router):
            with self.assertRaises(TypeError):
                orrery.run(config(5), batching=wrong)
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'sarathi'"):
            orrery.NativeBatching("sarathy")
        with self.assertRaisesRegex(orrery.ConfigError, "token_budget"):
            orrery.NativeBatching("sarathi", token_budgt=1)

    def test_other_systems_have_none(self):
        with self.assertRaisesRegex(orrery.ConfigError, "/system"):
            orrery.run({"system": "network"}, batching=Budget)

    def test_interrupt_is_no_mistake(self):
        class Stop(Budget):
            def decide(self, view, out):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            orrery.run(config(5), batching=Stop)


class RouterTest(unittest.TestCase):
    def test_equals_the_router_of_the_core(self):
        class Turns(orrery.Router):
            def __init__(self):
                self.next = -1

            def route(self, view):
                self.next += 1
                return self.next % len(view.replicas)

        same = orrery.run(fleet(), policies={"routing": {"policy": "round_robin"}}, tables=False)
        ours = orrery.run(fleet(), routing=Turns, tables=False)
        self.assertEqual(ours.summary, same.summary)

    def test_view(self):
        class Emptiest(orrery.Router):
            reads_live = True
            gone = 0

            def route(self, view):
                assert view.request.prefill_tokens > 0 and view.request.arrived_s <= view.now_s
                return min(view.replicas, key=lambda r: (r.kv_blocks / r.kv_total, r.requests, r.place))

            def left(self, request):
                self.gone += 1

        router = Emptiest()
        result = orrery.run(fleet(), routing=router, tables=False)
        self.assertEqual(result["requests.completed"], 400)
        self.assertEqual(router.gone, 400)

    def test_mistakes(self):
        for answer, said in ((7, "0 to 3, got 7"), ("first", "got 'first'"), (None, "got None")):

            class Wrong(orrery.Router):
                def route(self, view, answer=answer):
                    return answer

            with self.subTest(answer), self.assertRaisesRegex(orrery.PolicyError, f"Wrong at .*{said}"):
                orrery.run(fleet(requests=20), routing=Wrong, tables=False)


if __name__ == "__main__":
    unittest.main()
