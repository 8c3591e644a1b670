"""gluon.model_zoo against MXNet 1.9.1's figures (tests/oracle/model_zoo.py makes them)."""
import hashlib
import importlib.util
import json
import os
import zipfile

import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import repository
from minigluon.gluon.model_zoo import model_store, vision

ORACLE = os.path.join(os.path.dirname(__file__), "..", "oracle")
_spec = importlib.util.spec_from_file_location("oracle_zoo", os.path.join(ORACLE, "model_zoo.py"))
zoo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(zoo)
with open(os.path.join(ORACLE, "model_zoo.json")) as _file:
    FIGURES = json.load(_file)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_parameters_text_and_graph_are_mxnets(name):
    assert zoo.structure(mx, name) == FIGURES["structure"][name]


@pytest.mark.parametrize("name", zoo.RUN)
def test_outputs_are_mxnets(name):
    expected = np.array(FIGURES["output"][name])
    error = np.abs(np.array(zoo.output(mx, name)) - expected)
    assert error.max() < 1e-5 * np.abs(expected).max()


def test_gradients_of_resnet18_are_mxnets():
    ours, theirs = zoo.gradients(mx), FIGURES["gradients"]
    np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-10)
    assert ours["squares"].keys() == theirs["squares"].keys()
    for place, square in theirs["squares"].items():
        assert ours["squares"][place] == pytest.approx(square, rel=1e-8, abs=1e-12), place


def test_resnet_in_files_by_mxnet():
    for ours, theirs in zip(zoo.files(mx, "read", os.path.join(ORACLE, "resnet")),
                            FIGURES["small"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_our_files_are_mxnets(tmp_path):
    zoo.files(mx, "write", str(tmp_path / "ours"))
    for kind in ("-0000.params", ".params"):
        ours = mx.nd.load(str(tmp_path / f"ours{kind}"))
        theirs = mx.nd.load(os.path.join(ORACLE, f"resnet{kind}"))
        assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
        for name, value in theirs.items():
            np.testing.assert_array_equal(ours[name].asnumpy(), value.asnumpy())


def test_get_model():
    assert len(vision._models) == len(zoo.NAMES) == 34 == len(model_store._model_sha1)
    net = vision.get_model("ResNet18_V1", classes=10, thumbnail=True)
    assert net.output.weight.shape == (10, 512)
    with pytest.raises(ValueError, match=r"Model vgg12 is not supported.*\n\talexnet\n"):
        vision.get_model("vgg12")
    with pytest.raises(AssertionError, match="Invalid number of layers: 19"):
        vision.get_resnet(1, 19)
    with pytest.raises(AssertionError, match="Invalid resnet version: 3"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="SqueezeNet version 2"):
        vision.SqueezeNet("2")


def test_functions_by_name():
    assert vision.mobilenet_v2_0_25.__name__ == "mobilenet_v2_0_25"
    assert "pretrained" in vision.resnet50_v2.__doc__
    assert isinstance(vision.vgg11_bn(classes=2), vision.VGG)
    block = vision.BottleneckV2(8, 1, in_channels=8)
    block.initialize()
    assert block(mx.nd.ones((1, 8, 4, 4))).shape == (1, 8, 4, 4)


def test_the_output_can_be_replaced():
    net = vision.resnet18_v2(thumbnail=True)
    with net.name_scope():
        net.output = mx.gluon.nn.Dense(5)
    net.initialize()
    net.hybridize()
    assert net(mx.nd.ones((2, 3, 32, 32))).shape == (2, 5)


def test_dropout_between_dense_layers():
    net = vision.DenseNet(4, 2, (1, 1), dropout=0.5, classes=3)
    assert sum("Dropout" in line for line in repr(net).splitlines()) == 2


# -- trained weights -------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A zoo whose repository is a folder with the 'trained' weights of squeezenet1.1, 4 outputs."""
    content = tmp_path / "content.params"
    net = vision.get_model("squeezenet1.1", classes=4)
    net.initialize()
    net(mx.nd.ones((1, 3, 224, 224)))
    net.save_parameters(str(content))
    sha1 = hashlib.sha1(content.read_bytes()).hexdigest()
    monkeypatch.setitem(model_store._model_sha1, "squeezenet1.1", sha1)
    folder = tmp_path / "repository" / "gluon" / "models"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"squeezenet1.1-{sha1[:8]}.zip", "w") as archive:
        archive.write(content, f"squeezenet1.1-{sha1[:8]}.params")
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "repository").as_uri())
    monkeypatch.delenv("MINIGLUON_OFFLINE", raising=False)
    monkeypatch.setattr(repository, "_told", set())
    return net, sha1


def test_pretrained(store, tmp_path, monkeypatch):
    trained, sha1 = store
    root = tmp_path / "root"
    net = vision.get_model("squeezenet1.1", pretrained=True, ctx=mx.cpu(1), root=str(root),
                           classes=4)
    assert os.listdir(root) == [f"squeezenet1.1-{sha1[:8]}.params"]
    weight = net.output[0].weight
    assert weight.list_ctx() == [mx.cpu(1)]
    np.testing.assert_array_equal(weight.data(mx.cpu(1)).asnumpy(),
                                  trained.output[0].weight.data().asnumpy())
    monkeypatch.setenv("MINIGLUON_OFFLINE", "1")  # a second time nothing is fetched
    assert model_store.get_model_file("squeezenet1.1", str(root)).startswith(str(root))
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    with pytest.raises(OSError, match=r"weights of squeezenet1.1 are not at .*home.models"):
        vision.squeezenet1_1(pretrained=True)
    model_store.purge(str(root))
    assert os.listdir(root) == []


def test_a_spoilt_file_is_fetched_again(store, tmp_path):
    path = model_store.get_model_file("squeezenet1.1", str(tmp_path))
    with open(path, "ab") as file:
        file.write(b"x")
    assert model_store.get_model_file("squeezenet1.1", str(tmp_path)) == path
    assert model_store.check_sha1(path, store[1])


def test_wrong_content_is_refused(store, tmp_path, monkeypatch):
    sha1 = store[1][:8] + "0" * 32
    monkeypatch.setitem(model_store._model_sha1, "squeezenet1.1", sha1)
    with pytest.raises(OSError, match="not the expected file"):
        model_store.get_model_file("squeezenet1.1", str(tmp_path))


def test_unknown_weights_and_no_network(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="resnet18_v3 is not available; did you mean 'resnet1"):
        model_store.get_model_file("resnet18_v3")
    monkeypatch.setenv("MINIGLUON_OFFLINE", "1")
    with pytest.raises(OSError, match=r"alexnet-44335d1f.params there by hand") as caught:
        vision.get_model("alexnet", pretrained=True, root=str(tmp_path))
    assert "MINIGLUON_OFFLINE" in str(caught.value)
