"""What a user is told when something does not fit: one sentence each, never a traceback."""


class HybridSpecError(Exception):
    """A problem with the user's input. The message says what is wrong, what was expected, what to
    do.

    The command line prints it and exits with code 2.
    """


class CheckpointError(HybridSpecError):
    """A checkpoint that cannot be used: missing, damaged, of another kind or pair."""


class RequestError(HybridSpecError):
    """A request that cannot be served: prompt, sampling parameter, decoding system or limit."""
