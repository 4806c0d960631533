"""What all unit tests share: reproducible numbers, a device to run on, and the tables that are kept."""

import re

import pytest
import torch
from hypothesis import settings

from tests import kept

settings.register_profile("posenc", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("posenc")
torch.set_num_threads(1)  # these tensors are tiny, and threads would only wait for one another

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


# What `make quick` leaves out, besides tests with a browser: by the file, or by the name of the test.
LONGER = {
    "export": re.compile(r"test_export\.py|test_explore\.py.*(graph|export|page|element)|::\w*(export|onnx)"),
    "compile": re.compile(r"::\w*compile|::test_a_graph_holds"),
    "train": re.compile(r"test_lab_|::\w*(it_learns|it_trains)"),
    "book": re.compile(r"test_(exercises|notebooks|build|kept|explore_live)\.py"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, pattern in LONGER.items():
            if pattern.search(item.nodeid.split("[")[0]):
                item.add_marker(mark)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep", action="store_true", help="keep the tables that tests find in chapters/checked")


def pytest_configure(config: pytest.Config) -> None:
    kept.register(config)
