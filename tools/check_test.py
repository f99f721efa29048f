#!/usr/bin/env python3
"""Tests of check_types.py and of check_layers.py: planted breaches are found, and what only looks like one is not.

usage: tools/check_test.py
"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_layers
import check_types


def names(text):
    return [name for name, _ in check_types.types_of(text)]


class Types(unittest.TestCase):
    def test_names_carry_namespaces_and_enclosing_types(self):
        text = "namespace weft::cli {\nstruct A final : B<int>, C {\n  enum class D : int { x };\n};\n}\nstruct E {};"
        self.assertEqual(names(text), ["weft::cli::A", "weft::cli::A::D", "E"])

    def test_declarations_and_bodies_define_nothing(self):
        text = "struct A; enum B : int; friend class C; struct stat found {}; void f() { struct Local { int x; }; }"
        self.assertEqual(names(text), [])

    def test_comments_strings_and_macros_are_not_code(self):
        text = '// struct A {\n/* struct B { */\nauto s = "struct C {", r = R"(struct D {)"; char c = \'{\';\n#define E struct F {\n'
        self.assertEqual(names(text + "struct G { int big = 10'000; };"), ["G"])

    def test_members_of_other_types_and_specialisations_have_their_own_names(self):
        text = "struct Op::State { }; template <> struct Hash<Box> { }; template <class T> struct Hash { };"
        self.assertEqual(names(text), ["Op::State", "Hash<Box>", "Hash"])

    def test_a_planted_double_is_found(self):
        one, two = "namespace weft { struct Cell { int a; }; }", "namespace weft {\nstruct Cell { double b; };\n}"
        found = check_types.doubles({"cli/bench/a.h": one, "cli/sim/b.h": two})
        self.assertEqual(found, [(("cli/bench/a.h", 1), ("cli/sim/b.h", 2), "weft::Cell")])

    def test_the_same_name_elsewhere_is_no_double(self):
        one, two = "namespace weft { struct Cell {}; }", "namespace weft::sim { struct Cell {}; }"
        self.assertEqual(check_types.doubles({"a.h": one, "b.h": two}), [])

    def test_an_anonymous_namespace_belongs_to_its_folder(self):
        text = "namespace weft { namespace { struct Cell {}; } }"
        self.assertEqual(len(check_types.doubles({"weft/plan/a.cc": text, "weft/plan/b.cc": text})), 1)
        self.assertEqual(check_types.doubles({"weft/plan/a.cc": text, "weft/mesh/b.cc": text}), [])
        self.assertEqual(check_types.doubles({"tests/a.cc": text, "tests/b.cc": text}), [])  # two programs

    def test_the_script_fails_on_a_tree_with_a_double(self):
        with tempfile.TemporaryDirectory() as root:
            for folder in ["weft/a", "weft/b"]:
                (pathlib.Path(root) / folder).mkdir(parents=True)
                (pathlib.Path(root) / folder / "x.h").write_text("#pragma once\nstruct Twice {};\n", encoding="utf-8")
            script = pathlib.Path(check_types.__file__)
            run = subprocess.run([sys.executable, script, root], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("weft/b/x.h:2: Twice is also defined in weft/a/x.h:2", run.stdout)


class Layers(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                file = pathlib.Path(root) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                check_layers.check_tree(pathlib.Path(root))
            return out.getvalue()

    def test_a_folder_includes_only_what_is_below_it(self):
        files = {"weft/base/a.h": '#pragma once\n#include "weft/plan/b.h"\n', "weft/plan/b.h": "#pragma once\n"}
        self.assertIn("weft/base/a.h:2: folder base may not include plan", self.breaches(files))
        files = {"weft/plan/b.h": '#pragma once\n#include "weft/base/a.h"\n', "weft/base/a.h": "#pragma once\n"}
        self.assertEqual(self.breaches(files), "")

    def test_a_command_includes_no_other_command(self):
        files = {
            "cli/plan/demo.cc": '#include "cli/bench/report.h"\n#include "cli/table.h"\n#include "cli/plan/own.h"\n',
            "cli/plan/own.h": "#pragma once\n",
            "cli/bench/report.h": "#pragma once\n",
            "cli/table.h": "#pragma once\n",
        }
        found = self.breaches(files)
        self.assertIn("cli/plan/demo.cc:1: command plan may not include command bench", found)
        self.assertEqual(found.count("may not include"), 1)

    def test_what_commands_share_includes_no_command(self):
        files = {"cli/table.h": '#pragma once\n#include "cli/sim/a.h"\n', "cli/sim/a.h": "#pragma once\n"}
        self.assertIn("cli/table.h:2: what commands share may not include command sim", self.breaches(files))

    def test_files_are_written_in_one_place(self):
        files = {
            "weft/base/a.cc": 'std::ofstream(path) << 1;\nstd::ifstream in(path);\n',
            "weft/base/a_test.cc": "std::ofstream(path) << 1;\n",
            "cli/plan/b.cc": 'std::fopen(path, "wb");\nstd::fopen(path, "rb");\n',
        }
        found = self.breaches(files)
        self.assertIn("weft/base/a.cc:1: writes a file by itself", found)
        self.assertIn("cli/plan/b.cc:1: writes a file by itself", found)
        self.assertEqual(found.count("writes a file"), 2)

    def test_lines_have_at_most_120_columns(self):
        files = {"weft/base/a.cc": "// " + "x" * 117 + "\n// " + "é" * 118 + "\n"}
        self.assertEqual(self.breaches(files), "weft/base/a.cc:2: 121 columns; wrap at 120\n")
        files = {"weft/base/a.cc": 'auto data = R"(' + "x" * 150 + "\n" + "y" * 150 + ')";\n'}
        self.assertEqual(self.breaches(files), "")

    def test_a_folder_has_at_most_40_files(self):
        files = {f"weft/base/f{i}.cc": "\n" for i in range(41)}
        self.assertIn("weft/base:1: 41 files", self.breaches(files))


if __name__ == "__main__":
    unittest.main()
