"""Networks that several programs of this folder train, for minigluon and MXNet (`mx`)."""
import numpy as np


def lenet(mx):
    """LeNet with 20 and 50 filters and 500 units for 28 x 28 images, without values."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="tanh", in_channels=1), nn.MaxPool2D(2, 2),
            nn.Conv2D(50, 5, activation="tanh", in_channels=20), nn.MaxPool2D(2, 2), nn.Flatten(),
            nn.Dense(500, activation="tanh", in_units=800), nn.Dense(10, in_units=500))
    return net


def resnet18(mx):
    """The model zoo's ResNet-18 for 32 x 32 images and 10 classes, initialised."""
    net = mx.gluon.model_zoo.vision.resnet18_v1(thumbnail=True, classes=10)
    net.initialize(mx.init.Xavier())
    return net


def dense_job(mx, layers, units, batch, rate, activation=None):
    """Dense layers of one size in a job: network, store, trainer and this worker's batch (x, y)."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(units, activation=activation, in_units=units))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    store = mx.kv.create("dist_sync")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": rate, "momentum": 0.9}, kvstore=store)
    random = np.random.default_rng(store.rank)
    x, y = (mx.nd.array(random.normal(size=(batch, units)).astype("float32")) for _ in range(2))
    return net, store, trainer, x, y
