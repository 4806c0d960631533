"""What all unit tests share: reproducible numbers, a device to run on, and the tables that are kept."""

import pytest
import torch
from hypothesis import settings

from tests import kept

settings.register_profile("posenc", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("posenc")
torch.set_num_threads(1)  # these tensors are tiny, and threads would only wait for one another

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


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
