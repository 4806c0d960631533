"""Exercises of the chapter on wishes and how they are measured."""

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch

from posenc._attention.encoding import Encoding, NoPE
from posenc._properties import Report, properties
from posenc.exercises.attempt import Attempt, CounterExample, expect
from posenc.schemes.alibi import ALiBi
from posenc.schemes.distance_aware import DistanceAware
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoidal import Sinusoidal
from posenc.schemes.t5 import T5Bias
from posenc.schemes.xpos import XPos

E = TypeVar("E", bound=Encoding)
_REPORTS: WeakKeyDictionary[Attempt, Report] = WeakKeyDictionary()


def _report(make: Attempt) -> Report:
    if make not in _REPORTS:
        encoding = make()
        expect(
            isinstance(encoding, Encoding),
            f"{make.last} makes a {type(encoding).__name__}, which is no posenc.Encoding",
        )
        expect(
            set(encoding.doors) <= {"score_bias"},
            f"{make.last} opens {', '.join(encoding.doors)}, and score_bias alone is asked for",
        )
        try:
            _REPORTS[make] = properties(encoding, model_dim=64, heads=4, head_dim=16, length=512)
        except ValueError as error:
            raise CounterExample(str(error)) from error
    return _REPORTS[make]


def _meets(*wishes: str) -> Any:
    def holds(make: Attempt) -> None:
        for wish in wishes:
            result = _report(make)[wish]
            expect(result.verdict == "holds", f"{wish} {result.verdict}: {result.finding}")

    return holds


def _is_not_linear(make: Attempt) -> None:
    result = _report(make)["linear"]
    expect(result.verdict == "fails", f"linear {result.verdict}: {result.finding}")


def _drawn(encoding: E) -> E:
    """With parameters that are not zero: a table that starts at 0 says nothing."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return encoding


def _says(tells: Attempt, cases: dict[str, Encoding], expected: bool) -> None:
    for name, encoding in cases.items():
        before = {key: value.clone() for key, value in encoding.state_dict().items()}
        answer = tells(encoding)
        words = f"{tells.name}({name})"
        expect(isinstance(answer, bool), f"{words} returns {type(answer).__name__}, and True or False is asked for")
        expect(answer is expected, f"{words} is {answer}")
        kept = all(torch.equal(value, before[key]) for key, value in encoding.state_dict().items())
        expect(kept, f"{words} changes the encoding")


def _nothing(tells: Attempt) -> None:
    _says(tells, {"NoPE()": NoPE()}, False)


def _distances(tells: Attempt) -> None:
    symmetric = {"ALiBi(4, symmetric=True)": ALiBi(4, symmetric=True), "DistanceAware(4)": _drawn(DistanceAware(4))}
    _says(tells, symmetric, False)


def _signs(tells: Attempt) -> None:
    t5 = _drawn(T5Bias(4, bidirectional=True))
    _says(tells, {"T5Bias(4, bidirectional=True)": t5, "Shaw(16, values=False)": _drawn(Shaw(16, values=False))}, True)


def _rotations(tells: Attempt) -> None:
    _says(tells, {"RoPE(16)": RoPE(16)}, True)


def _values(tells: Attempt) -> None:
    shaw = _drawn(Shaw(16))
    torch.nn.init.zeros_(shaw.key_table)
    _says(tells, {"Shaw(16), whose keys' table is zero": shaw}, True)


def _codes(tells: Attempt) -> None:
    _says(tells, {"Sinusoidal(64)": Sinusoidal(64), "Learned(64, 512)": Learned(64, 512)}, True)


def _past(tells: Attempt) -> None:
    """One that is made for the past is not asked."""
    for name, encoding in {"ALiBi(4)": ALiBi(4), "XPos(16)": XPos(16)}.items():
        answer = tells(encoding)
        expect(answer is None, f"{tells.name}({name}) is {answer}, though the mask hides all that is to the right")


EXERCISES = {
    "properties_fading": [
        ("it runs, and only offsets matter", _meets("relative")),
        ("the expected score never rises with distance", _meets("decays")),
        ("scores do not grow without end", _meets("bounded")),
        ("the last of 512 queries tells all keys apart", _meets("unique")),
        ("it runs at any position, and a cache changes nothing", _meets("unlimited", "cacheable")),
        ("no linear map moves it", _is_not_linear),
    ],
    "properties_mirror": [
        ("without an encoding, left and right are the same", _nothing),
        ("a function of the distance cannot tell them apart", _distances),
        ("a function of the signed offset can", _signs),
        ("what shows for some queries and keys counts", _rotations),
        ("what shows in values only counts", _values),
        ("what is added to tokens counts", _codes),
        ("what is made for keys of the past does not apply: None", _past),
    ],
}
