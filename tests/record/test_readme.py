"""Runs the examples of models/record/README.md verbatim, with random small models in place of the named ones."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from PIL import Image
from sinkscope.__main__ import _make_parser, main
from vlms import make_ids, make_llava

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "models" / "record" / "README.md").read_text()
TEXTS = json.loads((ROOT / "models/zoo/heldout.json").read_text())[:6]


def make_model(seed: int) -> tf.PreTrainedModel:
    torch.manual_seed(seed)
    config = tf.GPTNeoXConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    return tf.GPTNeoXForCausalLM(config).eval()


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples take as given. A name on the hub is a folder here, so that the lines stay as they are."""
    monkeypatch.chdir(tmp_path)
    zoo = ROOT / "models/zoo/softmax"
    for seed, step in enumerate(("step0", "step512", "step143000")):
        folder = Path("EleutherAI/pythia-70m") / step
        make_model(seed).save_pretrained(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(zoo / name, folder)
    tokenizer = tf.AutoTokenizer.from_pretrained(zoo)
    dataset = [{"text": text, "source": "ab"[i % 2]} for i, text in enumerate(TEXTS)]
    return {"model": make_model(3), "tokenizer": tokenizer, "texts": TEXTS, "dataset": dataset, "step": 100}


class FakeProcessor:
    """Reads images as a vision model's processor does, and a text with an image as the ids of tests/record/vlms.py."""

    def __init__(self, images: Any) -> None:
        self.image_processor = images

    def __call__(self, images: Any, text: str | None = None, **options: Any) -> Any:
        inputs = self.image_processor(images=images, **options)
        return (
            inputs if text is None else {"input_ids": make_ids(), "pixel_values": inputs["pixel_values"][..., :16, :16]}
        )


def test_the_example_of_images_runs() -> None:
    [block] = re.findall(r"^## Images\n+```python\n(.*?)^```", README, re.M | re.S)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision = tf.Dinov2WithRegistersModel(tf.Dinov2WithRegistersConfig(**sizes, image_size=24, patch_size=8)).eval()
    processor = tf.ViTImageProcessor(size={"height": 24, "width": 24})
    images = np.random.default_rng(3).integers(0, 255, (2, 30, 40, 3), dtype=np.uint8)
    names: dict[str, Any] = {"vision": vision, "processor": processor, "images": list(images)}
    language, _ = make_llava()
    names |= {"language": language.eval(), "text": "<image>", "image": images[0]}
    names["processor"] = FakeProcessor(processor)
    exec(block, names)
    recording = names["recording"]
    assert recording.tokens()[2:4] == ["patch 0,0", "patch 0,1"] and recording["0.sink_value"].shape == (4, 12)


def make_trainer(model: Any, folder: Path) -> tf.Trainer:
    arguments = tf.TrainingArguments(str(folder), max_steps=1, report_to=[], use_cpu=True, save_strategy="no")
    rows = [{"input_ids": list(range(8)), "labels": list(range(8))}]
    return tf.Trainer(model, arguments, train_dataset=rows)


def test_the_first_example_runs(names: dict[str, Any]) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    [block] = re.findall(r"^    import sinkscope\n(?:    .*\n)+", README, re.M)
    exec(re.sub("^    ", "", block, flags=re.M), names)
    assert names["recording"].measure()["alpha"].shape == (4, 2)
    assert sinkscope.open_recording("model.safetensors").conditions["prompts"]["count"] == len(TEXTS)


def test_the_example_of_a_translation_runs(names: dict[str, Any]) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    [block] = re.findall(r"^## Speech and translation\n+```python\n(.*?)^```", README, re.M | re.S)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
    torch.manual_seed(4)
    names["model"] = tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=1024, decoder_start_token_id=0, **sizes)
    ).eval()
    for step in (0, 1000):
        names["model"].save_pretrained(f"checkpoints/step_{step}")
        names["tokenizer"].save_pretrained(f"checkpoints/step_{step}")
    exec(block, names)
    assert names["series"].steps == [0, 1000] and Path("cross.pdf").read_bytes().startswith(b"%PDF")
    cross = sinkscope.open_recording("cross.safetensors")
    queries, keys = cross.map(2, 0).shape
    assert (queries, keys) == (len(cross.queries()), len(cross.tokens())) and cross.model["part"] == "cross"


def test_the_examples_of_a_week_run(names: dict[str, Any], tmp_path: Path) -> None:
    for package in ("accelerate", "anywidget", "matplotlib", "pandas", "pyarrow"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    [block] = re.findall(r"^## A researcher's week\n+```python\n(.*?)^```", README, re.M | re.S)
    names["trainer"] = make_trainer(names["model"], tmp_path / "trainer")
    exec(block, names)
    series, generated = names["series"], names["generated"]
    assert series.steps == [0, 512, 143000] and names["recording"].conditions["prompts"]["count"] == len(TEXTS)
    assert generated.conditions["prompts"]["generated"] == 64
    assert sinkscope.Series.open("series.safetensors").title == series.title
    assert series.title.startswith("pythia-70m: 3 checkpoints, step 0 to 143000")
    for name in ("map.pdf", "emergence.pdf"):
        assert Path(name).read_bytes().startswith(b"%PDF")
    # From nothing to a figure of Sink_1 against the step are the lines about the series and its import.
    lines = [line for line in block.splitlines() if line.startswith(("import", "series =", 'open("emergence'))]
    assert len(lines) == 3
    assert np.isfinite(names["monitor"].measure()["sinkscope/sink_1"])


def shell_commands() -> list[str]:
    """Returns the README's commands of the shell: indented ones, and those within sentences, without their
    beginning."""
    joined = README.replace("\\\n", " ")
    commands = re.findall(
        r"^    python -m sinkscope (.*)$|`(?:python -m sinkscope )?((?:record|measure|study) [^`]*)`", joined, re.M
    )
    return [re.sub(r"\s+", " ", block or inline) for block, inline in commands]


@pytest.fixture
def places(names: dict[str, Any]) -> dict[str, str]:
    """What stands for the capital letters and the files of a command: random small models, texts and images."""
    Path("texts.json").write_text(json.dumps(TEXTS))
    Path("rows.jsonl").write_text("\n".join(json.dumps(row) for row in names["dataset"]))
    for name in ("a.png", "b.png"):
        Image.fromarray(np.full((24, 24, 3), 90, np.uint8)).save(name)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    tf.ViTModel(tf.ViTConfig(**sizes, image_size=24, patch_size=8)).save_pretrained("vision")
    tf.ViTImageProcessor(size={"height": 24, "width": 24}).save_pretrained("vision")
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=1024, decoder_start_token_id=0, **sizes)).save_pretrained("t5")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/zoo/softmax" / name, "t5")
    text_model = "EleutherAI/pythia-70m"
    return {"images": "vision", "part": "t5", "revisions": text_model, "": f"{text_model}/step0"}


def test_the_commands_run(places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    commands = shell_commands()
    assert len(commands) >= 9
    for command in commands:
        model = next(places[kind] for kind in places if f"--{kind}" in command or not kind)
        line = command if re.search("^measure|MODEL", command) else f"{command} MODEL"
        if line.startswith("record"):
            line += "" if re.search("--(texts|dataset|images)", line) else " --texts texts.json"
            line += "" if "--out" in line else " --out R.safetensors"
        replacements = {
            "a,b,c": "step0,step512",
            "FILE": "rows.jsonl",
            "s3://bucket": "bucket",
            "MODEL@REVISION": "EleutherAI/pythia-70m/step512",
            "MODEL": model,
        }
        for name, place in replacements.items():
            line = line.replace(name, place)
        arguments = shlex.split(line)
        # tests/record/test_study.py runs a study on Ray, which needs seconds to start.
        if "--ray" in arguments:
            _make_parser().parse_args(arguments)
        else:
            assert main(arguments) == 0, (command, capsys.readouterr().err)
