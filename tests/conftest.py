"""What all unit tests share: reproducible numbers, and a device to run on."""

import pytest
import torch
from hypothesis import settings

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
