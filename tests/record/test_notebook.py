"""Checks `show`: the Python and the JavaScript side of the widget, its saved picture, the wheel, and JupyterLab."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from families import FAMILIES, ROTARY, L, T, make_inputs, record
from sentences import refused
from truth import F16_ROUNDING, rounding_of, tolerance_of

pytest.importorskip("anywidget", reason="anywidget is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from sinkscope.widget import Widget, _first_token_alpha, picture, show  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "models" / "record"
PAGE = ROOT / ".build" / "page" / "sink-scope.js"
PNG = b"\x89PNG\r\n"
IMPORT_PATTERN = (
    r"(?:\bfrom\s*|\bimport\s*\(?\s*)"
    r"[\"'`]((?:\w+:/|\.{0,2}/)[\w./:@-]+)[\"'`]"
)


@pytest.fixture(scope="module")
def recording() -> sinkscope.Recording:
    return record(FAMILIES["llama"].make("sdpa"), make_inputs(FAMILIES["llama"], 2))


def test_the_strongest_head_is_selected_and_a_picture_is_kept(recording: sinkscope.Recording) -> None:
    widget = show(recording)
    assert widget.prompt == 0
    alpha = recording["mean.alpha"][..., 0]
    assert alpha[widget.layer, widget.head] == alpha.max()
    data, _ = widget._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(PNG)
    assert "alpha_1" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data
    # If no layer or head is named, the head with the largest alpha is selected.
    for arguments, expected in (
        ({"layer": 2, "head": 1}, (2, 1)),
        ({"layer": 2}, (2, alpha[2].argmax())),
        ({"head": 1}, (alpha[:, 1].argmax(), 1)),
    ):
        assert ((selected := show(recording, **arguments)).layer, selected.head) == expected


def test_a_recording_without_alpha_is_shown_at_its_first_head(
    recording: sinkscope.Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkscope.widget._first_token_alpha", lambda *_: None)
    assert ((widget := show(recording)).layer, widget.head) == (0, 0)
    svg = picture(recording, format="svg").decode()
    assert "alpha: not recorded" in svg and f"attention of L{recording.layers[0]}H0" in svg


def test_only_stored_prompts_are_shown(recording: sinkscope.Recording) -> None:
    kept_count = recording.conditions["prompts"]["kept"]
    assert show(recording, prompt=kept_count - 1).prompt == kept_count - 1
    for prompt in (-1, kept_count):
        with refused(ValueError):
            show(recording, prompt=prompt)


@pytest.mark.parametrize("first", [0, 2])
def test_alpha_computed_from_maps_uses_the_position_that_counts_as_the_first(first: int) -> None:
    recording = record(FAMILIES["llama"].make("sdpa"), make_inputs(FAMILIES["llama"], 1), keep=1, first=first)
    map_recording = sinkscope.Recording(
        recording.conditions, {name: x for name, x in recording.tensors.items() if name == "0.att"}
    )
    alpha = _first_token_alpha(map_recording, 0)
    expected = recording["mean.alpha"][..., first]
    assert alpha is not None and np.allclose(alpha, expected, rtol=0, atol=F16_ROUNDING + rounding_of(1, T))


def test_the_front_end_receives_bytes_on_request(
    recording: sinkscope.Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget, messages = show(recording), []
    monkeypatch.setattr(Widget, "send", lambda self, content, buffers: messages.append((content, buffers)))
    widget._answer(widget, {"request": "still", "why": "because"}, None)
    assert messages[0][0] == {"kind": "still", "why": "because"} and messages[0][1][0].startswith(PNG)
    (tmp_path / "static").mkdir()
    monkeypatch.setattr("sinkscope.widget.files", lambda _: tmp_path)
    widget._answer(widget, {"request": "element"}, None)  # the package has no page, so the answer is a picture
    assert messages[1][0]["kind"] == "still"
    (tmp_path / "static" / "element.json").write_text("{}")
    widget._answer(widget, {"request": "element"}, None)
    content, (element, file) = messages[2]
    assert content == {"kind": "element"} and element == b"{}"
    path = tmp_path / "r.safetensors"
    path.write_bytes(file)
    result = sinkscope.Recording.open(path)
    assert result.conditions == recording.conditions and result.tensors.keys() == recording.tensors.keys()


def test_maps_of_any_tool_are_shown_with_their_tokens() -> None:
    prompt = make_inputs(FAMILIES["bert"], 1)[0]
    model = FAMILIES["bert"].make("eager")
    with torch.no_grad():
        attentions = model(input_ids=torch.tensor([prompt]), output_attentions=True).attentions
    result = show(attentions, [str(i) for i in prompt]).recording
    assert result["0.att"].shape == (3, 4, T, T)
    assert np.array_equal(result["0.att"][1], attentions[1][0].numpy().astype(np.float16))
    assert result.model["mask"] == {"kind": "bidirectional"}
    uniform = np.tril(np.ones((1, 2, 4, 4)))
    causal_recording = show(uniform / uniform.sum(-1, keepdims=True), list("abcd")).recording
    assert causal_recording.model["mask"] == {"kind": "causal"}
    for maps, tokens, expected in (
        (np.ones((2, 3, 3)), list("abc"), r"expected \[L, H, T, T\] or layers"),
        (np.ones((2, 2, 3, 3)), list("ab"), "expected 3, one for each"),
        (np.ones((2, 2, 3, 3)), None, "expected tokens beside maps"),
    ):
        with pytest.raises(ValueError, match=expected):
            show(maps, tokens)


def test_maps_whose_rows_need_not_sum_to_1_are_shown_by_their_operation(recording: sinkscope.Recording) -> None:
    maps = np.tril(np.full((1, 2, 4, 4), 0.125, np.float32))
    # The error message for such maps names the argument `operation` of `show`.
    with refused(ValueError) as error:
        show(maps, list("abcd"))
    match = re.search(r'(\w+)="(\w+)"', str(error.value))
    assert match
    for result in (
        show(maps, list("abcd"), **{match[1]: match[2]}).recording,
        show(maps, list("abcd"), operation="sigmoid").recording,
    ):
        assert result.model["operation"] in (match[2], "sigmoid")
        assert result["0.row_mass"][0, 0].tolist() == [0.125, 0.25, 0.375, 0.5]
        assert result["mean.alpha_raw"][0, 0, 0] == 0.125
    with refused(ValueError):
        show(recording, operation="sigmoid")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saves a random llama with a tokenizer of bytes and one merge, and returns the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    out = tmp_path_factory.mktemp("shown")
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "nk"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [("n", "k")]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(out)
    torch.manual_seed(0)
    sizes = ROTARY | {"vocab_size": 257, "num_key_value_heads": 2}
    tf.LlamaForCausalLM(tf.LlamaConfig(**sizes)).eval().save_pretrained(out)
    return out


def test_a_folder_is_shown_as_its_model_on_a_text(folder: Path) -> None:
    with refused(ValueError):
        show(folder)
    result = show(folder, text="a sink", head=1, layer=2).recording
    assert result.tokens(0)[:3] == ["a", " ", "s"] and result.model["H"] == 4
    first = int(result["0.tokens"][0])
    assert first and result.conditions["first"] == {"token": "a", "id": first, "position": 0}
    model = tf.LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager")
    ids = torch.from_numpy(result["0.tokens"].astype(np.int64))[None]
    with torch.no_grad():
        maps = torch.stack(model(input_ids=ids, output_attentions=True).attentions)[:, 0]
    assert np.abs(result.attention(0) - maps.numpy()).max() - F16_ROUNDING < tolerance_of(
        maps, L * model.config.hidden_size
    )


def test_a_gguf_file_is_shown_with_the_hash_of_its_bytes(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    path = _write_gguf(folder, tmp_path / "model.gguf")
    result = show(path, text="a sink").recording
    expected = show(folder, text="a sink").recording
    assert result.tokens(0) == expected.tokens(0)
    assert np.abs(result["mean.alpha"] - expected["mean.alpha"]).max() <= 1e-5
    assert result.model["sha256"] == sha256(path.read_bytes()).hexdigest()
    assert result.model["id"] == "model"


def _write_gguf(folder: Path, path: Path) -> Path:
    """Writes the weights and the tokenizer of `folder` into one file with the gguf package."""
    import gguf

    model = tf.LlamaForCausalLM.from_pretrained(folder)
    config, names = model.config, gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, L)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(L)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.get))
    writer.add_token_types([1] * len(vocabulary))
    writer.add_token_merges(["n k"])
    for name, x in model.state_dict().items():
        stem, suffix = name.rsplit(".", 1)
        head_count = {"q_proj": 4, "k_proj": 2}.get(stem.rsplit(".", 1)[-1])
        data = x.numpy()
        if head_count:  # a rotary pair are neighbors in llama.cpp, and half a head apart in transformers
            data = data.reshape(head_count, 2, -1, data.shape[-1]).swapaxes(1, 2).reshape(data.shape)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_wheel_carries_the_element(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    if not PAGE.exists():
        pytest.skip("the page is not built")
    [wheel] = _build_wheel(tmp_path)
    assert wheel.stat().st_size <= 624_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"sinkscope/py.typed", "sinkscope/metrics.py", "sinkscope/widget.js"} <= set(names)
        element = json.loads(archive.read("sinkscope/static/element.json"))
    modules = element["modules"]
    [engine] = [text for name, text in element["files"].items() if name.endswith("sinkscope.lab.wasm")]
    assert gzip.decompress(base64.b64decode(engine)).startswith(b"\0asm")
    for text in modules.values():  # every import is a module of the file, by an absolute address
        assert "import.meta" not in text
        # A text may contain "from" as a word: only an address after it makes it an import.
        for name in re.findall(IMPORT_PATTERN, text):
            assert name in modules


def _build_wheel(folder: Path) -> list[Path]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=PACKAGE,
        check=True,
        capture_output=True,
    )
    return list(folder.glob("*.whl"))


def test_jupyterlab_runs_selects_reloads_and_exports(tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    if not PAGE.exists():
        pytest.skip("the page is not built")
    _build_wheel(tmp_path / "wheel")
    (tmp_path / "models").mkdir()
    shutil.copytree(ROOT / "models" / "recordings", tmp_path / "models" / "recordings")
    notebook = tmp_path / "models" / "record" / "example.ipynb"
    notebook.parent.mkdir()
    shutil.copy(PACKAGE / "example.ipynb", notebook)
    folder = tmp_path / "jupyter"
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyterlab",
            "--allow-root",
            "--no-browser",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            "--IdentityProvider.token=t",
            "--LabApp.expose_app_in_browser=True",
            f"--ServerApp.root_dir={tmp_path}",
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ
        | {
            "PYTHONPATH": str(PACKAGE / "src"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        },
    )
    try:
        address = _wait_for_address(folder / "runtime", server)
        run = subprocess.run(
            [
                "node",
                "tests/record/jupyterlab.mjs",
                f"{address}lab/tree/models/record/example.ipynb?token=t",
                str(tmp_path),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        result = json.loads(run.stdout)
    finally:
        server.terminate()
        server.wait()
    assert result["asked"] == []  # no other server is contacted
    strongest, selected = result["before"].split()[:2], result["selected"].split()[:2]
    assert strongest != selected == ["0", "0"]
    assert [result["layer"], result["head"]] == result["reloaded"].split()[:2] == selected
    subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", notebook], check=True, capture_output=True)
    document = json.loads(notebook.read_text())
    pictures = [
        output["data"]
        for cell in document["cells"]
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1 and base64.b64decode(pictures[0]["image/png"]).startswith(PNG)
    html = notebook.with_suffix(".html").read_text()
    assert "data:image/png;base64," in html and "alpha_1" in html


def test_the_example_runs_under_nbconvert(tmp_path: Path) -> None:
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    shutil.copytree(ROOT / "models" / "recordings", tmp_path / "models" / "recordings")
    notebook = tmp_path / "models" / "record" / "example.ipynb"
    notebook.parent.mkdir()
    shutil.copy(PACKAGE / "example.ipynb", notebook)
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--ExecutePreprocessor.timeout=-1", notebook],
        check=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE / "src")},
    )
    html = notebook.with_suffix(".html").read_text()
    assert "data:image/png;base64," in html and "alpha_1" in html and "Traceback" not in html


def _wait_for_address(runtime: Path, server: subprocess.Popen) -> str:
    """Waits until the server listens, and returns the address that it writes into its runtime folder."""
    while True:
        assert server.poll() is None, "the server ended"
        for path in runtime.glob("jpserver-*.json"):
            try:
                url = json.loads(path.read_text())["url"]
                urllib.request.urlopen(f"{url}api/status?token=t").close()
                return url
            except (OSError, ValueError):
                pass
        time.sleep(0.25)
