"""The check of words and sentences, on pages that are wrong; and on this tree."""

import unittest

import words

LONG = " ".join(["word"] * 50)


class Words(unittest.TestCase):
    def test_long_sentences_by_room(self):
        self.assertEqual(words.check("docs/explain/a.md", f"{LONG}.\n"), [])
        found = words.check("docs/how-to/a.md", f"# Title\n\nShort one. {LONG.capitalize()}.\n")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("docs/how-to/a.md:3: a sentence of 50 words, more than 42: Word word"), found)
        self.assertEqual(len(words.check("docs/explain/a.md", f"{LONG} {LONG}.\n")), 1)

    def test_a_sentence_over_lines_and_one_of_two(self):
        half = " ".join(["word"] * 30)
        self.assertEqual(len(words.check("docs/learn/a.md", f"{half}\n{half}.\n")), 1)
        self.assertEqual(words.check("docs/learn/a.md", f"{half}.\n{half.capitalize()}.\n"), [])
        self.assertEqual(words.check("docs/learn/a.md", f"- {half}\n- {half}\n"), [])
        self.assertEqual(words.check("docs/learn/a.md", f"| {half} | {half} |\n"), [])

    def test_code_and_targets_do_not_count(self):
        self.assertEqual(words.check("docs/learn/a.md", f"See `{LONG}` and [a page]({LONG.replace(' ', '-')}).\n"), [])
        self.assertEqual(words.check("docs/learn/a.md", f"```text\n{LONG}\n{LONG}\n```\n\n    {LONG}\n<!-- {LONG} -->\n"), [])

    def test_words_that_have_a_better_one(self):
        found = words.check("docs/papers/a.md", "One.\n\nIt is kicked out where blocks lack.\n")
        self.assertEqual([fault.partition(": ")[2] for fault in found],
                         ["'kicked out': better preempted", "'blocks lack': better free KV blocks, too few KV blocks"])
        self.assertTrue(found[0].startswith("docs/papers/a.md:3:"))
        self.assertEqual(words.check("docs/learn/a.md", "`kicked out` is a name.\n"), [])

    def test_pages_that_are_made(self):
        said = " ".join(["word"] * 33)
        self.assertTrue(words.check("docs/reference/a.md", f"| `key` | {said}. |\n")[0].startswith(
            "docs/reference/a.md:1: a sentence of 33 words, more than 32"))
        self.assertEqual(words.check("docs/papers/a.md", f"{said}.\n"), [])
        # Of a list of pages each is a word.
        links = ", ".join(["[one two three](a.md)"] * 20)
        self.assertEqual(words.check("docs/papers/a.md", f"Described in {links}.\n"), [])
        self.assertEqual(len(words.check("docs/learn/a.md", f"Described in {links}.\n")), 1)

    def test_what_a_source_prints(self):
        found = words.check_literals("a.cpp", 'int x;\nprint("a sequence is " "kicked out");  // kicked out\n')
        self.assertEqual(found, ["a.cpp:2: 'kicked out': better preempted"])
        self.assertEqual(words.check_literals("a.cpp", "// put back in the queue\n"), [])

    def test_this_tree(self):
        found = [fault for name in words.sources() for fault in words.check_literals(name, (words.ROOT / name).read_text(encoding="utf-8"))]
        self.assertEqual(found, [])
        found = [fault for name in words.pages() for fault in words.check(name, (words.ROOT / name).read_text(encoding="utf-8"))]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
