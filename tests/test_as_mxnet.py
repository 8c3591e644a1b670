"""``import mxnet`` served by minigluon: scripts run with nothing changed."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys
import mxnet as mx
from mxnet import nd, autograd, gluon, init
from mxnet.gluon import nn
from mxnet.gluon.block import HybridBlock
from mxnet.gluon.data.vision import transforms
import mxnet.ndarray as F
import mxnet.gluon.nn

assert mx.__version__ == "1.9.1" and mx.nd is nd is F and mxnet.gluon.nn is nn

class Net(HybridBlock):
    def __init__(self, **kwargs):
        super(Net, self).__init__(**kwargs)
        with self.name_scope():
            self.fc = nn.Dense(2)
    def hybrid_forward(self, F, x):
        return F.relu(self.fc(x))

net = Net()
net.initialize(init.One())
net.hybridize()
print(net(nd.ones((1, 3))).asnumpy().tolist(), sys.argv[1:])
"""


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(ROOT)), timeout=60, **options)


def test_script_runs_unmodified(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = run("-m", "minigluon.as_mxnet", str(script), "--lr", "0.1")
    assert done.stdout.strip() == "[[3.0, 3.0]] ['--lr', '0.1']", done.stderr


def test_neighbouring_modules_and_tracebacks_are_the_scripts_own(tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    script = tmp_path / "train.py"
    script.write_text("import mxnet, helper\nprint(helper.VALUE)\nmxnet.nd.ones((2,)).nothing\n")
    done = run("-m", "minigluon.as_mxnet", str(script))
    assert done.stdout.strip() == "3" and done.returncode == 1
    assert "train.py" in done.stderr and "AttributeError" in done.stderr


def test_import_inside_a_program():
    code = ("import minigluon.as_mxnet, minigluon, mxnet; "
            "import mxnet.gluon.loss as loss; assert loss is minigluon.gluon.loss; "
            "assert minigluon.gluon.loss.__spec__.name == 'minigluon.gluon.loss'; "
            "print(mxnet.gluon is minigluon.gluon)")
    assert run("-c", code).stdout.strip() == "True"


def test_modules_that_are_namespaces_or_other_files_here():
    code = ("import minigluon.as_mxnet, minigluon, mxnet as mx\n"
            "from mxnet.symbol.contrib import SyncBatchNorm\n"
            "from mxnet.ndarray.random import uniform\n"
            "from mxnet.numpy_extension.random import bernoulli\n"
            "assert bernoulli is minigluon.npx.random.bernoulli\n"
            "from mxnet.contrib.ndarray import MultiBoxPrior\n"
            "from mxnet.gluon.nn.basic_layers import Dense\n"
            "import mxnet.io.io\n"
            "assert Dense is minigluon.gluon.nn.Dense\n"
            "assert mxnet.io.io.DataBatch is mx.io.DataBatch\n"
            "assert MultiBoxPrior is mx.nd.contrib.MultiBoxPrior\n"
            "print(mx.test_utils.default_context(), mx.sym.contrib.SyncBatchNorm is SyncBatchNorm)")
    done = run("-c", code)
    assert done.stdout.strip() == "cpu(0) True", done.stderr
    done = run("-c", "import minigluon.as_mxnet\nimport mxnet.symbol.nothing")
    assert "ModuleNotFoundError" in done.stderr


def test_missing_names_say_so():
    done = run("-c", "import minigluon.as_mxnet\nimport mxnet as mx\nmx.no_such_thing")
    assert "served by minigluon" in done.stderr
    done = run("-c", "import minigluon.as_mxnet\nimport mxnet.no_such_module")
    assert "ModuleNotFoundError" in done.stderr and "mxnet.no_such_module" in done.stderr


def test_usage():
    done = run("-m", "minigluon.as_mxnet")
    assert done.returncode == 2 and "usage" in done.stdout
