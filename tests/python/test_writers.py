"""The scripts that write goldens run, and write one case of each as it is committed."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from safetensors.torch import load_file  # noqa: E402

from models.reference.goldens import write_edits, write_goldens, write_variants  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"


def same(name: str, folder: Path) -> None:
    """Numbers to the last bits of F64, which another processor's libraries may round otherwise."""
    found = load_file(folder / name / "golden.safetensors")
    expected = load_file(GOLDEN / name / "golden.safetensors")
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.allclose(found[key].double(), value.double(), rtol=1e-6, atol=1e-12,
                              equal_nan=True), (name, key)
    said = json.loads((folder / name / "golden.json").read_text())
    assert said.keys() == json.loads((GOLDEN / name / "golden.json").read_text()).keys()


def test_a_variant_is_written_as_it_is_committed(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(write_variants.CASES))
    for module in (write_variants, write_goldens):
        monkeypatch.setattr(module, "GOLDEN", tmp_path, raising=False)
    write_variants.write(name, write_variants.CASES[name])
    same(name, tmp_path)


def test_an_edit_is_written_as_it_is_committed(tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    family = next(iter(write_edits.MODELS))
    name = next(one.removeprefix(f"edit-{family}-") for one in write_edits.CASES
                if one.startswith(f"edit-{family}-"))
    # It reads the model among the goldens, and writes beside it.
    model = write_edits.MODELS[family]
    (tmp_path / model).symlink_to(GOLDEN / model)
    for module in (write_edits, write_goldens):
        monkeypatch.setattr(module, "GOLDEN", tmp_path, raising=False)
    write_edits.write(family, name)
    same(f"edit-{family}-{name}", tmp_path)
