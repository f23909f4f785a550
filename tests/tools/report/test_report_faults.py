"""Tests of `orrery report` on run folders that are not whole: one line that says what is wrong, and nothing written."""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools" / "python")]

from scratch_run import Folder, run_cli  # noqa: E402


class Faults(Folder):
    def expect(self, file: str, message: str) -> None:
        """The report fails with one line, `RUN/file: message`, and writes nothing."""
        code, lines, err = run_cli(self.run_folder)
        self.assertEqual((code, lines), (2, []))
        where = self.run_folder / file if file else self.run_folder
        self.assertEqual(err, f"{where}{message}\n")
        self.assertFalse((self.run_folder / "report.html").exists())
        self.assertFalse((self.run_folder / "png").exists())

    def replace_line(self, name: str, line: int, text: str) -> None:
        lines = (self.run_folder / name).read_text().splitlines()
        lines[line - 1] = text
        (self.run_folder / name).write_text("\n".join(lines) + "\n")

    def test_no_folder(self) -> None:
        self.expect("", ": expected a run folder or a study's store, got nothing of that name")

    def test_a_file_instead_of_a_folder(self) -> None:
        self.run_folder.write_text("")
        self.expect_file()

    def expect_file(self) -> None:
        code, _, err = run_cli(self.run_folder)
        self.assertEqual((code, err), (2, f"{self.run_folder}: expected a run folder or a study's store, got a file that is neither\n"))

    def test_empty_folder(self) -> None:
        self.run_folder.mkdir()
        self.expect("manifest.json", ": expected a file, got none")

    def test_no_summary(self) -> None:
        (self.small() / "summary.json").unlink()
        self.expect("summary.json", ": expected a file, got none")

    def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(self) -> None:
        (self.small() / "summary.json").unlink()
        os.mkfifo(self.run_folder / "summary.json")
        self.expect("summary.json", ": expected a file, got something else")

    def test_a_pipe_in_the_place_of_a_table_is_passed_over(self) -> None:
        os.mkfifo(self.small() / "nobody_writes.csv")
        self.assertFalse("nobody_writes" in self.html())

    def test_broken_json(self) -> None:
        (self.small() / "summary.json").write_text('{"status": "ok",\n "requests": }')
        self.expect("summary.json", ": expected JSON, got line 2, column 14: Expecting value")

    def test_json_of_another_kind(self) -> None:
        (self.small() / "summary.json").write_text("[1]")
        self.expect("summary.json", ": expected a JSON object, got list")

    def test_not_utf8(self) -> None:
        (self.small() / "manifest.json").write_bytes(b'{"config": "\xff"}')
        self.expect("manifest.json", ": expected UTF-8 text, got byte 12 that is not")

    def test_no_config(self) -> None:
        self.small()
        self.edit_json("manifest.json", {"config": 3})
        self.expect("manifest.json", ': expected an object under "config", got 3')

    def test_of_another_format(self) -> None:
        manifest = self.small() / "manifest.json"
        facts = json.loads(manifest.read_text())
        for known in ({}, {"format": "orrery run 1"}):
            manifest.write_text(json.dumps({**facts, **known}))
            self.html()
            (self.run_folder / "report.html").unlink()
        manifest.write_text(json.dumps({**facts, "format": "orrery run 2"}))
        self.expect("manifest.json", ": expected a run of format 'orrery run 1', got a run of format 'orrery run 2' (run its "
                                     "config again with this orrery, or read it with the one that wrote it)")

    def test_no_status(self) -> None:
        (self.small() / "summary.json").write_text("{}")
        self.expect("summary.json", ': expected a text under "status", got none')

    def test_wrong_columns(self) -> None:
        self.small()
        self.replace_line("energy.csv", 1, "device,energy_j")
        self.expect("energy.csv", ": expected columns device,class,energy_j,busy_s, got device,energy_j")

    def test_empty_table(self) -> None:
        (self.small() / "energy.csv").write_text("")
        self.expect("energy.csv", ": expected columns device,class,energy_j,busy_s, got an empty file")

    def test_text_where_a_number_belongs(self) -> None:
        self.small()
        self.replace_line("series.csv", 5, "1.5,0,many,0,0,0,90")
        self.expect("series.csv", ":5: expected a number under running, got 'many'")

    def test_infinite_number(self) -> None:
        self.small()
        self.replace_line("energy.csv", 3, "gpu0,ffn_up,inf,1")
        self.expect("energy.csv", ":3: expected a number under energy_j, got 'inf'")

    def test_empty_field(self) -> None:
        self.small()
        self.replace_line("energy.csv", 3, "gpu0,ffn_up,,1")
        self.expect("energy.csv", ":3: expected a value under energy_j, got an empty field")

    def test_fault_beyond_the_first_chunk(self) -> None:
        self.small()
        file = self.run_folder / "requests.csv"
        head, *rows = file.read_text().splitlines()
        rows = (rows * (1 + 200_010 // len(rows)))[:200_010] + ["9,x,,,,1,1,,,,rejected"]
        file.write_text("\n".join([head, *rows]) + "\n")
        self.expect("requests.csv", ":200012: expected a number under arrived_s, got 'x'")

    def test_too_many_fields(self) -> None:
        self.small()
        self.replace_line("energy.csv", 4, "gpu0,norm,1,2,3")
        self.expect("energy.csv", ":4: expected 4 fields, got 5")
        self.small()
        rows = (self.run_folder / "energy.csv").read_text().splitlines()
        (self.run_folder / "energy.csv").write_text("\n".join([rows[0], *(row + ",9" for row in rows[1:])]) + "\n")
        self.expect("energy.csv", ":2: expected 4 fields, got 5")

    def test_quantiles_out_of_order(self) -> None:
        self.small()
        self.replace_line("distributions.csv", 3, "ttft,1.5,0.2")
        self.expect("distributions.csv", ": expected quantiles of ttft that ascend from 0 to 1, got others")

    def test_place_that_cannot_be_written(self) -> None:
        self.small()
        code, lines, err = run_cli(self.run_folder, "--out", self.run_folder / "energy.csv" / "r.html")
        self.assertEqual((code, lines), (2, []))
        self.assertRegex(err, r"^\S+energy.csv\S*: expected a path that can be written, got .+\n$")


if __name__ == "__main__":
    unittest.main()
