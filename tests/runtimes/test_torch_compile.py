"""Networks compiled ahead of time: what is compiled, what is found again, and what is said when it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, see make test-reference")

from sluice.errors import ConfigurationError, ModelError
from sluice.runtimes import torch_compile
from sluice.runtimes.torch import DeviceModule
from sluice.runtimes.torch_compile import cache_folder, shared_standard_library


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def network(seed=0, **more):
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, **more), torch.nn.SiLU()).eval()
    return module, DeviceModule(torch.device("cpu"), module)


def pictures(batch=2):
    return torch.rand(batch, 3, 8, 8)


@pytest.fixture
def copied(monkeypatch):
    """In place of the compiler: the traced network itself; the names of the files that were made."""
    made = []

    def compile_(traced, _made, target, *, name):
        made.append(target.name)
        target.write_bytes(traced.read_bytes())

    monkeypatch.setattr(torch_compile, "_compile", compile_)
    monkeypatch.setattr(torch_compile, "_load", lambda file, _device: torch.export.load(file).module())
    return made


def test_sizes_that_were_prepared_run_compiled_and_others_in_python(copied):
    module, device = network()
    compiled = device.compiled("net")
    compiled.prepare([pictures(2), pictures(1)])
    assert len(copied) == 2
    assert sorted(compiled.module._by_batch) == [1, 2]
    for batch in (1, 2, 3):
        given = pictures(batch)
        with torch.no_grad():
            torch.testing.assert_close(compiled(given)[0], module(given))


def test_a_network_is_compiled_once(copied):
    for _ in range(2):
        network()[1].compiled("net").prepare([pictures()])
    assert len(copied) == 1


class Flat(torch.nn.Module):
    """Its graph has the number of pictures in it."""

    def forward(self, given):
        return given.reshape(len(given), -1).mean(1)


def test_a_size_that_was_compiled_beside_others_is_found_alone(copied):
    for sizes in ((2, 4), (4,), (4, 2)):
        compiled = DeviceModule(torch.device("cpu"), Flat()).compiled("flat")
        compiled.prepare([pictures(size) for size in sizes])
        assert sorted(compiled.module._by_batch) == sorted(sizes)
    assert len(copied) == 2


@pytest.mark.parametrize("other", [{"seed": 1}, {"stride": 2}], ids=["weights", "graph"])
def test_another_network_is_compiled_anew(copied, other):
    network()[1].compiled("net").prepare([pictures()])
    network(**other)[1].compiled("net").prepare([pictures()])
    assert len(set(copied)) == 2


def test_arithmetic_in_half_precision_is_part_of_what_is_compiled(copied):
    module, _ = network()
    half = DeviceModule(torch.device("cpu"), module, torch.bfloat16).compiled("net")
    half.prepare([pictures()])
    assert half(pictures())[0].dtype == torch.bfloat16


def test_a_compiler_that_fails_is_named_with_what_it_wrote(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        ModelError, match=r"compiling net for .*2x3x8x8\.pt2 failed \(exit status 1\); it wrote:\n  nothing"
    ):
        network()[1].compiled("net").prepare([pictures()])
    assert not list(cache_folder().iterdir())


class Asking(torch.nn.Module):
    def forward(self, given):
        return given * 2 if float(given.sum()) > 0 else given


def test_a_network_that_cannot_be_traced_is_named():
    device = DeviceModule(torch.device("cpu"), Asking()).compiled("asking")
    with pytest.raises(ConfigurationError, match=r"asking cannot be compiled, because torch\.export cannot trace it"):
        device.prepare([pictures()])


@pytest.mark.timeout(900)
def test_the_real_compiler_gives_the_same(tmp_path):
    module, device = network()
    compiled = device.compiled("net")
    given = pictures()
    compiled.prepare([given])
    with torch.inference_mode():
        torch.testing.assert_close(compiled(given)[0], module(given))


def compiler_that_answers(folder, text):
    """g++ but for where it says its C++ library is."""
    path = folder / "cxx"
    path.write_text(f'#!/bin/sh\nif [ "$1" = -print-file-name=libstdc++.so ]; then echo {text}; else g++ "$@"; fi\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("answer", ["/usr/lib/libstdc++.so", ""])
def test_other_compilers_are_left_alone(tmp_path, answer):
    with shared_standard_library(compiler_that_answers(tmp_path, answer)) as variables:
        assert variables == {}


def test_no_compiler_is_pytorchs_to_complain_of(tmp_path):
    with shared_standard_library(str(tmp_path / "none")) as variables:
        assert variables == {}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_what_is_linked_with_it_shares_the_cpp_library(tmp_path):
    source = tmp_path / "a.cpp"
    source.write_text('#include <regex>\nbool f(const char *s) { return std::regex_match(s, std::regex("a+")); }\n')
    with shared_standard_library(compiler_that_answers(tmp_path, "libstdc++.so")) as variables:
        folder = Path(variables["CXX"]).parent
        assert (folder / "libstdc++.so").resolve().name.startswith("libstdc++.so.6")
        command = [variables["CXX"], "-shared", "-fPIC", "-Wl,--trace", "-o", tmp_path / "a.so", source]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
        assert f"{folder}/libstdc++.so" in told.stdout
    assert not folder.exists()
    needed = subprocess.run(["readelf", "-d", tmp_path / "a.so"], capture_output=True, text=True, check=True).stdout
    assert "libstdc++.so.6" in needed
