"""The exception that every failed call raises."""


class FerruleError(RuntimeError):
    """A call failed. The text says what was wrong, where, and what to do.

    ``code`` is a stable name that says what to do next: ``invalid_argument`` (fix the call), ``unsupported`` (choose
    another codec, algorithm, dtype or operation), ``mismatch`` (ranks disagree), ``timeout``, ``peer_lost``, ``aborted``
    and ``corrupt`` (make a new communicator), ``system`` (the text has the operating system's reason), ``internal`` (a
    bug: please report it).
    """

    def __init__(self, text: str, code: str = "internal"):
        super().__init__(text)
        self.code = code

    def __reduce__(self):
        return type(self), (self.args[0], self.code)
