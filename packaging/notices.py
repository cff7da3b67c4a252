#!/usr/bin/env python3
"""Writes the notices of all that the program has in it and Winnow did not
write: the crates of a lock file, and the C and C++ libraries that are compiled
or linked into it. Texts are those that came with the sources of this build;
where one cannot be found, the notice says so.

    notices.py --crate Cargo.toml --cargo cargo --compiler g++
               --onednn FOLDER [--cuda FOLDER] FILE
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

NOTICE_FILE = re.compile(
    r"(licen[cs]e|copying|copyright|notice|unlicense|authors)([.-].*)?", re.I)
# Libraries of the system, with a file by which the package is known.
SYSTEM_LIBRARIES = (
    ("fmt", "MIT", "/usr/include/fmt/core.h"),
    ("JSON for Modern C++", "MIT", "/usr/include/nlohmann/json.hpp"),
    ("CLI11", "BSD-3-Clause", "/usr/include/CLI/CLI.hpp"),
    ("liburing", "MIT OR LGPL-2.1-or-later", "/usr/include/liburing.h"),
    ("xxHash", "BSD-2-Clause", "/usr/include/xxhash.h"),
    ("Boost (Asio, Beast and what they use)", "BSL-1.0",
     "/usr/include/boost/asio.hpp"),
)
NOT_FOUND = "(its text was not found where this program was built)"


@dataclass
class Component:
    name: str
    version: str
    licence: str
    texts: dict[str, str] = field(default_factory=dict)  # by file


def output_of(*command: str) -> str:
    """"" where the command fails, or is not there."""
    try:
        return subprocess.run(command, text=True, check=True,
                              capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def linked_crates(metadata: dict) -> list[dict]:
    """The packages whose code is in the library: what the root needs when it
    runs. Macros run in the compiler alone."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    seen, waiting = set(), [root]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for needed in nodes[name]["deps"]:
            kinds = [target["kind"]
                     for target in packages[needed["pkg"]]["targets"]]
            at_run_time = any(kind["kind"] is None
                              for kind in needed["dep_kinds"])
            if at_run_time and ["proc-macro"] not in kinds:
                waiting.append(needed["pkg"])
    return sorted((packages[name] for name in seen - {root}),
                  key=lambda package: package["name"])


def crate_components(cargo: Path, manifest: Path) -> list[Component]:
    host = re.findall(r"(?m)^host: (.+)$", output_of(rustc_of(cargo), "-vV"))
    metadata = subprocess.run(
        [cargo, "metadata", "--offline", "--locked", "--format-version", "1",
         "--filter-platform", *host, "--manifest-path", manifest],
        check=True, text=True, stdout=subprocess.PIPE).stdout
    components = []
    for package in linked_crates(json.loads(metadata)):
        folder = Path(package["manifest_path"]).parent
        texts = {str(path.relative_to(folder)): read_text(path)
                 for path in sorted(folder.rglob("*"))
                 if path.is_file() and NOTICE_FILE.fullmatch(path.name)}
        components.append(Component(package["name"] + " (Rust)",
                                    package["version"],
                                    package["license"] or "see its files",
                                    texts))
    return components


def package_of(path: str) -> str:
    """The Debian package that a file belongs to, or ""."""
    return output_of("dpkg-query", "-S", path).partition(":")[0]


def packaged_component(name: str, licence: str, path: str) -> Component:
    package = package_of(path)
    version = output_of("dpkg-query", "-W", "-f", "${Version}", package)
    notice = Path("/usr/share/doc", package, "copyright")
    component = Component(name, version, licence)
    if package and notice.is_file():
        component.texts[f"copyright of {package}"] = read_text(notice)
    return component


def boost_component(name: str, licence: str, path: str) -> Component:
    """Boost's licence asks for no notice in a program, and what Debian says of
    its hundred libraries is 2 MB: the licence alone."""
    component = packaged_component(name, licence, path)
    for file, text in component.texts.items():
        for paragraph in re.split(r"\n\s*\n", text):
            if paragraph.startswith("License: BSL-1.0\n Boost Software"):
                component.texts = {file: paragraph}
                return component
    component.texts.clear()
    return component


def rustc_of(cargo: Path) -> str:
    return str(cargo.with_name("rustc"))


def rust_library(rustc: str) -> Component:
    version = output_of(rustc, "--version").split()
    component = Component("Rust's standard library", " ".join(version[1:2]),
                          "MIT OR Apache-2.0, and as stated in its text")
    page = Path(output_of(rustc, "--print", "sysroot").strip(),
                "share/doc/rust/COPYRIGHT-library.html")
    folder = Path(output_of(rustc, "--print", "target-libdir").strip())
    if page.is_file():
        text = html.unescape(re.sub(r"<(style|head).*?</\1>|<[^>]*>", "",
                                    read_text(page), flags=re.S))
        text = re.sub(r"[ \t]+\n", "\n", text)
        component.texts[page.name] = re.sub(r"\n{3,}", "\n\n", text)
    else:  # of the system's package manager
        for library in folder.glob("libstd-*.rlib"):
            found = packaged_component("", "", str(library))
            component.texts.update(found.texts)
    return component


def compiler_library(compiler: str) -> Component:
    """What -static-libstdc++ and -static-libgcc bring."""
    library = output_of(compiler, "-print-file-name=libstdc++.a").strip()
    return packaged_component("GCC's libstdc++ and libgcc",
                              "GPL-3.0-or-later WITH GCC-exception-3.1",
                              str(Path(library).resolve()))


def onednn(folder: Path) -> Component:
    numbers = re.findall(r"#define DNNL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                         read_text(folder /
                                   "include/oneapi/dnnl/dnnl_version.h"))
    texts = {name: read_text(folder / "share/doc/dnnl" / name)
             for name in ("LICENSE", "THIRD-PARTY-PROGRAMS")
             if (folder / "share/doc/dnnl" / name).is_file()}
    return Component("oneDNN", ".".join(numbers), "Apache-2.0", texts)


def cuda_runtime(folder: Path) -> Component:
    """The runtime is linked statically; its licence lies in the toolkit's
    folder, or above it where scripts/bootstrap installed it."""
    above = folder.parent.parent
    candidates = [*above.glob("nvidia_cuda_runtime-*/licenses/License.txt"),
                  folder / "EULA.txt"]
    texts = {path.name: read_text(path) for path in candidates
             if path.is_file()}
    version = re.findall(r"nvidia_cuda_runtime-([\d.]+)\.dist-info",
                         str(candidates[0]))
    return Component("CUDA runtime library", "".join(version),
                     "NVIDIA's licence of the CUDA toolkit", texts)


def render(components: list[Component]) -> str:
    numbers: dict[str, int] = {}  # of a text, in the order of appearance
    names: dict[int, list[str]] = {}
    lines = ["The program winnow is under the Apache License 2.0. It has in it "
             "the software below,", "whose authors ask that their notices go "
             "with it. The numbers are those of the texts", "that follow.", ""]
    for each in components:
        used = []
        for file, text in each.texts.items():
            text = text.strip()
            number = numbers.setdefault(text, len(numbers) + 1)
            names.setdefault(number, []).append(f"{each.name}, {file}")
            used.append(f"[{number}]")
        lines.append(f"{each.name} {each.version}: {each.licence} "
                     + (" ".join(used) or NOT_FOUND))
    for text, number in numbers.items():
        lines += ["", "-" * 79, f"[{number}] {'; '.join(names[number])}", "",
                  text]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--crate", type=Path, required=True)
    parser.add_argument("--cargo", type=Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--onednn", type=Path, required=True)
    parser.add_argument("--cuda", type=Path)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    components = [onednn(arguments.onednn)]
    if arguments.cuda:
        components.append(cuda_runtime(arguments.cuda))
    for library in SYSTEM_LIBRARIES:
        of = (boost_component if library[0].startswith("Boost")
              else packaged_component)
        components.append(of(*library))
    components += [compiler_library(arguments.compiler),
                   rust_library(rustc_of(arguments.cargo)),
                   *crate_components(arguments.cargo, arguments.crate)]
    arguments.file.write_text(render(components), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
