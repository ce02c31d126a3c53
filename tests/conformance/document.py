# SPDX-License-Identifier: BSD-2-Clause
"""docs/conformance.md: each part of it has a heading of its own and a test that writes it."""
import os
import re

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs",
                    "conformance.md")


def section(text, title):
    """What stands under the heading; empty where there is no such one."""
    match = re.search(rf"^## {re.escape(title)}\n\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    return match.group(1).rstrip("\n") + "\n" if match else ""


def with_section(text, title, body):
    """The text with that section replaced, or added at its end."""
    new = f"## {title}\n\n{body.rstrip()}\n"
    pattern = rf"^## {re.escape(title)}\n.*?(?=^## |\Z)"
    if re.search(pattern, text, flags=re.M | re.S):
        text = re.sub(pattern, lambda _: new + "\n", text, flags=re.M | re.S)
    else:
        text = text.rstrip() + "\n\n" + new
    return text.rstrip() + "\n"


def read():
    with open(PATH, encoding="utf-8") as f:
        return f.read()


def update(title, body):
    with open(PATH, "r+", encoding="utf-8") as f:
        text = with_section(f.read(), title, body)
        f.seek(0)
        f.truncate()
        f.write(text)
