"""Test the public names of `import asr`."""

import pytest

import asr


def test_every_public_name_can_be_imported():
    assert {name: getattr(asr, name).__name__ for name in asr.__all__ if name != "__version__"} == {
        name: name for name in asr.__all__ if name != "__version__"
    }
    assert set(asr.__all__) <= set(dir(asr))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="recogniser"):
        asr.recogniser  # noqa: B018
