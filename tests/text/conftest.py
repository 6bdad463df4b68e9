import pytest
from small_tokenizer import write

from hybridspec.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory):
    return write(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def tokenizer(tokenizer_dir):
    return Tokenizer.from_dir(tokenizer_dir)
