"""What a user is told when something does not fit: one sentence each, never a traceback."""


class HybridSpecError(Exception):
    """A problem with the user's input. The message says what is wrong, what was expected, what to
    do.

    The command line prints it and exits with code 2.
    """


def said_by(error: BaseException) -> str:
    """What another's error says, to stand within a sentence: its first line without an end mark."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .") if lines else repr(error)


class CheckpointError(HybridSpecError):
    """A checkpoint that cannot be used: missing, damaged, of another kind or pair."""


class RequestError(HybridSpecError):
    """A request that cannot be served: prompt, sampling parameter, decoding system or limit."""


class OptionError(RequestError):
    """An option whose value cannot be used. The command line says its flag in place of the name.

    Attributes:
        name: of the field or the parameter.
        said: the rest of the sentence.
    """

    def __init__(self, name: str, said: str) -> None:
        super().__init__(f"{name} {said}")
        self.name, self.said = name, said
