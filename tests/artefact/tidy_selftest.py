#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of scripts/tidy: each thing that it looks for is planted in a small tree."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "tidy")
SPDX = "/* SPDX-License-Identifier: BSD-2-Clause */\n"
# A tree without a finding; each test adds to it or replaces a file of it.
CLEAN = {
    "src/wire/CMakeLists.txt": "layer(wire SOURCES a.c)\n",
    "src/wire/a.c": SPDX + '#include "wire/a.h"\n',
    "src/wire/a.h": SPDX + "#ifndef VBN_WIRE_A_H\n#define VBN_WIRE_A_H\n#endif\n",
    "README.md": "See [the layer](src/wire/a.h).\n",
}
REMINDER = "TO" + "DO"
PLANTED = [
    ("include direction", "src/wire/a.c",
     SPDX + '#include "wire/a.h"\n#include "engine/b.h"\n', "wire may not include engine"),
    ("include without layer", "src/wire/a.c", SPDX + '#include "a.h"\n', "with its layer"),
    ("allocation in the core", "src/wire/a.c",
     SPDX + '#include "wire/a.h"\nvoid *f(void)\n{\n\treturn malloc(1);\n}\n', "malloc() is banned"),
    ("clock in the core", "src/wire/a.c",
     SPDX + '#include "wire/a.h"\nlong f(void)\n{\n\treturn time(0);\n}\n', "time() is banned"),
    ("unbounded string call", "tools/b.c", SPDX + "void f(void)\n{\n\tstrcpy(a, b);\n}\n",
     "strcpy() is banned"),
    ("a socket that others may replace", "src/wire/a.c",
     SPDX + '#include "wire/a.h"\nint f(void)\n{\n\treturn socket(1, 2, 0);\n}\n',
     "socket() is banned"),
    ("sleep in a test", "tests/b.c", SPDX + "void f(void)\n{\n\tusleep(1);\n}\n",
     "usleep() is banned"),
    ("sleep in a test script", "tests/b.sh",
     "#!/bin/sh\n# SPDX-License-Identifier: BSD-2-Clause\nsl" "eep 1\n", "with a deadline"),
    ("reminder word", "src/wire/a.c", SPDX + f'#include "wire/a.h"\n/* {REMINDER}: later */\n',
     REMINDER),
    ("wrong header guard", "src/wire/a.h",
     SPDX + "#ifndef A_H\n#define A_H\n#endif\n", "header guard should be VBN_WIRE_A_H"),
    ("no header guard", "src/wire/a.h", SPDX + "struct a;\n", "no header guard"),
    ("name that says nothing", "src/wire/utils.h",
     SPDX + "#ifndef VBN_WIRE_UTILS_H\n#define VBN_WIRE_UTILS_H\n#endif\n", "says nothing"),
    ("dead source", "src/wire/b.c", SPDX + '#include "wire/a.h"\n', "dead file"),
    ("dead header", "src/wire/b.h",
     SPDX + "#ifndef VBN_WIRE_B_H\n#define VBN_WIRE_B_H\n#endif\n", "dead file"),
    ("test that is not registered", "tests/b_test.c", SPDX, "dead test"),
    ("script that nothing runs", "tests/b.py",
     "# SPDX-License-Identifier: BSD-2-Clause\n", "dead test"),
    ("link that leads nowhere", "README.md", "[x](nowhere.md)\n", "leads nowhere"),
    ("path of one machine", "README.md", "see /hom" "e/someone\n", "path of one machine"),
    ("no licence line", "src/wire/a.c", '#include "wire/a.h"\n', "no SPDX"),
]


def run_tidy(files):
    """Returns tidy's exit code and output on a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "scripts"))
        shutil.copy(TIDY, os.path.join(root, "scripts", "tidy"))
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        out = subprocess.run([sys.executable, os.path.join(root, "scripts", "tidy")],
                             capture_output=True, text=True, check=False)
        return out.returncode, out.stdout + out.stderr


class Tidy(unittest.TestCase):
    def test_a_clean_tree_has_no_finding(self):
        code, output = run_tidy(CLEAN)
        self.assertEqual(code, 0, output)

    def test_each_planted_fault_is_found(self):
        for name, path, text, expected in PLANTED:
            with self.subTest(name):
                code, output = run_tidy({**CLEAN, path: text})
                self.assertEqual(code, 1, output)
                self.assertIn(expected, output)
                self.assertTrue(any(line.startswith(path) and expected in line
                                    for line in output.splitlines()), output)

    def test_words_in_comments_and_strings_are_no_calls(self):
        code, output = run_tidy({**CLEAN, "src/wire/a.c": SPDX + '#include "wire/a.h"\n'
                                 '/* malloc(1) */\nconst char *s = "time(0)";\n'})
        self.assertEqual(code, 0, output)

    def test_a_reason_excuses_a_call(self):
        code, output = run_tidy({**CLEAN, "tests/CMakeLists.txt": "x(SOURCES b_test.c)\n",
                                 "tests/b_test.c": SPDX + "void f(void)\n{\n"
                                 "\tusleep(1); /* tidy: the planted fault itself */\n}\n"})
        self.assertEqual(code, 0, output)

    def test_a_source_named_by_a_loop_is_alive(self):
        code, output = run_tidy({
            **CLEAN, "tests/CMakeLists.txt":
            "foreach(s IN ITEMS b c)\n\tunit_test(${s} SOURCES ${s}_test.c)\nendforeach()\n",
            "tests/b_test.c": SPDX})
        self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()
