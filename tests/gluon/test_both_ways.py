"""Files of LeNet and ResNet-18 that MXNet 1.9.1 wrote, run here; what we write, read again.

tests/oracle/both_ways.py and resnet18.py made them, and check both ways live where MXNet is.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

import both_ways
import lstm_net
import resnet18

ORACLE = Path(both_ways.HERE)
RESNET18 = json.loads((ORACLE / "resnet18.json").read_text())


def test_lenet_as_mxnet_wrote_it_and_in_older_formats() -> None:
    figures = json.loads((ORACLE / "lenet" / "figures.json").read_text())
    errors = both_ways.apart(both_ways.read_lenet(mx, both_ways.LENET), figures)
    assert set(errors) == {"lenet", "v0", "v1"} and max(errors.values()) < 1e-5, errors


def test_parameters_of_recurrent_layers_by_place() -> None:
    """A layer's parameters are in files by the cells it stands for: `_unfused.0.l_cell...`."""
    net = lstm_net.make(mx)
    expected = lstm_net.figures(mx, net)
    net.initialize(mx.init.Zero(), force_reinit=True)
    assert lstm_net.figures(mx, net) != expected
    net.load_parameters(f"{ORACLE}/lstm-net.params")
    assert lstm_net.figures(mx, net) == expected == pytest.approx([16.5195, 24.69], abs=1e-4)
    assert set(mx.nd.load(f"{ORACLE}/lstm-net.params")) == set(net._collect_params_with_prefix())


def test_lenet_resnet_and_lstm_come_back(tmp_path: Path) -> None:
    """MXNet reads these very files: ``both_ways.py mxnet check``."""
    with mx.name.NameManager():  # whatever was named before in this process
        written = both_ways.write(mx, str(tmp_path))
    assert max(both_ways.apart(both_ways.read(mx, str(tmp_path)), written).values()) < 1e-6
    for name in ("lenet-0000.params", "v0-0000.params", "v1-0000.params"):
        ours, theirs = (mx.nd.load(f"{folder}/{name}") for folder in (tmp_path, both_ways.LENET))
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            np.testing.assert_array_equal(ours[key].asnumpy(), value.asnumpy())
    ours, theirs = ([(node["op"], node["name"], node["inputs"]) for node in json.loads(
        (Path(folder) / "lenet-symbol.json").read_text())["nodes"]]
        for folder in (tmp_path, both_ways.LENET))
    assert ours == theirs


@pytest.fixture(scope="module")
def run() -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = resnet18.run(
        mx, f"{resnet18.FIGURES}.params", "narrow")
    return found


@pytest.mark.parametrize("mode", RESNET18)
def test_resnet18_with_weights_from_mxnets_file(mode: str, run: dict[str, dict[str, list[float]]]
                                                ) -> None:
    """Output, loss and all gradients: 1e-4 of the largest value in float32, 1e-8 in float64."""
    errors = resnet18.apart(run[mode], RESNET18[mode])
    assert len(errors) == 65
    assert max(errors.values()) < (1e-4 if "float32" in mode else 1e-8), errors
