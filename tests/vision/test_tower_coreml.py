#!/usr/bin/env python3
"""Core ML packages of vision towers, without a Mac: their form, and what they compute, by numpy.

    test_tower_coreml.py BIN_FOLDER SHARED_FOLDER

Made-up towers of every family, and the recorded ones of SHARED_FOLDER/golden. A package's rows are compared with those of plain
floats and with the recorded embeddings. Prints "N passed, N failed". Run by scripts/test-coreml.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import numpy as np

from mil_in_numpy import Package

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(sys.argv[1]).resolve()
SHARED = pathlib.Path(sys.argv[2]).resolve()


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command}: {result.stderr[-2000:]}"
    return result.stdout


def relative_rms(a, reference):
    return float(np.sqrt(np.sum((a - reference) ** 2) / np.sum(reference ** 2)))


class Case:
    """A tower with its packages, in a folder of its own."""

    def __init__(self, folder, projector, *flags, precision="float32", weights="f32"):
        self.folder, self.tower = folder, folder / "tower"
        run(BIN / "tempo9", "tower", "export", projector, "--out", self.tower, "--weights", weights, *flags)
        run(sys.executable, ROOT / "scripts/tower-coreml", self.tower, "--precision", precision)
        self.meta = json.loads((self.tower / "tower_meta.json").read_text())

    def look(self, *image):
        """(package, what the program is given, exact rows, cells) of an image's bucket."""
        out = self.folder / "look"
        out.mkdir(exist_ok=True)
        run(BIN / "tower_inputs", "look", self.tower, *image, out)
        seen = json.loads((out / "tower.json").read_text())
        arrays = {name: np.fromfile(out / f"{name}.f32", np.float32).reshape(shape)
                  for name, shape in seen["arrays"].items()}
        bucket = next(b for b in self.meta["buckets"] if b["name"] == seen["bucket"])
        return Package(self.tower / bucket["coreml"]), arrays, arrays.pop("expected"), seen["cells"]


def check_form(case):
    assert case.meta["coreml"]["weights_digest"] == case.meta["weights_digest"]
    assert "gates" not in case.meta["coreml"], "only a Mac can run them"
    for bucket in case.meta["buckets"]:
        assert bucket["coreml"] == bucket["name"] + ".mlpackage"
        package = Package(case.tower / bucket["coreml"])
        assert package.spec.WhichOneof("Type") == "mlProgram"
        assert package.spec.specificationVersion == 7, "macOS 13"
        assert package.outputs() == {"rows": (bucket["tokens"], case.meta["embedding_cols"])}, package.outputs()
        inputs = package.inputs()
        assert inputs["pixels"][0] == bucket["patches"]
        assert all(shape[0] in (1, bucket["patches"]) for shape in inputs.values()), inputs
        assert {i.type.multiArrayType.dataType for i in package.spec.description.input} == {65568}, "float32"
    # The tower is one for the CPU as before, and a moved or lost package is noticed.
    run(BIN / "tempo9", "tower", "check", case.tower)


def check_rows(case, image, most_rms, *, recorded=None):
    package, inputs, expected, cells = case.look(*image)
    assert package.inputs() == {name: array.shape for name, array in inputs.items()}
    rows = package.compute(inputs)["rows"]
    rms = relative_rms(rows[:len(cells)], expected[:len(cells)])
    assert rms <= most_rms, f"relative RMS {rms:.1e}"
    if recorded is not None:
        in_order = np.empty_like(rows[:len(cells)])
        in_order[cells] = rows[:len(cells)]
        to_record = relative_rms(in_order[:, :recorded.shape[1]], recorded)
        assert to_record <= 1e-3, f"relative RMS to the recording {to_record:.1e}"
        return f"{rms:.1e}, to the recording {to_record:.1e}"
    return f"{rms:.1e}"


def made_up(kind, image, most_rms=1e-5, flags=(), **options):
    def test(folder):
        run(BIN / "tower_inputs", "make", kind, folder / "mmproj.gguf")
        case = Case(folder, folder / "mmproj.gguf", *flags, **options)
        check_form(case)
        return check_rows(case, image, most_rms)
    return test


def recorded(name):
    def test(folder):
        golden = SHARED / "golden" / name
        expect = json.loads((golden / "expect.json").read_text())
        rows = np.fromfile(golden / "image_embeddings.f32", np.float32).reshape(-1, expect["embedding_width"])
        case = Case(folder, golden / "mmproj.gguf", "--min-pixels", 0, "--max-pixels", 40000)
        return check_rows(case, [golden / "image.png"], 1e-5, recorded=rows)
    return test


def of_other_weights(folder):
    """Packages of another export are not used."""
    run(BIN / "tower_inputs", "make", "qwen2vl_merger", folder / "mmproj.gguf")
    case = Case(folder, folder / "mmproj.gguf", "--max-pixels", 4096)
    for change, text in ((lambda m: m["coreml"].update(weights_digest="00"), "other weights"),
                         (lambda m: m["buckets"][0].update(coreml="../b1024.mlpackage"), "no package's name"),
                         (lambda m: m["buckets"][0].update(coreml="lost.mlpackage"), "lost.mlpackage is missing")):
        meta = json.loads(json.dumps(case.meta))
        change(meta)
        (case.tower / "tower_meta.json").write_text(json.dumps(meta))
        refused = subprocess.run([BIN / "tempo9", "tower", "check", case.tower], capture_output=True, text=True)
        assert refused.returncode == 1 and text in refused.stderr, refused.stderr


SMALL = ("--max-pixels", 16384)
TESTS = {
    "qwen3vl, a table of positions and rows for later layers": made_up("qwen3vl_merger", (100, 60), flags=SMALL),
    "qwen2vl": made_up("qwen2vl_merger", (60, 100), flags=SMALL),
    "qwen2.5vl, windows": made_up("qwen2.5vl_merger", (90, 70), flags=SMALL),
    "qwen2.5vl in its large bucket, scores in parts": made_up("qwen2.5vl_merger", (200, 230)),
    "gemma3, one size": made_up("gemma3", (50, 40)),
    "gemma4v, bounds": made_up("gemma4v", (50, 40)),
    "8-bit weights and 16-bit floats": made_up("qwen3vl_merger", (100, 60), 2e-3, SMALL, precision="float16",
                                               weights="q8_0"),
    "recorded qwen2vl": recorded("qwen2vl"),
    "recorded qwen3vl": recorded("qwen3vl"),
    "recorded qwen35-vl": recorded("qwen35-vl"),
    "packages of other weights": of_other_weights,
}


def main():
    n_failed = 0
    for name, test in TESTS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"ok    {name}: {test(pathlib.Path(folder)) or 'refused'}", flush=True)
            except Exception:  # the others run all the same
                n_failed += 1
                print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(TESTS) - n_failed} passed, {n_failed} failed")
    sys.exit(n_failed > 0)


if __name__ == "__main__":
    main()
